from __future__ import annotations

from typing import Any

import pytest

from pulsarscope.dissect.contract.frames import FrameBatch
from pulsarscope.dissect.framing.column_batch import ColumnBatch
from pulsarscope.engine.ordering import in_order, in_stretches, orders_of, spread
from pulsarscope.model.flow import FILE_SHIFT
from pulsarscope.model.records import FindingRow, FrameRow
from pulsarscope.protocols.pulsar.frame.compiled import compiled_reader


def batch(*moments: int) -> FrameBatch:
    frames = FrameBatch()
    frames.rows = [FrameRow(None, 1, moment, 1, 0, "c") for moment in moments]
    frames.moments = [*moments]
    return frames


def at(file: int, packet: int) -> int:
    return file << FILE_SHIFT | packet


def test_a_frame_stands_at_its_moment_and_not_behind_the_end_of_its_connection() -> None:
    assert orders_of(at(1, 10), batch(3, 10, 99)) == [at(1, 3), at(1, 10), at(1, 10)]


def test_frames_of_connections_are_put_in_order_and_those_of_one_stay_together() -> None:
    steps: list[Any] = [(at(1, 9), "x", batch(1, 2, 5)), (at(1, 9), "x", None), (at(1, 6), "y", batch(4))]
    together = [(name, frames and frames.moments) for _, name, frames in in_order(steps, together=True)]
    assert together == [("x", [1, 2]), ("y", [4]), ("x", [5]), ("x", None)]
    single = [(name, frames and frames.moments) for _, name, frames in in_order(steps, together=False)]
    assert single == [("x", [1]), ("x", [2]), ("y", [4]), ("x", [5]), ("x", None)]


def test_steps_come_in_stretches_of_which_none_reaches_into_the_next() -> None:
    ends: list[Any] = [(at(1, packet), f"{packet}", None) for packet in (5, 3, 9, 1, 7)]
    assert [[name for _, name, _ in stretch] for stretch in in_stretches(ends, 2)] == [["1", "3"], ["5", "7"], ["9"]]
    early = [*ends, (at(1, 9), "9", batch(4, 8)), (at(1, 9), "9", None)]
    assert [[name for _, name, _ in stretch] for stretch in in_stretches(early, 2)] == [["1", "3"], ["9", "5", "7", "9", "9"]]
    assert [*in_stretches([], 2)] == []


def test_steps_that_are_in_order_already_stand_among_the_others_and_are_taken_when_their_stretch_begins() -> None:
    taken: list[int] = []

    def finished() -> Any:
        for packet in (2, 3, 6, 8):
            taken.append(packet)
            yield at(1, packet), f"finished {packet}", None

    steps: list[Any] = [(at(1, packet), f"{packet}", None) for packet in (5, 3)]
    stretches = in_stretches(steps, 2, finished())
    assert [name for _, name, _ in next(stretches)] == ["finished 2", "finished 3", "3"]
    assert taken == [2, 3, 6]
    assert [[name for _, name, _ in stretch] for stretch in stretches] == [["5", "finished 6"], ["finished 8"]]


def test_frames_in_columns_stand_where_their_first_one_does() -> None:
    native = pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    columns = ColumnBatch(compiled_reader(native, show_secrets=False).frames())
    columns.rows, columns.moments = batch(9, 4).rows, [9, 4]
    steps: list[Any] = [(at(1, packet), f"{packet}", None) for packet in (3, 5)]
    same = [(at(1, 4), "x", batch(4)), (at(1, 9), "x", columns), (at(1, 4), "x", None)]
    assert [[name for _, name, _ in stretch] for stretch in in_stretches([*steps, *same], 1)] == [["3"], ["x", "x", "x", "5"]]
    assert [frames for _, _, frames in next(iter(in_stretches(same, 1)))] == [frames for _, _, frames in same]


def test_rows_stand_with_their_frames() -> None:
    frames = batch(1, 2)
    one, two = frames.rows
    finding = FindingRow(None, 1, 1, 1, 0, "c", None, "code", "note", "frame", "text", {}, "")
    orders = [0, 7, 8]
    spread(orders, frames, [one, finding, two, finding, finding])
    assert orders == [0, 7, 7, 8, 8, 8]
