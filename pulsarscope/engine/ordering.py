"""What connections have to do, in the order of its moments."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from operator import itemgetter

from pulsarscope.dissect.frames import Frame
from pulsarscope.model.records import RawFrame, Row

Step = tuple[int, str, Sequence[Frame] | None]
"""What one connection has to do, at the latest at its last packet: frames to observe, or None: first its streams end, then its row
is written."""

RowKey = tuple[int, int]
"""Order of a row among those of all connections: its order in its phase, and the position of its connection among those of the part."""

LOCATED, REPORTED = 1 << 61, 1 << 62
"""Phases behind the rows of a part: findings of the layers below, findings of the rules."""

FILE_SHIFT = 40
"""The order of a step is its file and its moment in one number, which sorts twice as fast as a pair; no file has 2^40 packets."""


def orders_of(order: int, frames: Sequence[Frame]) -> list[int]:
    """When each frame of a step stands."""
    file = order >> FILE_SHIFT << FILE_SHIFT
    # Frames that waited since an earlier file have a moment of that file; none stands behind the end of its connection.
    return [at if (at := file | frame.moment) < order else order for frame in frames]


def spread(orders: list[int], frames: Sequence[Frame], rows: Sequence[Row | RawFrame]) -> None:
    """The last orders are those of the frames: give each to all rows of its frame, of which the frame is the first."""
    of_frames = orders[-len(frames) :]
    del orders[-len(frames) :]
    index = -1
    for row in rows:
        if index + 1 < len(frames) and row is frames[index + 1]:
            index += 1
        orders.append(of_frames[index])


def in_order(steps: list[Step], *, together: bool) -> list[Step]:
    """Steps of several connections by moment: frames one by one, or those together between which no other connection has any."""
    single: list[tuple[int, str, Frame | None]] = []
    for order, name, frames in steps:
        if frames is None:
            single.append((order, name, None))
        else:
            single += zip(orders_of(order, frames), repeat(name), frames, strict=False)
    single.sort(key=itemgetter(0))
    ordered: list[Step] = []
    joined: list[Frame] = []
    running = None
    for order, name, frame in single:
        if frame is None:
            ordered.append((order, name, None))
            running = None
        elif name == running:
            joined.append(frame)
        else:
            joined = [frame]
            ordered.append((order, name, joined))
            running = name if together else None
    return ordered
