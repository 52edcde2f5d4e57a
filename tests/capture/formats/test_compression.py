from __future__ import annotations

import bz2
import gzip
import lzma
import struct
from typing import Any

import lz4.frame
import pytest
import zstandard

from pulsarscope.capture.formats import compression
from tests.scenarios.capture_bytes import START, Record, blocks_of, findings_of, pcap, segment_packet, segments_of

DATA = pcap([Record(segment_packet(b"%04d" % number), START + number * 1000) for number in range(2000)])
SEGMENTS = segments_of(blocks_of(DATA))


def zst(data: bytes, *, checksum: bool = True, sized: bool = True) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=checksum, write_content_size=sized).compress(data)


def many_blocks(data: bytes) -> bytes:
    """Build one frame whose blocks end at the flushes of the writer."""
    compressor = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    parts = [
        compressor.compress(data[start : start + 5000]) + compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        for start in range(0, len(data), 5000)
    ]
    return b"".join(parts) + compressor.flush()


HALF = len(DATA) // 2
SKIPPABLE = b"\x53\x2a\x4d\x18" + struct.pack("<I", 5) + b"12345"

WHOLE = [
    ("gzip", gzip.compress(DATA)),
    ("gzip-members", gzip.compress(DATA[:HALF]) + gzip.compress(b"") + gzip.compress(DATA[HALF:])),
    ("gzip-padded", gzip.compress(DATA[:HALF]) + bytes(100) + gzip.compress(DATA[HALF:]) + bytes(700)),
    ("zstd", zst(DATA)),
    ("zstd-without-checksum", zst(DATA, checksum=False)),
    ("zstd-without-size", zst(DATA, sized=False)),
    ("zstd-frames", zst(DATA[:HALF]) + zst(b"") + zst(DATA[HALF:], checksum=False)),
    ("zstd-blocks", many_blocks(DATA)),
    ("zstd-skippable", SKIPPABLE + zst(DATA[:HALF]) + SKIPPABLE + zst(DATA[HALF:]) + SKIPPABLE),
    ("xz", lzma.compress(DATA)),
    ("xz-streams", lzma.compress(DATA[:HALF]) + bytes(8) + lzma.compress(b"") + lzma.compress(DATA[HALF:], check=lzma.CHECK_SHA256)),
    ("bzip2", bz2.compress(DATA)),
    ("bzip2-streams", bz2.compress(DATA[:HALF], 1) + bz2.compress(b"") + bz2.compress(DATA[HALF:])),
    ("lz4", lz4.frame.compress(DATA)),
    ("lz4-frames", lz4.frame.compress(DATA[:HALF], content_checksum=True) + lz4.frame.compress(b"") + lz4.frame.compress(DATA[HALF:])),
    ("zstd-raw-blocks", zstandard.ZstdCompressor(level=-100).compress(DATA)),
]


@pytest.mark.parametrize("data", [case[1] for case in WHOLE], ids=[case[0] for case in WHOLE])
@pytest.mark.parametrize("read_bytes", [7, 1 << 20])
def test_a_compressed_capture_reads_like_a_plain_one(data: bytes, read_bytes: int) -> None:
    blocks = blocks_of(data, read_bytes=read_bytes)
    assert segments_of(blocks) == SEGMENTS
    assert findings_of(blocks) == {}
    assert blocks[-1].bytes_read == len(data)


CUT = {"gzip": gzip.compress(DATA), "zstd": many_blocks(DATA), "xz": lzma.compress(DATA), "bzip2": bz2.compress(DATA, 1)}


@pytest.mark.parametrize("data", CUT.values(), ids=CUT)
@pytest.mark.parametrize("read_bytes", [1000, 1 << 20])
def test_a_cut_file_gives_what_it_has(data: bytes, read_bytes: int) -> None:
    longest = 0
    for size in (*range(200, len(data), 700), len(data) - 5, len(data) - 1):
        blocks = blocks_of(data[:size], read_bytes=read_bytes)
        findings = findings_of(blocks)
        if "not-a-capture" in findings:  # cut before the file header was decompressed
            assert size < 2000 or data.startswith(b"BZh")  # whose first block has 100 KB
            assert findings["not-a-capture"].hint == "The compressed file is incomplete: copy it again."
            continue
        segments = segments_of(blocks)
        assert segments == SEGMENTS[: len(segments)]
        assert len(segments) >= longest
        longest = len(segments)
        assert findings["capture-truncated"].evidence["bytes_read"] == size
        assert len(findings) == 1
    assert longest == len(SEGMENTS)


