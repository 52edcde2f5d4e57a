from __future__ import annotations

from typing import Any

from pulsarscope.dissect.frames import Frame
from pulsarscope.engine.ordering import FILE_SHIFT, in_order, orders_of, spread
from pulsarscope.model.records import FindingRow


def frame(moment: int) -> Frame:
    return Frame(None, 1, moment, 1, 0, "c", moment=moment)


def at(file: int, packet: int) -> int:
    return file << FILE_SHIFT | packet


def test_a_frame_stands_at_its_moment_and_not_behind_the_end_of_its_connection() -> None:
    assert orders_of(at(1, 10), [frame(3), frame(10), frame(99)]) == [at(1, 3), at(1, 10), at(1, 10)]


def test_frames_of_connections_are_put_in_order_and_those_of_one_stay_together() -> None:
    a, b, c = frame(1), frame(2), frame(5)
    other = frame(4)
    steps: list[Any] = [(at(1, 9), "x", [a, b, c]), (at(1, 9), "x", None), (at(1, 6), "y", [other])]
    together = [(name, frames) for _, name, frames in in_order(steps, together=True)]
    assert together == [("x", [a, b]), ("y", [other]), ("x", [c]), ("x", None)]
    single = [(name, frames) for _, name, frames in in_order(steps, together=False)]
    assert single == [("x", [a]), ("x", [b]), ("y", [other]), ("x", [c]), ("x", None)]


def test_rows_stand_with_their_frames() -> None:
    one, two = frame(1), frame(2)
    finding = FindingRow(None, 1, 1, 1, 0, "c", "code", "note", "frame", "text", {}, "")
    orders = [0, 7, 8]
    spread(orders, [one, two], [one, finding, two, finding, finding])
    assert orders == [0, 7, 7, 8, 8, 8]
