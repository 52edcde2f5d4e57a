"""Streams without their TLS: places of the plain bytes, and TCP sequence numbers that count only those."""

from __future__ import annotations

from array import array
from bisect import bisect_right

from pulsarscope.model.tcp_flags import FIN, SYN
from pulsarscope.output.export.redacted_packet import SegmentHead

_NUMBERS = 1 << 32
"""Sequence numbers of TCP."""

_SACK, _END, _NOTHING = 5, 0, 1
"""Kinds of TCP options: selective acknowledgments, whose numbers count TLS bytes (RFC 2018); end of options; no operation."""


class PlainStream:
    """Offsets of plain bytes inside the TLS of one stream, by the offsets of their TLS records. It takes about 24 bytes for each record."""

    def __init__(self) -> None:
        self._outer = array("q")
        self._inner = array("q")
        self._before = array("q")
        """Largest plain offset that may be reached before each outer offset: it excludes the end of the first frame that ends there."""
        self._base: int | None = None
        """Sequence number of the first byte."""
        self._fin: int | None = None
        """Offset of the FIN."""

    def add(self, start: int, end: int, first: int, behind: int) -> None:
        """Add a frame, in stream order: start and end of the records around it, and its own first offset and the offset after it."""
        if not self._outer or (start > self._outer[-1] and first > self._inner[-1]):
            self._outer.append(start)
            self._inner.append(first)
            self._before.append(first)
        if end > self._outer[-1]:
            self._outer.append(end)
            self._inner.append(behind)
            self._before.append(max(behind - 1, first))
        self._inner[-1] = max(self._inner[-1], behind)

    def offset(self, outer: int) -> int:
        """Return the number of plain bytes up to an offset. A frame is complete at the end of its last record, and not before."""
        at = bisect_right(self._outer, outer) - 1
        if at < 0:
            return max(self._inner[0] - (self._outer[0] - outer), 0) if self._outer else 0
        if at + 1 == len(self._outer):
            return self._inner[at]
        return min(self._inner[at] + outer - self._outer[at], max(self._before[at + 1], self._inner[at]))

    def see(self, sequence: int, flags: int, place: tuple[int, int]) -> None:
        """Learn the sequence number of the first byte and the place of the FIN from a segment; `place` is that of its payload."""
        start, end = place
        if flags & SYN:
            self._base = (sequence + 1) % _NUMBERS
        elif end > start:
            self._base = (sequence - start) % _NUMBERS
        if flags & FIN:
            self._fin = end if end > start else self._distance(sequence)

    def number(self, sequence: int) -> int:
        """Return the sequence number among the plain bytes; after the FIN it counts the FIN, too."""
        if (distance := self._distance(sequence)) is None or distance < 0:
            return sequence
        behind_fin = self._fin is not None and distance > self._fin
        return (sequence - distance + self.offset(distance - behind_fin) + behind_fin) % _NUMBERS

    def _distance(self, sequence: int) -> int | None:
        """Return the offset of a sequence number: of all that differ by 2^32, the one nearest to the known offsets."""
        if self._base is None:
            return None
        near = self._outer[-1] if self._outer else 0
        return near + (sequence - self._base - near + _NUMBERS // 2) % _NUMBERS - _NUMBERS // 2


def plain_segment(
    head: SegmentHead, place: tuple[int, int], sender: PlainStream, receiver: PlainStream
) -> tuple[SegmentHead, tuple[int, int]]:
    """Return the head of the plain segment for a TLS segment, and the place of its payload in the plain stream."""
    sender.see(head.sequence, head.flags, place)
    start, end = (sender.offset(offset) for offset in place) if place[1] > place[0] else (0, 0)
    missing = sender.offset(place[1] + head.missing) - end if head.missing else 0
    sequence = head.sequence if head.flags & SYN else sender.number(head.sequence)
    acknowledgment = receiver.number(head.acknowledgment)
    head = head._replace(sequence=sequence, acknowledgment=acknowledgment, missing=missing, options=_without_sack(head.options))
    return head, (start, end)


def _without_sack(options: bytes) -> bytes:
    """Return TCP options with selective acknowledgments replaced by no-operations."""
    out = bytearray(options)
    position = 0
    while position + 1 < len(options) and options[position] != _END:
        size = 1 if options[position] == _NOTHING else max(options[position + 1], 1)
        if options[position] == _SACK:
            out[position : position + size] = bytes([_NOTHING]) * len(out[position : position + size])
        position += size
    return bytes(out)
