"""Messages that a consumer returns repeatedly, in short captures."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.scenarios.commands import ack, delivery, flow, redeliver
from tests.scenarios.connections import connected, subscribed
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.evaluation import diagnose

STORM = "redelivery-storm"


def returned(times: int, pause: int, *, others: int, kind: str = "Shared", done: str = "", end: str = "open") -> Conversation:
    """A consumer that returns entry 0 every `pause` ms, and acknowledges those that come in between; it returns all if it is not Shared."""
    shared = kind in {"Shared", "Key_Shared"}
    talk = subscribed(connected(), kind=kind).client(flow(1000)).server(delivery(0))
    for again in range(1, times + 1):
        for entry in range(others):
            number = 1 + again * others + entry
            talk.server(delivery(number)).client(ack(number))
        talk.wait(pause * MILLISECOND).client(redeliver(0) if shared else redeliver()).server(delivery(0, again=again if shared else 0))
    if done:
        talk.wait(pause * MILLISECOND).client(ack(99_999 if done == "Cumulative" else 0, kind=done))
    return talk if end == "open" else talk.close()


@pytest.mark.parametrize(
    ("times", "pause", "others", "kind", "end"),
    [
        *product((4, 5, 8, 19), (100, 500), (0, 5), ("Shared", "Key_Shared"), ("open", "fin")),
        *product((4, 5, 9), (1000, 2000), (0, 1), ("Shared",), ("open",)),
        *product((5, 9), (100, 600), (0, 1), ("Failover", "Exclusive"), ("open", "fin")),
    ],
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
        *product((1, 2, 3), (100, 1000), (0, 5), ("",)),  # a few times
        *product((8, 16), (100, 500), (0, 5), ("Individual", "Cumulative")),  # given up, or finished
        *product((9, 16), (4000,), (0, 5), ("",)),  # with pauses
    ],
)
def test_one_that_is_done_in_the_end_or_comes_seldom_is_healthy(tmp_path: Path, times: int, pause: int, others: int, done: str) -> None:
    for kind in ("Shared", "Exclusive") if times < 10 else ("Shared",):
        assert STORM not in diagnose(tmp_path, returned(times, pause, others=others, kind=kind, done=done)).codes


@pytest.mark.parametrize(("times", "kind"), [*product((6, 12), ("Exclusive", "Failover"))])
def test_messages_that_come_again_without_a_request_for_them_are_no_storm(tmp_path: Path, times: int, kind: str) -> None:
    """As for a consumer whose cursor goes back."""
    talk = subscribed(connected(), kind=kind).client(flow(1000))
    for _ in range(times):
        talk.server(delivery(0), delivery(1)).wait(200 * MILLISECOND)
    assert STORM not in diagnose(tmp_path, talk.client(redeliver())).codes


@pytest.mark.parametrize(("limit", "times", "pause"), [*product((5, 10, 16), (5, 16), (50, 300))])
def test_a_message_is_healthy_beside_others_that_were_done_after_as_many_returns(
    tmp_path: Path, limit: int, times: int, pause: int
) -> None:
    """As with a dead letter policy, wherever the capture ends."""
    talk = subscribed(connected()).client(flow(1000)).server(delivery(0), delivery(1))
    for again in range(1, limit + 1):
        talk.wait(pause * MILLISECOND).client(redeliver(0)).server(delivery(0, again=again))
    talk.client(ack(0))
    for again in range(1, times + 1):
        talk.wait(pause * MILLISECOND).client(redeliver(1)).server(delivery(1, again=again))
    assert STORM not in diagnose(tmp_path, talk).codes


@pytest.mark.parametrize(("times", "pause", "end"), [*product((3,), (200, 1300), ("open", "fin"))])
def test_a_message_that_came_again_a_few_times_makes_a_note(tmp_path: Path, times: int, pause: int, end: str) -> None:
    row, evidence = diagnose(tmp_path, returned(times, pause, others=1, end=end)).only("consumer-undecided")
    assert (row.text or "").endswith("did not acknowledge it." if end == "open" else "before it ended.")
    assert (row.severity, evidence["message_id"], evidence["redelivery_count"]) == ("note", [7, 0], times)
    assert evidence["threshold"] == {"consumer-undecided-redeliveries": 3}


@pytest.mark.parametrize(("times", "done", "end"), [(1, "", "open"), (2, "", "open"), (4, "Individual", "open"), (2, "", "fin")])
def test_one_that_is_done_or_hardly_returned_makes_none(tmp_path: Path, times: int, done: str, end: str) -> None:
    assert "consumer-undecided" not in diagnose(tmp_path, returned(times, 200, others=1, done=done, end=end)).codes


def timed_out(messages: int, times: int, pause: int, *, done: int = 0, end: str = "open") -> Conversation:
    """A consumer whose ack timeout returns everything `times` times; at the end it acknowledges `done` messages."""
    talk = subscribed(connected()).client(flow(1000)).server(*(delivery(entry) for entry in range(messages)))
    for again in range(1, times + 1):
        talk.wait(pause * SECOND).client(redeliver(*range(messages))).server(*(delivery(entry, again=again) for entry in range(messages)))
    for entry in range(done):
        talk.client(ack(entry))
    return talk if end == "open" else talk.close()


@pytest.mark.parametrize(
    ("messages", "times", "pause", "end"),
    [*product((3, 4, 40), (3, 4, 6), (2, 11, 30), ("open", "fin")), (20, 4, 1, "fin"), (8, 4, 1, "open")],
)
def test_all_of_it_returned_by_ack_timeouts_is_named(tmp_path: Path, messages: int, times: int, pause: int, end: str) -> None:
    _, evidence = diagnose(tmp_path, timed_out(messages, times, pause, end=end)).only(STORM)
    assert evidence["redelivery_count"] == times


@pytest.mark.parametrize(
    ("messages", "times", "pause", "done", "end"),
    [
        *product((3, 8), (1, 2), (2, 11, 30), (0,), ("open", "fin")),  # a few times
        *product((1, 2), (4, 9), (11, 30), (0,), ("open", "fin")),  # one or two messages
        *product((3, 8), (4,), (11, 30), (1, 3), ("open", "fin")),  # some are finished
        (8, 3, 1, 1, "open"),
    ],
)
def test_ack_timeouts_that_end_are_healthy(tmp_path: Path, messages: int, times: int, pause: int, done: int, end: str) -> None:
    assert STORM not in diagnose(tmp_path, timed_out(messages, times, pause, done=done, end=end)).codes
