"""Compressed streams made longer by an exact number of bytes, with the same content, as far as their format allows."""

from __future__ import annotations

from collections.abc import Iterator

_GZIP_HEAD, _GZIP_FLAGS_AT, _GZIP_COMMENT = 10, 3, 0x10
_ZLIB_HEAD = 2

_STORED = b"\x00\x00\xff\xff"
"""Sizes of an empty stored block."""

_EMPTY_BLOCKS = {5: bytes(1) + _STORED, 6: b"\x02\x00" + _STORED, 7: b"\x02\x08\x00" + _STORED, 9: b"\x02\x08\x20\x00\x00" + _STORED}
"""Empty blocks by size in bytes: none to three blocks with the fixed codes, of ten bits each, then a stored one, which ends at a byte."""

_WITH_REST = ((), (6,), (7,), (6, 7), (9,))
"""Sizes of empty blocks to add, by remainder modulo five, so that a multiple of five bytes remains."""

_ZSTD_FLAGS_AT, _ZSTD_SINGLE_SEGMENT = 4, 0x20
_ZSTD_DICTIONARY_BYTES, _ZSTD_SIZE_BYTES = (0, 1, 2, 4), (0, 2, 4, 8)
_ZSTD_BLOCK = 3

_SNAPPY_PADDING, _SNAPPY_CHUNK_HEAD = 0xFE, 4
_SNAPPY_SHORT_MAX = 60
"""Longest literal, in bytes, whose size fits into its tag."""

_SNAPPY_COPY_BYTES = 3
"""Bytes of a copy with a two-byte offset, which may have any size up to 64."""


def longer_gzip(stream: bytes, lacks: int, _: bytes) -> bytes | None:
    """Add a comment (RFC 1952, 2.3) to a member without one."""
    if stream[_GZIP_FLAGS_AT]:
        return None
    head = bytearray(stream[:_GZIP_HEAD])
    head[_GZIP_FLAGS_AT] = _GZIP_COMMENT
    return bytes(head) + b"x" * (lacks - 1) + b"\0" + stream[_GZIP_HEAD:]


def longer_zlib(stream: bytes, lacks: int, _: bytes) -> bytes | None:
    """Add empty blocks (RFC 1951, 3.2.3) before the first one."""
    sizes = _WITH_REST[lacks % 5]
    if (left := lacks - sum(sizes)) < 0:
        return None
    blocks = b"".join(_EMPTY_BLOCKS[size] for size in sizes) + _EMPTY_BLOCKS[5] * (left // 5)
    return stream[:_ZLIB_HEAD] + blocks + stream[_ZLIB_HEAD:]


def longer_zstd(stream: bytes, lacks: int, _: bytes) -> bytes | None:
    """Add empty raw blocks (RFC 8878, 3.1.1.2) before the first one."""
    if lacks % _ZSTD_BLOCK:
        return None
    flags = stream[_ZSTD_FLAGS_AT]
    single = bool(flags & _ZSTD_SINGLE_SEGMENT)
    head = _ZSTD_FLAGS_AT + 1 + (not single) + _ZSTD_DICTIONARY_BYTES[flags & 3] + (_ZSTD_SIZE_BYTES[flags >> 6] or single)
    return stream[:head] + bytes(lacks) + stream[head:]


def longer_framed_snappy(stream: bytes, lacks: int, content: bytes) -> bytes | None:
    """Add a chunk of padding (framing format, 4.4) at the end."""
    size = lacks - _SNAPPY_CHUNK_HEAD
    return stream + bytes([_SNAPPY_PADDING]) + size.to_bytes(3, "little") + bytes(size) if content and 0 <= size < 1 << 24 else None


def longer_snappy(stream: bytes, lacks: int, content: bytes) -> bytes | None:
    """Replace copies with literals, and literals with two each."""
    start = next(index for index, byte in enumerate(stream) if byte < 0x80) + 1
    out = [stream[:start]]
    position = 0
    for begin, end, is_copy, size in _elements(stream, start):
        element, said = stream[begin:end], content[position : position + size]
        position += size
        if lacks:
            wanted = len(element) + lacks
            longer = _literals(said, wanted) if not is_copy or wanted >= _literal_bytes(size) else _partly_copied(element, said, wanted)
            lacks -= len(longer) - len(element)
            element = longer
        out.append(element)
    return b"".join(out) if lacks == 0 else None


def _literals(said: bytes, wanted: int) -> bytes:
    """Return these bytes as literals that take at most `wanted` bytes; but not one byte less if two less is possible."""
    size = len(said)
    singles = min(wanted - _literal_bytes(size), size - 1)
    while singles and (2 * singles + _literal_bytes(size - singles) > wanted or 2 * singles + _literal_bytes(size - singles) == wanted - 1):
        singles -= 1
    return b"".join(b"\0" + said[index : index + 1] for index in range(singles)) + _literal(said[singles:])


def _partly_copied(element: bytes, said: bytes, wanted: int) -> bytes:
    """Return a literal and a copy of the rest, if these take at most `wanted` bytes; otherwise the copy unchanged."""
    taken = min(wanted - len(element) - 1, len(said) - 1, _SNAPPY_SHORT_MAX)
    if len(element) != _SNAPPY_COPY_BYTES or taken < 1:
        return element
    return _literal(said[:taken]) + bytes([len(said) - taken - 1 << 2 | 2]) + element[1:]


def _literal_bytes(size: int) -> int:
    return 1 + size + (((size - 1).bit_length() + 7) // 8 if size > _SNAPPY_SHORT_MAX else 0)


def _literal(said: bytes) -> bytes:
    number = len(said) - 1
    if number < _SNAPPY_SHORT_MAX:
        return bytes([number << 2]) + said
    wide = (number.bit_length() + 7) // 8
    return bytes([_SNAPPY_SHORT_MAX - 1 + wide << 2]) + number.to_bytes(wide, "little") + said


def _elements(stream: bytes, position: int) -> Iterator[tuple[int, int, bool, int]]:
    """Yield start, end, whether it is a copy, and the content size of each element of a block."""
    while position < len(stream):
        kind, number = stream[position] & 3, stream[position] >> 2
        if kind:
            size = (number & 7) + 4 if kind == 1 else number + 1
            end = position + (2, 3, 5)[kind - 1]
        else:
            wide = max(number - _SNAPPY_SHORT_MAX + 1, 0)
            size = 1 + (int.from_bytes(stream[position + 1 : position + 1 + wide], "little") if wide else number)
            end = position + 1 + wide + size
        yield position, end, bool(kind), size
        position = end
