"""Division of large capture files into portions that can be read independently; packets keep their numbers in the file.

Boundaries are never guessed, because a payload of any length may look like records, as when a capture is copied over the network. All
records are walked from the start of the file by their lengths; packets are not decoded.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from struct import Struct
from typing import Any, BinaryIO

import msgspec

from pulsarscope.capture.anomalies import AnomalyCount
from pulsarscope.capture.formats import pcap, pcapng
from pulsarscope.model.limits import PACKET_MAX_BYTES, PCAPNG_BLOCK_MAX_BYTES, PORTION_HEADERS_MAX_BYTES, SECRETS_MAX_BYTES

WALK_BYTES = 1 << 20
"""Bytes read at a time; with small packets there is nothing to skip."""

Span = tuple[int, int]
"""Positions in the file of the first byte and after the last byte."""

PACKET, HEADER, OTHER = range(3)
"""Kinds of records; a header determines how later records are read."""


class Portion(msgspec.Struct, frozen=True):
    """Part of a capture file between two record boundaries, or the complete file."""

    file: int
    """Position in the run's list of files."""
    start: int = 0
    """Position of the first byte in the file."""
    end: int | None = None
    """Position after the last byte; None for the end of the file."""
    packets: int = 0
    """Number of packets before it."""
    preamble: tuple[Span, ...] = ()
    """Earlier records that decoding it requires, in file order: headers, sections, interfaces, and the last packet."""
    counts: tuple[AnomalyCount, ...] = ()
    """Anomalies of the packets before it, for the last portion, which sums up the file."""

    @property
    def is_complete_file(self) -> bool:
        """Return True when it covers the whole file."""
        return self.start == 0 and self.end is None

    def seek(self, stream: Any) -> bytes:
        """Position the stream at its start; return the bytes of the preamble."""
        parts = []
        for start, end in self.preamble:
            stream.seek(start)
            parts.append(stream.read(end - start))
        stream.seek(self.start)
        return b"".join(parts)

    def remaining(self, read: int) -> int:
        """Return the number of bytes left after `read` of them."""
        return sys.maxsize if self.end is None else self.end - self.start - read


class _IndivisibleError(Exception):
    """Raised for a file whose parts cannot be read without all that precedes them."""


def divide(path: str, file: int, size: int) -> list[Portion]:
    """Divide a file into portions of at most about `size` bytes.

    A file remains one portion if it is smaller, compressed, damaged or not a capture, or has too much besides packets. Dependencies that
    only decoding shows, such as IP fragments, are reported by `BlockReader.has_dependencies`.
    """
    try:
        with Path(path).open("rb", buffering=0) as stream:
            return [*_portions(stream, file, size)]
    except (_IndivisibleError, OSError, ValueError):  # ValueError: a NUL in the path; the reader reports it
        return [Portion(file)]


def portions(path: str, file: int, size: int) -> Iterator[Portion]:
    """Yield the portions of a file as its records are walked, but none of a file that `divide` leaves whole because of its content."""
    try:
        with Path(path).open("rb", buffering=0) as stream:
            yield from _portions(stream, file, size)
    except (_IndivisibleError, OSError, ValueError):
        return


def _portions(stream: BinaryIO, file: int, size: int) -> Iterator[Portion]:
    total = os.fstat(stream.fileno()).st_size
    portion = Portion(file)
    if total <= size:
        yield portion
        return
    portion_bytes = -(-total // -(-total // size))
    border = portion_bytes
    headers: list[Span] = []
    last: list[Span] = []
    packets = headers_bytes = 0
    for start, end, kind in _records(stream):
        if start >= border:
            yield msgspec.structs.replace(portion, end=start)
            portion = Portion(file, start, None, packets, tuple(sorted(headers + last)))
            border = (start // portion_bytes + 1) * portion_bytes
        if kind == PACKET:
            packets += 1
            last = [(start, end)]
        elif kind == HEADER:
            headers.append((start, end))
            headers_bytes += end - start
            if headers_bytes > PORTION_HEADERS_MAX_BYTES:
                raise _IndivisibleError
    yield portion


def _records(stream: BinaryIO) -> Iterator[tuple[int, int, int]]:
    """Yield start, end and kind of each record or block; the last one may be cut."""
    head = stream.read(pcap.FILE_HEADER_BYTES)
    if head.startswith(pcapng.MAGIC):
        return _blocks_of_pcapng(stream, head[8:12])
    if head[:4] in pcap.MAGICS:
        return _records_of_pcap(stream, head)
    raise _IndivisibleError


def _records_of_pcap(stream: BinaryIO, head: bytes) -> Iterator[tuple[int, int, int]]:
    byte_order, _, header_bytes = pcap.MAGICS[head[:4]]
    unpack, maximum = Struct(byte_order + "8xI4x").unpack_from, PACKET_MAX_BYTES
    position = len(head)
    joined, link = head[:8], head[-4:]
    yield 0, position, HEADER
    while len(data := _read(stream, position, WALK_BYTES)) >= header_bytes:
        at, last = 0, len(data) - header_bytes
        while at <= last:
            if data.startswith(pcap.STARTS, at):
                behind = at + len(head)
                if behind > len(data) and at:
                    break  # complete with the next read
                if not (data.startswith(joined, at) and data.startswith(link, behind - 4)):
                    raise _IndivisibleError
                at = behind
                continue
            (captured,) = unpack(data, at)
            if captured > maximum:
                raise _IndivisibleError
            end = at + header_bytes + captured
            yield position + at, position + end, PACKET
            at = end
        position += at


def _blocks_of_pcapng(stream: BinaryIO, magic: bytes) -> Iterator[tuple[int, int, int]]:
    byte_order = pcapng.BYTE_ORDERS.get(magic, "<")
    unpack, unpack_word = Struct(byte_order + "II").unpack_from, Struct(byte_order + "I").unpack_from
    minimum, maximum = pcapng.BLOCK_MIN_BYTES, PCAPNG_BLOCK_MAX_BYTES
    position = secrets_bytes = 0
    border = WALK_BYTES
    while data := _read(stream, position, border):
        at, last = 0, len(data) - minimum
        while at <= last:
            block_type, length = unpack(data, at)
            if length & 3 or not minimum <= length <= maximum:
                raise _IndivisibleError
            end = at + length
            if end > len(data):
                break
            if unpack_word(data, end - 4)[0] != length:
                raise _IndivisibleError
            kind = KINDS.get(block_type, OTHER)
            if kind is None or (block_type == pcapng.SECTION and data[at + 8 : at + 12] != magic):
                raise _IndivisibleError
            if block_type == pcapng.SECRETS:
                secrets_bytes += length
                if secrets_bytes > SECRETS_MAX_BYTES:
                    raise _IndivisibleError
            yield position + at, position + end, kind
            at = end
        if not at and len(data) < border:
            return
        position += at
        border = WALK_BYTES if at else maximum


def _read(stream: BinaryIO, position: int, size: int) -> bytes:
    stream.seek(position)
    return stream.read(size)


KINDS: Mapping[int, int | None] = {
    pcapng.SECTION: HEADER,
    pcapng.INTERFACE: HEADER,
    pcapng.STATISTICS: HEADER,
    pcapng.PACKET: PACKET,
    pcapng.OLD_PACKET: None,  # counts drops from one packet to the next
    pcapng.SIMPLE_PACKET: None,  # has the time of the packet before
}
"""Kinds of pcapng blocks; a file with a block of kind None is not divided, all other block types are OTHER."""
