"""Recently delivered bytes of a stream, for comparison with retransmissions.

References to the delivered data are kept. Data of the compiled reader are ranges of whole blocks; data kept beyond the next block are
copied. A comparison covers the last OVERLAP_WINDOW_BYTES of the stream that came in the last OVERLAP_WINDOW_PACKETS packets of the same
file, so that its result does not depend on how the capture was cut into blocks. Streams that have been idle for longest lose their data
earlier, but only beyond OVERLAP_MEMORY_MAX_BYTES in all streams. The index is built only for a stream with a retransmission, and lives for
one block.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Reversible, Sequence
from itertools import accumulate, islice, repeat
from typing import Any, Protocol

from pulsarscope.model.limits import OVERLAP_WINDOW_BYTES, OVERLAP_WINDOW_PACKETS
from pulsarscope.tcp.pieces import Data, Item, Piece
from pulsarscope.tcp.reorder_buffer import Overlap


class ComparableStream(Protocol):
    """A stream with which retransmissions are compared."""

    generation: int
    """Number of the last block that added to `delivered`."""
    delivered: tuple[Data, ...]


def recent_data(items: Sequence[Item], length: int, file: int, oldest: int) -> tuple[Data, ...]:
    """Return the items to compare with in a stream of `length`: data of this file that came with packet `oldest` or later."""
    floor = length - OVERLAP_WINDOW_BYTES
    first = len(items)
    while first and items[first - 1].offset > floor:
        first -= 1
    kept = [item for item in items[max(first - 1, 0) :] if type(item) is Data and item.file == file and item.pieces[-1][3] >= oldest]
    if kept and floor - kept[0].offset > OVERLAP_WINDOW_BYTES:
        kept[0] = latest(kept[0], items[first].offset if first < len(items) else length, floor)
    for item in kept[:-1]:
        own_bytes(item)
    return tuple(kept)


def latest(run: Data, end: int, floor: int) -> Data:
    """Return data that ends at offset `end`, without the pieces before offset `floor`."""
    compiled: Any = getattr(run.pieces, "latest", None)
    if compiled is not None:
        last, start = compiled(end, floor)
        return Data(run.file, start, last)
    pieces: list[Piece] = []
    while end > floor:
        piece = run.pieces[len(run.pieces) - len(pieces) - 1]
        end -= len(piece[0])
        pieces.append(piece)
    return Data(run.file, end, pieces[::-1])


def own_bytes(data: Data) -> None:
    """Copy the bytes of data of the compiled reader, so that their block can be freed."""
    owned: Any = getattr(data.pieces, "owned", None)
    if owned is not None:
        data.pieces = owned()


def let_block_go(comparable: Reversible[tuple[int, int, int, Sequence[ComparableStream]]]) -> None:
    """Release the newest of these blocks, given with generation and streams: it holds the latest data of streams idle since then."""
    for generation, _, _, streams in islice(reversed(comparable), 1):
        for stream in streams:
            if stream.generation == generation and stream.delivered:
                own_bytes(stream.delivered[-1])


class DeliveredBytes:
    """Index by offset of delivered pieces; data may still be appended to `items`."""

    __slots__ = ("_item", "_items", "_next", "_piece", "_pieces", "_starts")

    def __init__(self, recent: Sequence[Item], items: list[Item]) -> None:
        self._starts: list[int] = []
        self._pieces: list[tuple[int, Any]] = []
        for run in recent:
            if type(run) is Data:
                self._append(run, 0, run.offset)
        self._items = items
        self._item = 0
        self._piece = 0
        self._next = 0

    def _append(self, run: Data, first: int, offset: int) -> int:
        compiled: Any = run.pieces
        if hasattr(compiled, "within"):  # it does not grow: one entry for all its pieces
            if not first:
                self._starts.append(offset)
                self._pieces.append((run.file, compiled))
                offset += compiled.size()
            return offset
        pieces = run.pieces[first:] if first else run.pieces
        starts = [*accumulate([len(piece[0]) for piece in pieces], initial=offset)]
        self._pieces += zip(repeat(run.file), pieces)
        self._starts += starts[:-1]
        return starts[-1]

    def _between(self, low: int, high: int) -> Iterator[tuple[int, int, Piece]]:
        """Yield the pieces with bytes between two offsets, and possibly their neighbours, with their files and offsets."""
        index = max(bisect_right(self._starts, low) - 1, 0)
        while index < len(self._starts) and (start := self._starts[index]) < high:
            file, piece = self._pieces[index]
            if type(piece) is tuple:
                yield file, start, piece
            else:
                for place, each in piece.within(low - start, high - start):
                    yield file, start + place, each
            index += 1

    def _follow(self) -> None:
        """Index the items delivered since the previous call."""
        items = self._items
        while self._item < len(items):
            run = items[self._item]
            if type(run) is Data:
                self._next = self._append(run, self._piece, self._next if self._piece else run.offset)
                self._piece = len(run.pieces)
            if self._item + 1 == len(items):
                return
            self._item += 1
            self._piece = 0

    def compare(self, offset: int, payload: bytes, length: int, file: int, packet: int) -> tuple[list[Overlap], int | None]:
        """Compare a retransmitted payload with the delivered bytes.

        A packet captured twice may have been segmented differently on the way, so the time of the earliest matching piece counts.

        Args:
            offset: position of the payload in the stream.
            payload: bytes of the segment.
            length: length of the stream so far, in bytes.
            file: file of the segment.
            packet: packet of the segment.

        Returns:
            The differing stretches, and the time in ns of the original when the whole payload is a copy, else None.
        """
        self._follow()
        end = offset + len(payload)
        oldest = packet - OVERLAP_WINDOW_PACKETS
        conflicts: list[Overlap] = []
        same = 0
        copy_of = None
        position = max(offset, length - OVERLAP_WINDOW_BYTES)
        for first_file, start, (data, first_packet, time, _) in self._between(position, end):
            low = max(position, start)
            high = min(end, start + len(data))
            if low >= high or first_file != file or first_packet < oldest:
                continue
            first = data[low - start : high - start]
            second = payload[low - offset : high - offset]
            if first != second:
                conflicts.append(Overlap(low, first, second, first_file, first_packet))
            else:
                same += high - low
                copy_of = time if copy_of is None else min(copy_of, time)
        return conflicts, copy_of if same == len(payload) else None