@pytest.mark.parametrize(
    "data",
    [
        gzip.compress(DATA)[:-8] + bytes(8),
        gzip.compress(DATA) + b"trailing",
        zst(DATA)[:-4] + bytes(4),
        many_blocks(DATA)[:-4] + bytes(4),
        zst(DATA) + b"trailing",
        lzma.compress(DATA) + b"trailing",
        bz2.compress(DATA) + b"trailing",
        lz4.frame.compress(DATA) + b"trailing",
    ],
    ids=[
        "gzip-checksum",
        "gzip-trailing",
        "zstd-checksum",
        "zstd-blocks-checksum",
        "zstd-trailing",
        "xz-trailing",
        "bzip2-trailing",
        "lz4-trailing",
    ],
)
def test_damage_at_the_end_loses_nothing_before_it(data: bytes) -> None:
    blocks = blocks_of(data)
    assert segments_of(blocks) == SEGMENTS
    assert list(findings_of(blocks)) == ["capture-malformed"]


@pytest.mark.parametrize("data", [gzip.compress(DATA), many_blocks(DATA)], ids=["gzip", "zstd"])
def test_damage_in_the_middle_gives_what_stands_before(data: bytes) -> None:
    middle = len(data) // 2
    blocks = blocks_of(data[:middle] + b"\xff" * 64 + data[middle + 64 :])
    segments = segments_of(blocks)
    assert len(segments) > 100
    assert segments[:100] == SEGMENTS[:100]
    assert "capture-malformed" in findings_of(blocks)


@pytest.mark.slow
def test_a_bomb_ends_the_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "DECOMPRESS_FREE_BYTES", 1 << 20)
    bomb = DATA + bytes(40 << 20)
    for data in (zst(bomb), gzip.compress(bomb, 9)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(compression, "DECOMPRESS_RATIO_MAX", 100)
            findings = findings_of(blocks_of(data))
        assert "expands more than 100-fold" in findings["capture-malformed"].text
        assert findings["capture-malformed"].evidence["decompressed"] < 10 << 20


@pytest.mark.parametrize("content", [b"", b"some text\n", gzip.compress(DATA)], ids=["empty", "text", "gzip"])
def test_what_is_no_capture_inside_is_not_a_capture(content: bytes) -> None:
    for data in (gzip.compress(content), zst(content)):
        assert list(findings_of(blocks_of(data))) == ["not-a-capture"]


def test_a_broken_first_member_is_not_a_capture() -> None:
    for data in (b"\x1f\x8b" + bytes(50), b"\x28\xb5\x2f\xfd" + b"\xff" * 50):
        (finding,) = blocks_of(data)[-1].findings
        assert finding.code == "not-a-capture"
        assert "not readable as a capture" in finding.text
        assert "Give a pcap" in finding.advice


@pytest.mark.parametrize("compress", [gzip.compress, zst, lzma.compress, bz2.compress, lz4.frame.compress])
@pytest.mark.parametrize("content", [DATA, DATA[:20]], ids=["capture", "part-of-a-header"])
@pytest.mark.parametrize("size", [9, 15, -1])
def test_a_file_cut_before_its_first_block_is_to_be_copied_again(compress: Any, content: bytes, size: int) -> None:
    data = compress(content)[:size]
    findings = findings_of(blocks_of(data))
    if "not-a-capture" in findings:
        assert findings["not-a-capture"].advice.endswith("The compressed file is incomplete: copy it again.")
    else:
        assert content == DATA
        assert size == -1


def test_text_in_a_cut_file_is_not_said_to_be_incomplete() -> None:
    data = many_blocks(b"some text\n" * 100_000)[:-1]
    assert "Give a pcap" in findings_of(blocks_of(data))["not-a-capture"].advice


@pytest.mark.slow
def test_pieces_stay_small_however_far_the_input_inflates() -> None:
    zeros = bytes(64 << 20)
    for data in (gzip.compress(zeros), zst(zeros)):
        pieces = compression.decompressed(iter([data]), compression.ReadProgress(len(data)), 0)
        assert max(map(len, pieces)) <= 1 << 20
