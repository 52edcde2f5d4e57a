"""Segments that wait beyond a hole: sorted by stream offset, without overlap, the first bytes kept."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import NamedTuple

import msgspec

BUFFERED_PIECE_BYTES = 256
"""What a waiting piece costs beyond its payload, for the bound on the whole process."""


_FAR = 1 << 62
"""Beyond any stream offset."""


class BufferedPiece(NamedTuple):
    """Bytes that wait, and the packet that brought them."""

    start: int
    payload: bytes
    file: int
    packet: int
    time: int


class Overlap(NamedTuple):
    """A stretch of a segment whose offsets were brought by an earlier packet: offset, both versions, and who brought the first."""

    offset: int
    first: bytes
    second: bytes
    file: int
    packet: int


class Addition(NamedTuple):
    """What adding a segment did: bytes not seen before, stretches with other bytes, time of the copy that was there (None: no copy)."""

    fresh: int
    conflicts: list[Overlap]
    copy_of: int | None


class ReorderBuffer(msgspec.Struct, gc=False, eq=False):
    """The pieces of one stream beyond its next byte, and the ranges known to be cut off by the snap length (`cuts`).

    `pieces[head:]` are alive: taking from the front moves `head`, so a long store is not shifted for every piece.
    """

    pieces: list[BufferedPiece] = []
    head: int = 0
    size: int = 0
    cuts: list[tuple[int, int]] = []

    @property
    def first(self) -> BufferedPiece | None:
        """The waiting piece nearest to what was handed on."""
        return self.pieces[self.head] if self.head < len(self.pieces) else None

    def __len__(self) -> int:
        """Number of things that wait."""
        return len(self.pieces) - self.head + len(self.cuts)

    @property
    def cost(self) -> int:
        """Bytes of memory, about."""
        return self.size + BUFFERED_PIECE_BYTES * len(self)

    @property
    def start(self) -> int:
        """Offset of the first thing that waits.

        Raises:
            ValueError: nothing waits.
        """
        starts = [self.pieces[self.head].start] if self.head < len(self.pieces) else []
        return min(starts + [start for start, _ in self.cuts[:1]])

    @property
    def end(self) -> int:
        """Offset behind the last piece, 0 when there is none."""
        if self.head == len(self.pieces):
            return 0
        last = self.pieces[-1]
        return last.start + len(last.payload)

    def add(self, segment: BufferedPiece) -> Addition:
        """Take the bytes of a segment that are not there yet; compare the others."""
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
        for there in pieces[low:high]:
            if there.start > position:
                merged.append(BufferedPiece(position, payload[position - start : there.start - start], file, packet, time))
                fresh += there.start - position
                position = there.start
            stop = min(there.start + len(there.payload), end)
            first = there.payload[position - there.start : stop - there.start]
            second = payload[position - start : stop - start]
            if first != second:
                conflicts.append(Overlap(position, first, second, there.file, there.packet))
            elif first == payload and len(first) == len(there.payload):
                copy_of = there.time
            merged.append(there)
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
        """Whether the pieces leave no hole and have these bytes: one comparison instead of one for each piece."""
        first = pieces[0].start
        if first > start or pieces[-1].start + len(pieces[-1].payload) < start + len(payload):
            return False
        there = b"".join([piece.payload for piece in pieces])
        whole = len(there) == pieces[-1].start + len(pieces[-1].payload) - first
        return whole and there.startswith(payload, start - first)

    def add_cut(self, start: int, end: int) -> bool:
        """Take a range that the snap length cut off; false when it was known."""
        cut = (start, end)
        index = bisect_left(self.cuts, cut)
        if index < len(self.cuts) and self.cuts[index] == cut:
            return False
        insort(self.cuts, cut)
        return True

    def take(self, offset: int) -> BufferedPiece | None:
        """The piece that begins at this offset, taken out."""
        head = self.head
        pieces = self.pieces
        if head == len(pieces) or pieces[head].start != offset:
            return None
        piece = pieces[head]
        self.size -= len(piece.payload)
        head += 1
        # Half the list dead: shift once, so that taking stays constant time on average.
        if head * 2 > len(pieces):
            del pieces[:head]
            head = 0
        self.head = head
        return piece

    def take_cut(self, offset: int) -> int:
        """Bytes from this offset on that the snap length cut off and no piece brings; cuts that are passed are forgotten."""
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
            insort(cuts, (end, furthest))  # it goes on behind the next piece
        return max(0, end - offset)

    def truncate(self, end: int) -> None:
        """Forget what lies at or beyond this offset."""
        kept = [piece._replace(payload=piece.payload[: end - piece.start]) for piece in self.pieces[self.head :] if piece.start < end]
        self.pieces = kept
        self.head = 0
        self.size = sum(len(piece.payload) for piece in kept)
        self.cuts = [(start, min(stop, end)) for start, stop in self.cuts if start < end]
