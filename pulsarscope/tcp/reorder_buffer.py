"""Buffer of out-of-order segments, sorted by stream offset, without overlap; the first bytes seen are kept."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import NamedTuple

import msgspec

from pulsarscope.model.limits import (
    CLOSED_CONNECTION_NANOSECONDS,
    HOLE_NANOSECONDS_MAX,
    HOLE_PACKETS_MAX,
    LATE_HOLE_PACKETS_MAX,
    OUT_OF_ORDER_MAX_BYTES,
    OUT_OF_ORDER_MAX_SEGMENTS,
)

BUFFERED_PIECE_BYTES = 256
"""Memory of a buffered piece in addition to its payload, for the process-wide bound."""

_FAR = 1 << 62
"""Offset beyond any stream."""


class BufferedPiece(NamedTuple):
    """Buffered bytes and the packet that carried them."""

    start: int
    payload: bytes
    file: int
    packet: int
    time: int


class Overlap(NamedTuple):
    """Conflicting bytes at one stream offset; `file` and `packet` carried the first version."""

    offset: int
    first: bytes
    second: bytes
    file: int
    packet: int


class Addition(NamedTuple):
    """Result of adding a segment."""

    fresh: int
    """Bytes not seen before."""
    conflicts: list[Overlap]
    copy_of: int | None
    """Time in ns of the identical segment in the buffer, None when there is none."""


class ReorderBuffer(msgspec.Struct, gc=False, eq=False):
    """Pieces of one stream beyond its next byte, and ranges cut off by the snap length (`cuts`).

    `pieces[head:]` are the live ones: removal from the front only moves `head`, so that a long list is not shifted for every piece.
    """

    pieces: list[BufferedPiece] = []
    head: int = 0
    size: int = 0
    cuts: list[tuple[int, int]] = []
    acknowledged: int = 0
    """Offset up to which the peer has acknowledged the stream, if that is beyond the first hole; otherwise 0."""
    awaited: int = -1
    """Offset of the peer's latest acknowledgment, if it is not beyond the first hole: the peer lacks those bytes, too. Otherwise -1."""
    packets: int = 0
    """Number of packets of the connection when the acknowledgment beyond the first hole came."""
    time: int = 0
    """Time of that acknowledgment, ns."""

    def acknowledge(self, offset: int, packets: int, time: int) -> None:
        """Take an acknowledgment of the bytes up to an offset; it applies until the holes before it have been given up."""
        self.awaited = offset if offset < self.start else -1
        if not self.acknowledged and offset >= self.start:
            self.acknowledged, self.packets, self.time = offset, packets, time

    def is_overdue(self, packets: int, time: int, late: int) -> bool:
        """Return True when the first hole was acknowledged so long ago that a reordered capture would have filled it.

        `late` is the greatest lateness of a packet of the connection. A lateness of hours means that a clock was set back.
        """
        if not self.acknowledged:
            return False
        passed, elapsed = packets - self.packets, time - self.time
        if late and elapsed <= 2 * min(late, CLOSED_CONNECTION_NANOSECONDS):
            return passed >= LATE_HOLE_PACKETS_MAX
        return passed >= HOLE_PACKETS_MAX or elapsed > HOLE_NANOSECONDS_MAX

    def waits_since(self, time: int) -> bool:
        """Return True when the first piece came at this time or earlier."""
        return (first := self.first) is not None and first.time <= time

    @property
    def first(self) -> BufferedPiece | None:
        """Return the piece with the lowest offset, None when there is none."""
        return self.pieces[self.head] if self.head < len(self.pieces) else None

    def __len__(self) -> int:
        """Return the number of pieces and cuts."""
        return len(self.pieces) - self.head + len(self.cuts)

    @property
    def is_overfull(self) -> bool:
        """Return True when the buffer exceeds its bounds."""
        return self.size > OUT_OF_ORDER_MAX_BYTES or len(self) > OUT_OF_ORDER_MAX_SEGMENTS

    @property
    def cost(self) -> int:
        """Return the approximate memory in bytes."""
        return self.size + BUFFERED_PIECE_BYTES * len(self)

    @property
    def start(self) -> int:
        """Return the offset of the first piece or cut. Raises ValueError when the buffer is empty."""
        starts = [self.pieces[self.head].start] if self.head < len(self.pieces) else []
        return min(starts + [start for start, _ in self.cuts[:1]])

    @property
    def end(self) -> int:
        """Return the offset after the last piece, 0 when there is none."""
        if self.head == len(self.pieces):
            return 0
        last = self.pieces[-1]
        return last.start + len(last.payload)

    def add(self, segment: BufferedPiece) -> Addition:
        """Add the new bytes of a segment and compare the others with those in the buffer."""
        start, payload, file, packet, time = segment
        end = start + len(payload)
        pieces = self.pieces
        low = bisect_left(pieces, (start,), self.head)
        if low > self.head and pieces[low - 1].start + len(pieces[low - 1].payload) > start:
            low -= 1
        high = bisect_left(pieces, (end,), low)
        if low == high:
            pieces.insert(low, segment)
            self.size += end - start
            return Addition(end - start, [], None)
        if high - low > 1 and self._holds(payload, start, pieces[low:high]):
            return Addition(0, [], None)
        conflicts: list[Overlap] = []
        copy_of = None
        merged: list[BufferedPiece] = []
        position = start
        fresh = 0
        for buffered in pieces[low:high]:
            if buffered.start > position:
                merged.append(BufferedPiece(position, payload[position - start : buffered.start - start], file, packet, time))
                fresh += buffered.start - position
                position = buffered.start
            stop = min(buffered.start + len(buffered.payload), end)
            first = buffered.payload[position - buffered.start : stop - buffered.start]
            second = payload[position - start : stop - start]
            if first != second:
                conflicts.append(Overlap(position, first, second, buffered.file, buffered.packet))
            elif first == payload and len(first) == len(buffered.payload):
                copy_of = buffered.time
            merged.append(buffered)
            position = stop
        if position < end:
            merged.append(BufferedPiece(position, payload[position - start :], file, packet, time))
            fresh += end - position
        if fresh:
            pieces[low:high] = merged
            self.size += fresh
        return Addition(fresh, conflicts, copy_of)

    @staticmethod
    def _holds(payload: bytes, start: int, pieces: list[BufferedPiece]) -> bool:
        """Return True when adjacent pieces already contain these bytes: one comparison instead of one for each piece."""
        first = pieces[0].start
        if first > start or pieces[-1].start + len(pieces[-1].payload) < start + len(payload):
            return False
        buffered = b"".join([piece.payload for piece in pieces])
        adjacent = len(buffered) == pieces[-1].start + len(pieces[-1].payload) - first
        return adjacent and buffered.startswith(payload, start - first)

    def add_cut(self, start: int, end: int) -> bool:
        """Add a range cut off by the snap length; return False when it is a duplicate."""
        cut = (start, end)
        index = bisect_left(self.cuts, cut)
        if index < len(self.cuts) and self.cuts[index] == cut:
            return False
        insort(self.cuts, cut)
        return True

    def forget(self, file: int, packet: int, cut: tuple[int, int]) -> bool:
        """Drop the pieces of a packet, and its range that was cut off; return True if there were any pieces."""
        waiting = self.pieces[self.head :]
        self.pieces = [piece for piece in waiting if (piece.file, piece.packet) != (file, packet)]
        self.head = 0
        self.size = sum(len(piece.payload) for piece in self.pieces)
        if cut in self.cuts:
            self.cuts.remove(cut)
        return len(self.pieces) < len(waiting)

    def take(self, offset: int) -> BufferedPiece | None:
        """Remove and return the piece that begins at this offset, None when there is none."""
        head = self.head
        pieces = self.pieces
        if head == len(pieces) or pieces[head].start != offset:
            return None
        piece = pieces[head]
        self.size -= len(piece.payload)
        head += 1
        # Shift only when half the list is dead: removal then takes constant time on average.
        if head * 2 > len(pieces):
            del pieces[:head]
            head = 0
        self.head = head
        return piece

    def take_cut(self, offset: int) -> int:
        """Remove the cuts up to this offset; return the number of bytes from there on that were cut off and are in no piece."""
        cuts = self.cuts
        if not cuts or cuts[0][0] > offset:
            return 0
        passed = bisect_right(cuts, (offset, _FAR))
        furthest = max(end for _, end in cuts[:passed])
        del cuts[:passed]
        end = furthest
        if self.head < len(self.pieces):
            end = min(end, self.pieces[self.head].start)
        if furthest > end:
            insort(cuts, (end, furthest))  # the cut continues after the next piece
        return max(0, end - offset)

    def truncate(self, end: int) -> list[tuple[int, int]]:
        """Drop the bytes at and beyond this offset; return the ranges dropped."""
        beyond = [(max(piece.start, end), piece.start + len(piece.payload)) for piece in self.pieces[self.head :]]
        remaining = [piece._replace(payload=piece.payload[: end - piece.start]) for piece in self.pieces[self.head :] if piece.start < end]
        self.pieces = remaining
        self.head = 0
        self.size = sum(len(piece.payload) for piece in remaining)
        self.cuts = [(start, min(stop, end)) for start, stop in self.cuts if start < end]
        return [(low, high) for low, high in beyond if low < high]
