"""Longer streams have the wanted size and the same content."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable

import cramjam
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.dissect.blanking.longer_streams import longer_framed_snappy, longer_gzip, longer_snappy, longer_zlib, longer_zstd

CONTENTS = st.one_of(st.binary(max_size=300), st.binary(min_size=1, max_size=9).map(lambda text: text * 4_000))

Packer = tuple[Callable[[bytes], bytes], Callable[[bytes, int, bytes], bytes | None], Callable[[bytes], bytes]]

GZIP: Packer = gzip.compress, longer_gzip, gzip.decompress
ZLIB: Packer = zlib.compress, longer_zlib, zlib.decompress
ZSTD: Packer = zstandard.ZstdCompressor().compress, longer_zstd, zstandard.ZstdDecompressor().decompress
SNAPPY: Packer = (
    lambda content: bytes(cramjam.snappy.compress_raw(content)),
    longer_snappy,
    lambda stream: bytes(cramjam.snappy.decompress_raw(stream)),
)
FRAMED: Packer = (
    lambda content: bytes(cramjam.snappy.compress(content)),
    longer_framed_snappy,
    lambda stream: bytes(cramjam.snappy.decompress(stream)),
)


@pytest.mark.parametrize("packer", [GZIP, ZLIB, ZSTD, SNAPPY, FRAMED], ids=["gzip", "zlib", "zstd", "snappy", "framed-snappy"])
@given(content=CONTENTS, lacks=st.integers(1, 400))
def test_a_longer_stream_has_the_size_and_the_content(packer: Packer, content: bytes, lacks: int) -> None:
    compress, lengthen, decompress = packer
    stream = compress(content)
    longer = lengthen(stream, lacks, content)
    assert longer is None or (len(longer) == len(stream) + lacks and decompress(longer) == content)


@pytest.mark.parametrize(
    ("packer", "impossible"), [(GZIP, set()), (ZLIB, {1, 2, 3, 4, 8}), (FRAMED, {1, 2, 3})], ids=["gzip", "zlib", "framed"]
)
def test_nearly_every_size_can_be_had(packer: Packer, impossible: set[int]) -> None:
    compress, lengthen, _ = packer
    assert {lacks for lacks in range(1, 100) if lengthen(compress(b"text"), lacks, b"text") is None} == impossible


@pytest.mark.parametrize("content", [b"ab" * 50_000, b"ab", bytes(range(256)) * 300], ids=["copies", "literal", "long-literals"])
def test_snappy_says_all_in_up_to_twice_the_bytes(content: bytes) -> None:
    compress, lengthen, _ = SNAPPY
    stream = compress(content)
    room = 2 * len(content) - len(stream)
    assert [lacks for lacks in (1, 2, 3, 59, 60, 61, room // 2) if lacks < room and lengthen(stream, lacks, content) is None] == []
