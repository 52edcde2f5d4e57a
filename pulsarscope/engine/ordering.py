"""The steps of connections, in the order of their moments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import count, repeat
from operator import itemgetter
from typing import Any

from pulsarscope.dissect.contract.frames import FrameBatch
from pulsarscope.model.flow import FILE_SHIFT
from pulsarscope.model.records import RawFrame, Row

Step = tuple[int, str, FrameBatch | None]
"""Order (file and moment in one number), connection, and frames to observe; None: first the streams of the connection end, then its row is
written."""

RowKey = tuple[int, ...]
"""Order of a row among those of all connections: its order within its phase, the position of its connection in the part and, if rules are
involved, its number among the results of that engine."""


class PackedKeys(Sequence[RowKey]):
    """Keys of two numbers each, with 64 bits per number."""

    def __init__(self, packed: bytes) -> None:
        self.packed = packed
        self._numbers = memoryview(packed).cast("q")

    def __len__(self) -> int:
        return len(self._numbers) // 2

    def __getitem__(self, position: Any) -> Any:
        if isinstance(position, slice):
            start, stop, _ = position.indices(len(self))
            numbers = self._numbers[2 * start : 2 * stop].tolist()
            return [*zip(numbers[::2], numbers[1::2], strict=True)]
        at = 2 * (position if position >= 0 else position + len(self))
        return self._numbers[at], self._numbers[at + 1]


LOCATED, REPORTED = 1 << 61, 1 << 62
"""Phases after the rows of a part: findings of the layers below, findings of the rules."""


def orders_of(order: int, frames: FrameBatch) -> list[int]:
    """Return the order of each frame of a step."""
    file = order >> FILE_SHIFT << FILE_SHIFT
    # Frames that waited since an earlier file have a moment of that file; none is placed after the end of its connection.
    return [at if (at := file | moment) < order else order for moment in frames.all_moments()]


def spread(orders: list[int], frames: FrameBatch, rows: Sequence[Row | RawFrame]) -> None:
    """Extend the orders of the last frames to all rows of each frame, the first of which is the frame itself."""
    first = frames.rows
    of_frames = orders[-len(first) :]
    del orders[-len(first) :]
    index = -1
    for row in rows:
        if index + 1 < len(first) and row is first[index + 1]:
            index += 1
        orders.append(of_frames[index])


def in_stretches(steps: Iterable[Step], size: int, finished: Iterable[Step] = ()) -> Iterator[list[Step]]:
    """Yield steps in lists of about `size`, so that nothing in a list comes before anything in the preceding list.

    `finished`: further steps, without frames and in order.
    """
    stretch: list[Step] = []
    last = 0
    for step in merge(finished, sorted(steps, key=_first_order), key=_first_order):
        if len(stretch) >= size and _first_order(step) > last:
            yield stretch
            stretch = []
        stretch.append(step)
        last = max(last, step[0])
    if stretch:
        yield stretch


def _first_order(step: Step) -> int:
    """Return the order of the first frame of a step."""
    order, _, frames = step
    if frames is None:
        return order
    return min(order >> FILE_SHIFT << FILE_SHIFT | frames.first_moment(), order)


def in_order(steps: list[Step], *, together: bool) -> list[Step]:
    """Order the steps of several connections by moment.

    Frames become steps one by one or, with `together`, in runs that no frames of other connections interrupt.
    """
    single: list[tuple[int, str, FrameBatch | None, int]] = []
    for order, name, frames in steps:
        if frames is None:
            single.append((order, name, None, 0))
        else:
            single += zip(orders_of(order, frames), repeat(name), repeat(frames), count(), strict=False)
    single.sort(key=itemgetter(0))
    ordered: list[Step] = []
    begun: tuple[int, str, FrameBatch, int] | None = None
    stop = 0
    for step in [*single, None]:
        if begun is not None:
            order, name, frames, start = begun
            if together and step is not None and step[2] is frames and step[3] == stop:
                stop += 1
                continue
            ordered.append((order, name, frames.part(start, stop)))
            begun = None
        if step is None:
            break
        order, name, batch, index = step
        if batch is None:
            ordered.append((order, name, None))
        else:
            begun, stop = (order, name, batch, index), index + 1
    return ordered
