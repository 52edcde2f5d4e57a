"""Codecs: output of clients is read, and data that lie about their size are stopped before they cost memory."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from functools import cache
from random import Random

import cramjam
import lz4.block
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsarscope.model.limits import DECOMPRESSED_MAX_BYTES
from pulsarscope.protocols.pulsar.entry import compression
from pulsarscope.protocols.pulsar.entry.compression import Opened, decompress
from tests.scenarios import compress
from tests.scenarios.chance import damaged, randoms
from tests.scenarios.samples import varint

CODECS = ("LZ4", "ZLIB", "ZSTD", "SNAPPY")
TEXT = b"a text that repeats itself, a text that repeats itself, and ends" * 20
ODD_CODES = {"decompress-failed", "decompress-bomb", "snappy-framed", "zlib-unfinished", "size-mismatch"}


def framed_snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress(data))


def flushed_zlib(data: bytes) -> bytes:
    """Data as written by the Java client: up to a sync flush, without a last block or a checksum."""
    deflater = zlib.compressobj()
    return deflater.compress(data) + deflater.flush(zlib.Z_SYNC_FLUSH)


class TestRoundTrip:
    @pytest.mark.parametrize("codec", ["NONE", *CODECS])
    @pytest.mark.parametrize("data", [b"", b"x", TEXT, os.urandom(5000), bytes(300_000)], ids=["empty", "byte", "text", "noise", "zeros"])
    def test_what_a_client_compressed_comes_back(self, codec: str, data: bytes) -> None:
        assert decompress(codec, compress(codec, data), len(data)) == Opened(data, None)

    @pytest.mark.parametrize("codec", CODECS)
    def test_it_does_without_the_size(self, codec: str) -> None:
        assert decompress(codec, compress(codec, TEXT), 0) == Opened(TEXT, None)

    def test_without_a_codec_the_size_says_nothing(self) -> None:
        for size in (0, 1, len(TEXT), (1 << 32) - 1):
            assert decompress("NONE", TEXT, size) == Opened(TEXT, None)

    def test_a_zstd_frame_need_not_declare_its_size(self) -> None:
        packer = zstandard.ZstdCompressor(write_content_size=False)
        assert decompress("ZSTD", packer.compress(TEXT), len(TEXT)) == Opened(TEXT, None)

    def test_a_zstd_payload_may_be_of_several_frames(self) -> None:
        packer = zstandard.ZstdCompressor()
        data = packer.compress(TEXT) + b"\x50\x2a\x4d\x18" + struct.pack("<I", 3) + b"abc" + packer.compress(b"more")
        assert decompress("ZSTD", data, len(TEXT) + 4) == Opened(TEXT + b"more", None)

    def test_unfinished_zlib_is_whole_and_noted(self) -> None:
        opened = decompress("ZLIB", flushed_zlib(TEXT), len(TEXT))
        assert opened.data == TEXT
        assert opened.note is not None
        assert opened.note[0] == "zlib-unfinished"

    def test_framed_snappy_is_read_and_noted(self) -> None:
        for size in (len(TEXT), 0):
            opened = decompress("SNAPPY", framed_snappy(TEXT), size)
            assert opened.data == TEXT
            assert opened.note is not None
            assert opened.note[0] == "snappy-framed"

    def test_a_large_framed_snappy_payload_of_many_chunks_is_read(self) -> None:
        data = os.urandom(100) * 5000
        opened = decompress("SNAPPY", framed_snappy(data), len(data))
        assert opened.data == data


class TestLies:
    @pytest.mark.parametrize("codec", CODECS)
    @pytest.mark.parametrize("size", [len(TEXT) + 1, len(TEXT) * 100])
    def test_a_size_too_large_is_a_mismatch_and_the_data_are_given(self, codec: str, size: int) -> None:
        opened = decompress(codec, compress(codec, TEXT), size)
        assert opened.note is not None
        assert opened.note[0] == "size-mismatch"
        assert f"{len(TEXT):,}" in opened.note[1]
        assert f"{size:,}" in opened.note[1]
        assert opened.data == TEXT

    @pytest.mark.parametrize("codec", CODECS)
    @pytest.mark.parametrize("size", [1, 10, len(TEXT) - 1])
    def test_a_size_too_small_opens_nothing(self, codec: str, size: int) -> None:
        opened = decompress(codec, compress(codec, TEXT), size)
        assert opened.data is None
        assert opened.note is not None
        assert opened.note[0] in {"decompress-bomb", "decompress-failed"}

    @pytest.mark.parametrize("codec", CODECS)
    @pytest.mark.parametrize("size", [DECOMPRESSED_MAX_BYTES + 1, (1 << 31) - 1, 1 << 31, (1 << 32) - 1])
    def test_a_size_above_the_bound_is_not_tried(self, codec: str, size: int) -> None:
        opened = decompress(codec, b"", size)
        assert opened.data is None
        assert opened.note == ("decompress-bomb", f"{codec} claims {size:,} bytes, the bound is {DECOMPRESSED_MAX_BYTES:,}")

    @pytest.mark.parametrize("codec", CODECS)
    @pytest.mark.parametrize("other", [codec for codec in ("NONE", *CODECS) if codec != "LZ4"])
    def test_another_codec_than_the_one_named_fails(self, codec: str, other: str) -> None:
        if codec == other:
            return
        opened = decompress(codec, compress(other, TEXT), len(TEXT))
        assert opened.note is not None
        assert opened.note[0] in ODD_CODES - {"snappy-framed"}
        assert opened.data is None or opened.data != TEXT

    @pytest.mark.parametrize("codec", ["", "none", "Unknown(9)", "GZIP"])
    def test_a_codec_without_a_name_fails(self, codec: str) -> None:
        assert decompress(codec, TEXT, len(TEXT)) == Opened(None, ("decompress-failed", f"no codec is named {codec}"))

    @pytest.mark.parametrize("codec", CODECS)
    def test_nothing_at_all_is_no_compressed_payload(self, codec: str) -> None:
        opened = decompress(codec, b"", 5)
        assert opened.note is not None
        assert not opened.data

    @pytest.mark.parametrize("codec", CODECS)
    def test_a_payload_cut_off_is_noticed_by_its_size(self, codec: str) -> None:
        whole = compress(codec, TEXT)
        for end in range(len(whole)):
            opened = decompress(codec, whole[:end], len(TEXT))
            assert opened.note is not None or opened.data == TEXT

    @pytest.mark.parametrize("codec", CODECS)
    @given(random=randoms)
    @settings(max_examples=60)
    def test_damage_gives_an_answer_within_the_bound(self, codec: str, random: Random) -> None:
        data = damaged(compress(codec, TEXT[: random.randrange(1, 500)]), random)
        for size in (0, 1, 500, 100_000):
            opened = decompress(codec, data, size)
            assert opened.data is None or len(opened.data) <= (size or DECOMPRESSED_MAX_BYTES)
            assert opened.note is None or opened.note[0] in ODD_CODES
            assert opened.data is not None or opened.note is not None

    @given(st.sampled_from(CODECS), st.binary(max_size=50))
    @settings(max_examples=80)
    def test_any_bytes_give_an_answer(self, codec: str, data: bytes) -> None:
        opened = decompress(codec, data, 1000)
        assert opened.data is None or len(opened.data) <= 1000


def zstd_header(content_size: int, window: int = 0) -> bytes:
    """A frame header that declares a content size in 8 bytes, without content."""
    return b"\x28\xb5\x2f\xfd" + bytes([0xC0, window]) + struct.pack("<Q", content_size)


BOMBS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "zlib 1000:1": ("ZLIB", lambda: zlib.compress(bytes(100 << 20), 9)),
    "zstd of zeros": ("ZSTD", lambda: zstandard.ZstdCompressor().compress(bytes(100 << 20))),
    "zstd of many frames": ("ZSTD", lambda: zstandard.ZstdCompressor().compress(bytes(1 << 20)) * 100),
    "zstd announcing 2^40": ("ZSTD", lambda: zstd_header(1 << 40)),
    "zstd with a window of 2^31": ("ZSTD", lambda: zstd_header(1 << 20, 0xA8)),
    "snappy announcing 4 GiB": ("SNAPPY", lambda: varint((1 << 32) - 1) + b"\x00"),
    "snappy announcing the bound": ("SNAPPY", lambda: varint(64 << 20) + b"\x00"),
    "framed snappy": ("SNAPPY", lambda: framed_snappy(bytes(100 << 20))),
    "lz4 of zeros": ("LZ4", lambda: bytes(lz4.block.compress(bytes(100 << 20), store_size=False))),
    "lz4 of one byte": ("LZ4", lambda: b"\x00"),
    "lz4 with an offset of 0": ("LZ4", lambda: b"\x1fa\x00\x00\xff\xff\xff\x00"),
}


@cache
def bomb(name: str) -> tuple[str, bytes]:
    """Codec and data, made on demand: some are packed from 100 MiB."""
    codec, make = BOMBS[name]
    return codec, make()


MEASURE = """
import resource, sys
from pulsarscope.protocols.pulsar.entry.compression import decompress
import cramjam, lz4.block, zstandard, zlib
codec, size = sys.argv[1], int(sys.argv[2])
data = sys.stdin.buffer.read()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
opened = decompress(codec, data, size)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((after - before) // 1024, None if opened.data is None else len(opened.data), opened.note[0] if opened.note else None)
"""


class TestBombs:
    @pytest.mark.parametrize("name", BOMBS)
    @pytest.mark.parametrize("size", [0, 1000, DECOMPRESSED_MAX_BYTES])
    def test_a_bomb_gives_no_more_than_the_bound(self, name: str, size: int) -> None:
        codec, data = bomb(name)
        opened = decompress(codec, data, size)
        assert opened.data is None or len(opened.data) <= (size or DECOMPRESSED_MAX_BYTES)
        assert opened.note is not None or (name, opened.data) == ("lz4 of one byte", b"")
        assert opened.note is None or opened.note[0] in ODD_CODES

    @pytest.mark.parametrize("name", ["zlib 1000:1", "zstd of zeros", "zstd of many frames", "framed snappy", "lz4 of zeros"])
    def test_a_bomb_larger_than_the_bound_is_called_one_and_takes_little_memory(self, name: str) -> None:
        """Measured from outside: memory of the codecs is not Python's."""
        codec, data = bomb(name)
        command = [sys.executable, "-c", MEASURE, codec, "0"]
        result = subprocess.run(command, input=data, capture_output=True, timeout=60, check=False)
        assert result.returncode == 0, result.stderr.decode()
        megabytes, length, code = result.stdout.split()
        assert int(megabytes) < 3 * (DECOMPRESSED_MAX_BYTES >> 20)
        assert (length, code in {b"decompress-bomb", b"decompress-failed"}) == (b"None", True)

    def test_a_small_payload_that_claims_little_takes_little(self) -> None:
        command = [sys.executable, "-c", MEASURE, "ZLIB", "1000"]
        result = subprocess.run(command, input=bomb("zlib 1000:1")[1], capture_output=True, timeout=60, check=False)
        megabytes, length, code = result.stdout.split()
        assert (int(megabytes) < 8, length, code) == (True, b"None", b"decompress-bomb")


def test_what_a_codec_raises_becomes_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (MemoryError(), OverflowError("too large"), ValueError("odd"), RuntimeError("x"), OSError("y")):

        def fails(_data: bytes, _bound: int, error: Exception = error) -> Opened:
            raise error

        monkeypatch.setitem(compression._CODECS, "LZ4", fails)
        opened = decompress("LZ4", b"x", 10)
        assert opened.data is None
        assert opened.note == ("decompress-failed", f"LZ4: {str(error) or type(error).__name__}")
