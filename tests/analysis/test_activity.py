from __future__ import annotations

import pytest

from pulsarscope.analysis.activity import COMMANDS_MAX, OTHERS, Activity
from pulsarscope.model.limits import ACTIVITY_CELLS_MAX, ACTIVITY_CONNECTIONS_MAX
from pulsarscope.model.records import ExchangeRow, FrameRow

MILLISECOND = 1_000_000


def frame(number: int, command: str | None = "SEND", connection: str = "0:1", **more: object) -> FrameRow:
    values = {"direction": "client", "status": "ok", "time": number * MILLISECOND, **more}
    return FrameRow(file=0, packet=number, sub=1, connection=connection, command=command, **values)  # type: ignore[arg-type]


def test_each_frame_of_a_small_capture_has_its_own_mark() -> None:
    activity = Activity()
    activity.feed([frame(1, num_messages=3), frame(2, "SEND_RECEIPT", direction="server", latency_ns=MILLISECOND)])
    first, second = activity.marks.cells()
    assert (first[1], first[2].frames, first[2].messages, first[2].first) == (("0:1", ("SEND", "client", True)), 1, 3, "0:1.1")
    assert (second[2].slowest, second[2].time) == (MILLISECOND, 2 * MILLISECOND)


@pytest.mark.slow
def test_marks_are_joined_beyond_their_bound_and_count_every_frame() -> None:
    activity = Activity()
    activity.feed(frame(number) for number in range(1, ACTIVITY_CELLS_MAX + 100))
    cells = activity.marks.cells()
    assert len(cells) <= ACTIVITY_CELLS_MAX
    assert sum(mark.frames for _, _, mark in cells) == ACTIVITY_CELLS_MAX + 99


def test_connections_and_commands_beyond_the_bounds_are_counted_together() -> None:
    activity = Activity()
    activity.feed(frame(number, connection=f"0:{number}") for number in range(ACTIVITY_CONNECTIONS_MAX + 5))
    assert (len(activity.connections), activity.frames_left_out) == (ACTIVITY_CONNECTIONS_MAX, 5)
    activity.feed(frame(number, f"UNKNOWN_{number}", "0:1") for number in range(COMMANDS_MAX + 5))
    assert OTHERS in {command for _, (_, (command, _, _)), _ in activity.marks.cells()}


def test_frames_that_are_not_whole_stand_apart() -> None:
    activity = Activity()
    activity.feed([frame(1, None, status="skipped")])
    assert [key for _, key, _ in activity.marks.cells()] == [("0:1", ("(skipped)", "client", False))]


def test_latencies_are_kept_by_request() -> None:
    activity = Activity()
    activity.feed(
        [
            ExchangeRow(file=0, packet=1, sub=1, time=1, connection="0:1", request="SEND", status="ok", latency_ns=5),
            ExchangeRow(file=0, packet=1, sub=1, time=2, connection="0:1", request="SEND", status="ok", latency_ns=7),
            ExchangeRow(file=0, packet=1, sub=1, time=2, connection="0:1", request="PING", status="unanswered"),
        ]
    )
    ((_, request, latencies),) = activity.latencies.cells()
    assert (request, latencies.count, latencies.largest) == ("SEND", 2, 7)
