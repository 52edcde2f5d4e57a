"""Named byte ranges of one frame, for the hex view. A frame does not say what it answers: a response is named as the one that it can be."""

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
"""Ranges named in one frame: more than anyone reads, and a frame of tiny messages has millions."""


class _Names:
    """Names ranges one behind the other, as far as the bytes go."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0
        self.out: list[Range] = []

    def more(self, end: int) -> bool:
        """Whether there are bytes before `end` to name."""
        return self.position < min(end, len(self.data)) and len(self.out) < RANGES_MAX

    def name(self, size: int, name: str, depth: int = 0) -> int:
        """Name the next `size` bytes; returns them as a signed integer."""
        start, end = self.position, min(self.position + max(size, 0), len(self.data))
        if start < end:
            self.out.append((start, end, name, depth))
        self.position = end
        return int.from_bytes(self.data[start : min(end, start + 8)], "big", signed=True)

    def within(self, size: int, name: str, depth: int) -> int:
        """Name the next `size` bytes without going on: their own ranges follow. Returns where they end."""
        end = min(self.position + max(size, 0), len(self.data))
        if self.position < end:
            self.out.append((self.position, end, name, depth))
        return end


def ranges(data: bytes) -> list[Range]:
    """All ranges, outer before inner; as far as the frame can be read. Never raises on any bytes."""
    names = _Names(data)
    names.name(4, "length")
    command = decode_partial(data, 0, len(data))[0]
    if command == RESPONSE or command is None:
        _response(names, shape(data, 0, len(data)))
    else:
        _request(names, command)
    if names.more(len(data)):
        names.name(len(data), "contents" if command == RESPONSE else "trailing bytes")
    return names.out


def _request(names: _Names, command: str) -> None:
    names.name(2, "type")
    several = command in (MULTIFETCH, MULTIPRODUCE)
    for _ in range(names.name(2, "count") if several else 1):
        if not names.more(len(names.data)):
            return
        names.name(names.name(2, "topic length"), "topic")
        names.name(4, "partition")
        if command in (PRODUCE, MULTIPRODUCE):
            _set(names, names.name(4, "messages length"), 0)
        else:
            names.name(8, "time" if command == OFFSETS else "offset")
            names.name(4, "max offsets" if command == OFFSETS else "max size")


def _response(names: _Names, command: str | None) -> None:
    names.name(2, "error")
    if command == FETCH_RESPONSE:
        _set(names, len(names.data) - names.position, 0)
    elif command == OFFSETS_RESPONSE:
        for _ in range(names.name(4, "count")):
            if not names.more(len(names.data)):
                return
            names.name(OFFSET_BYTES, "offset")
    elif command == MULTIFETCH_RESPONSE:
        while names.more(len(names.data)):
            size = names.name(4, "part length")
            names.name(2, "error", 1)
            _set(names, size - 2, 1)


def _set(names: _Names, size: int, depth: int) -> None:
    """The entries of a message set; what compressed ones hold is not on the wire byte by byte."""
    end = names.within(size, "message set", depth)
    while names.more(end):
        if end - names.position < SIZE_BYTES + 1:
            break
        length = int.from_bytes(names.data[names.position : names.position + SIZE_BYTES], "big", signed=True)
        magic = names.data[names.position + SIZE_BYTES]
        stop = names.position + SIZE_BYTES + length
        if stop > end or magic not in CRC_AT or length < CRC_AT[magic] + CRC_BYTES:
            break
        names.within(SIZE_BYTES + length, "message", depth + 1)
        names.name(SIZE_BYTES, "message length", depth + 2)
        names.name(1, "magic", depth + 2)
        if magic == MAGIC_1:
            names.name(1, "attributes", depth + 2)
        names.name(CRC_BYTES, "CRC32", depth + 2)
        names.name(stop - names.position, "payload", depth + 2)
    if names.more(end):
        names.name(end - names.position, "cut message", depth + 1)
