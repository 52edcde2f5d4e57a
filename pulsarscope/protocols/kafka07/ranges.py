"""Named byte ranges of one frame, for the hex view. Responses have no type, so they are named by the kind that fits their bytes."""

from __future__ import annotations

from pulsarscope.protocols.kafka07.commands import (
    FETCH_RESPONSE,
    MULTIFETCH,
    MULTIFETCH_RESPONSE,
    MULTIPRODUCE,
    OFFSETS,
    OFFSETS_RESPONSE,
    PRODUCE,
    RESPONSE,
)
from pulsarscope.protocols.kafka07.frame import decode_partial
from pulsarscope.protocols.kafka07.messages import CRC_AT, CRC_BYTES, MAGIC_1, SIZE_BYTES
from pulsarscope.protocols.kafka07.responses import OFFSET_BYTES, shape

Range = tuple[int, int, str, int]
"""(start, end, name, depth) in bytes from the start of the frame."""

RANGES_MAX = 65_536
"""Most ranges named in one frame: a frame of tiny messages has millions."""


class _RangeList:
    """Consecutive named ranges, up to the end of the bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0
        self.out: list[Range] = []

    def more(self, end: int) -> bool:
        """Return True if there are more bytes before `end` to name."""
        return self.position < min(end, len(self.data)) and len(self.out) < RANGES_MAX

    def name(self, size: int, name: str, depth: int = 0) -> int:
        """Name the next `size` bytes, and return them as a signed integer."""
        start, end = self.position, min(self.position + max(size, 0), len(self.data))
        if start < end:
            self.out.append((start, end, name, depth))
        self.position = end
        return int.from_bytes(self.data[start : min(end, start + 8)], "big", signed=True)

    def enclose(self, size: int, name: str, depth: int) -> int:
        """Name the next `size` bytes without advancing, for inner ranges, and return their end."""
        end = min(self.position + max(size, 0), len(self.data))
        if self.position < end:
            self.out.append((self.position, end, name, depth))
        return end


def ranges(data: bytes) -> list[Range]:
    """Return all ranges, outer before inner, as far as the frame can be read. Never raises on any bytes."""
    named = _RangeList(data)
    named.name(4, "length")
    command = decode_partial(data, 0, len(data))[0]
    if command == RESPONSE or command is None:
        _response(named, shape(data, 0, len(data)))
    else:
        _request(named, command)
    if named.more(len(data)):
        named.name(len(data), "contents" if command == RESPONSE else "trailing bytes")
    return named.out


def _request(named: _RangeList, command: str) -> None:
    named.name(2, "type")
    several = command in (MULTIFETCH, MULTIPRODUCE)
    for _ in range(named.name(2, "count") if several else 1):
        if not named.more(len(named.data)):
            return
        named.name(named.name(2, "topic length"), "topic")
        named.name(4, "partition")
        if command in (PRODUCE, MULTIPRODUCE):
            _set(named, named.name(4, "messages length"), 0)
        else:
            named.name(8, "time" if command == OFFSETS else "offset")
            named.name(4, "max offsets" if command == OFFSETS else "max size")


def _response(named: _RangeList, command: str | None) -> None:
    named.name(2, "error")
    if command == FETCH_RESPONSE:
        _set(named, len(named.data) - named.position, 0)
    elif command == OFFSETS_RESPONSE:
        for _ in range(named.name(4, "count")):
            if not named.more(len(named.data)):
                return
            named.name(OFFSET_BYTES, "offset")
    elif command == MULTIFETCH_RESPONSE:
        while named.more(len(named.data)):
            size = named.name(4, "part length")
            named.name(2, "error", 1)
            _set(named, size - 2, 1)


def _set(named: _RangeList, size: int, depth: int) -> None:
    """Name the entries of a message set, without the contents of compressed ones."""
    end = named.enclose(size, "message set", depth)
    while named.more(end):
        if end - named.position < SIZE_BYTES + 1:
            break
        length = int.from_bytes(named.data[named.position : named.position + SIZE_BYTES], "big", signed=True)
        magic = named.data[named.position + SIZE_BYTES]
        stop = named.position + SIZE_BYTES + length
        if stop > end or magic not in CRC_AT or length < CRC_AT[magic] + CRC_BYTES:
            break
        named.enclose(SIZE_BYTES + length, "message", depth + 1)
        named.name(SIZE_BYTES, "message length", depth + 2)
        named.name(1, "magic", depth + 2)
        if magic == MAGIC_1:
            named.name(1, "attributes", depth + 2)
        named.name(CRC_BYTES, "CRC32", depth + 2)
        named.name(stop - named.position, "payload", depth + 2)
    if named.more(end):
        named.name(end - named.position, "cut message", depth + 1)
