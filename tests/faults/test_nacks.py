"""Messages that a consumer returns again and again, in short captures."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.scenarios.commands import ack, delivery, flow, redeliver
from tests.scenarios.connections import connected, subscribed
from tests.scenarios.conversation import MILLISECOND, Conversation
from tests.scenarios.evaluation import diagnose

STORM = "redelivery-storm"


def returned(times: int, pause: int, *, others: int, kind: str = "Shared", done: str = "", end: str = "open") -> Conversation:
    """A consumer that returns entry 0 every `pause` ms, and acknowledges those that come meanwhile."""
    talk = subscribed(connected(), kind=kind).client(flow(1000)).server(delivery(0))
    for again in range(1, times + 1):
        for entry in range(others):
            number = 1 + again * others + entry
            talk.server(delivery(number)).client(ack(number))
        talk.wait(pause * MILLISECOND).client(redeliver(0)).server(delivery(0, again=again))
    if done:
        talk.wait(pause * MILLISECOND).client(ack(99_999 if done == "Cumulative" else 0, kind=done))
    return talk if end == "open" else talk.close()


@pytest.mark.parametrize(
    ("times", "pause", "others", "kind", "end"),
    [*product((8, 12, 19), (100, 500), (0, 5), ("Shared", "Key_Shared"), ("open", "fin")), (9, 1000, 1, "Shared", "open")],
)
def test_a_message_that_is_returned_without_an_end_is_named(
    tmp_path: Path, times: int, pause: int, others: int, kind: str, end: str
) -> None:
    diagnosis = diagnose(tmp_path, returned(times, pause, others=others, kind=kind, end=end))
    row, evidence = diagnosis.only(STORM)
    assert (evidence["message_id"], evidence["redelivery_count"]) == ([7, 0], times)
    assert diagnosis.commands(row)[:2] == ["MESSAGE", "REDELIVER_UNACKNOWLEDGED_MESSAGES"]


@pytest.mark.parametrize(
    ("times", "pause", "others", "done"),
    [
        *product((1, 3, 7), (100, 1000), (0, 5), ("",)),  # a few times
        *product((8, 16), (100, 500), (0, 5), ("Individual", "Cumulative")),  # given up, or done
        *product((9, 16), (2000,), (0, 5), ("",)),  # with pauses
    ],
)
def test_one_that_is_done_in_the_end_or_comes_seldom_is_healthy(tmp_path: Path, times: int, pause: int, others: int, done: str) -> None:
    assert STORM not in diagnose(tmp_path, returned(times, pause, others=others, done=done)).codes
