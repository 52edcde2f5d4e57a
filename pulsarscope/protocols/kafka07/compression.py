"""Codecs of Kafka 0.7 with bounded output: gzip, and Snappy raw or framed by xerial's snappy-java."""

from __future__ import annotations

import zlib
from typing import NamedTuple

from pulsarscope.protocols.kafka07.cursor import Cursor, ParseError

XERIAL_MAGIC = b"\x82SNAPPY\x00"
"""First bytes of snappy-java's SnappyOutputStream; two versions follow, then blocks."""

XERIAL_VERSIONS_BYTES = 8

GZIP_WBITS = 16 + zlib.MAX_WBITS
"""Value of `wbits` that makes zlib expect a gzip header (RFC 1952)."""


class Decompressed(NamedTuple):
    """Result of a decompression."""

    data: bytes | None
    """None when the bytes could not be decompressed."""
    note: tuple[str, str] | None = None
    """Finding code and text of the failure."""


def decompress(codec: str, data: bytes, bound: int) -> Decompressed:
    """Decompress with a codec (GZIP or SNAPPY), up to `bound` bytes."""
    import cramjam  # noqa: PLC0415 - heavy, only when a set is opened

    try:
        output = _gunzip(data, bound) if codec == "GZIP" else _decompress_snappy(data, bound)
    except (zlib.error, ParseError, cramjam.DecompressionError, ValueError, OverflowError, MemoryError) as error:
        return Decompressed(None, ("decompress-failed", f"{codec}: {str(error) or type(error).__name__}"))
    if output is None:
        return Decompressed(None, ("decompress-bomb", f"{codec} gives more than the {bound} bytes that are allowed"))
    return Decompressed(output)


def _gunzip(data: bytes, bound: int) -> bytes | None:
    """Return the content of the one gzip member that Kafka writes; None when it is larger than the bound."""
    inflater = zlib.decompressobj(GZIP_WBITS)
    output = inflater.decompress(data, bound + 1)
    if len(output) > bound:
        return None
    if not inflater.eof:
        raise ParseError("the stream ends too soon")
    return output


def _decompress_snappy(data: bytes, bound: int) -> bytes | None:
    if not data.startswith(XERIAL_MAGIC):
        return _decompress_block(data, bound)
    cursor = Cursor(data, len(XERIAL_MAGIC), len(data))
    cursor.skip(XERIAL_VERSIONS_BYTES)
    blocks: list[bytes] = []
    remaining = bound
    while cursor.position < cursor.end:
        size = cursor.int32()
        if size < 0:
            raise ParseError(f"a block of {size} bytes cannot be")
        start = cursor.skip(size)
        if (block := _decompress_block(data[start : start + size], remaining)) is None:
            return None
        blocks.append(block)
        remaining -= len(block)
    return b"".join(blocks)


def _decompress_block(block: bytes, bound: int) -> bytes | None:
    import cramjam  # noqa: PLC0415

    if cramjam.snappy.decompress_raw_len(block) > bound:
        return None
    return bytes(cramjam.snappy.decompress_raw(block))
