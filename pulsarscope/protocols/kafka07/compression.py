"""The codecs of Kafka 0.7: gzip, and Snappy as xerial's snappy-java frames it or raw. Bounded whatever the bytes claim."""

from __future__ import annotations

import zlib
from typing import NamedTuple

from pulsarscope.protocols.kafka07.cursor import Cursor, WireError

XERIAL_MAGIC = b"\x82SNAPPY\x00"
"""How snappy-java's SnappyOutputStream begins; two versions follow, then blocks."""

XERIAL_VERSIONS_BYTES = 8

GZIP_WBITS = 16 + zlib.MAX_WBITS
"""zlib's word for a gzip header (RFC 1952)."""


class Opened(NamedTuple):
    """Decompressed bytes, or None; and what was odd: (finding code, text)."""

    data: bytes | None
    note: tuple[str, str] | None = None


def decompress(codec: str, data: bytes, bound: int) -> Opened:
    """Undo a codec (GZIP or SNAPPY), unless more than `bound` bytes come out."""
    import cramjam  # noqa: PLC0415 - heavy, only when a set is opened

    try:
        opened = _gunzip(data, bound) if codec == "GZIP" else _unsnappy(data, bound)
    except (zlib.error, WireError, cramjam.DecompressionError, ValueError, OverflowError, MemoryError) as error:
        return Opened(None, ("decompress-failed", f"{codec}: {str(error) or type(error).__name__}"))
    if opened is None:
        return Opened(None, ("decompress-bomb", f"{codec} gives more than the {bound} bytes that are allowed"))
    return Opened(opened)


def _gunzip(data: bytes, bound: int) -> bytes | None:
    """The one member that Kafka writes; None when it holds too much."""
    inflater = zlib.decompressobj(GZIP_WBITS)
    opened = inflater.decompress(data, bound + 1)
    if len(opened) > bound:
        return None
    if not inflater.eof:
        raise WireError("the stream ends too soon")
    return opened


def _unsnappy(data: bytes, bound: int) -> bytes | None:
    if not data.startswith(XERIAL_MAGIC):
        return _unsnap(data, bound)
    cursor = Cursor(data, len(XERIAL_MAGIC), len(data))
    cursor.skip(XERIAL_VERSIONS_BYTES)
    parts: list[bytes] = []
    left = bound
    while cursor.position < cursor.end:
        size = cursor.int32()
        if size < 0:
            raise WireError(f"a block of {size} bytes cannot be")
        start = cursor.skip(size)
        part = _unsnap(data[start : start + size], left)
        if part is None:
            return None
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _unsnap(block: bytes, bound: int) -> bytes | None:
    import cramjam  # noqa: PLC0415

    if cramjam.snappy.decompress_raw_len(block) > bound:
        return None
    return bytes(cramjam.snappy.decompress_raw(block))
