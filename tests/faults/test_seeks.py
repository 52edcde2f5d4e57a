"""Clients that seek back repeatedly, and those that replay a topic on purpose."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.commands import BY_BROKER, PING, PONG, ack, close_consumer, delivery, flow, success
from tests.scenarios.connections import connected, subscribed
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.evaluation import diagnose
from tests.scenarios.frames import command_frame

STORM = "redelivery-storm"


def seek(talk: Conversation, request: int, *, closes: bool = True, kind: str = "Exclusive", **fields: Any) -> Conversation:
    """A SEEK to the earliest message, after which the broker closes the consumer and the client subscribes again."""
    talk.client(command_frame("SEEK", consumer_id=1, request_id=request, message_id={"ledgerId": 2**64 - 1, "entryId": 2**64 - 1}))
    if closes:
        talk.server(close_consumer(1, BY_BROKER), success(request))
        return subscribed(talk, kind=kind, **fields).client(flow(100))
    return talk.server(success(request))


def replaying(
    times: int,
    pause: int,
    *,
    entries: int = 5,
    acks: int = 0,
    kind: str = "Exclusive",
    end: str = "open",
    forward: bool = False,
    closes: bool = True,
    midstream: bool = False,
    **fields: Any,
) -> Conversation:
    """A client that takes entries, acknowledges some and seeks, repeatedly."""
    if midstream:
        talk = Conversation(("10.0.0.1", 40000), ("10.0.0.2", 6650), acknowledge=False).client(PING).server(PONG)
    else:
        talk = subscribed(connected(), kind=kind, **fields).client(flow(100))
    for number in range(times + 1):
        first = number * entries if forward else 0
        talk.server(*[delivery(first + entry) for entry in range(entries)]).wait(pause * MILLISECOND)
        if acks:
            talk.client(ack(*range(first, first + acks)))
        if number < times:
            seek(talk, 500 + number, closes=closes, kind=kind, **fields)
    return talk if end == "open" else talk.close() if end == "fin" else talk.reset("client")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("times", "pause", "kind", "end", "midstream"),
    [
        *product((6, 9), (310, 900), ("Exclusive", "Shared"), ("open", "fin", "rst"), (False,)),
        *product((23, 40), (50, 300), ("Failover", "Key_Shared"), ("open", "fin"), (False, True)),
    ],
)
def test_a_client_that_seeks_back_without_an_end_is_named(
    tmp_path: Path, times: int, pause: int, kind: str, end: str, *, midstream: bool
) -> None:
    diagnosis = diagnose(tmp_path, replaying(times, pause, kind=kind, end=end, midstream=midstream))
    row, evidence = diagnosis.only(STORM)
    assert (evidence["message_id"], evidence["seeks"]) == ([7, 0], times - midstream)
    assert diagnosis.commands(row)[:2] == ["MESSAGE", "SEEK"]


@pytest.mark.slow
@pytest.mark.parametrize(("times", "pause", "kind"), [*product((12, 40), (20, 400, 5000), ("Exclusive", "Shared"))])
@pytest.mark.parametrize("acks", [2, 5])
@pytest.mark.parametrize("closes", [True, False])
def test_one_that_acknowledges_and_seeks_back_all_the_same_is(
    tmp_path: Path, times: int, pause: int, kind: str, acks: int, *, closes: bool
) -> None:
    row, evidence = diagnose(tmp_path, replaying(times, pause, kind=kind, acks=acks, closes=closes)).only(STORM)
    assert f"acknowledged messages meanwhile: {times - 1} times it got again what it had got before, at last 7:0." in (row.text or "")
    assert evidence["seeks"] == times


def stepping_back(times: int, entries: int, back: int, *, sparse: int = 1, kind: str = "Exclusive") -> Conversation:
    """A client that acknowledges all entries that it gets, and seeks `back` entries; more arrive each time, or every few times."""
    talk, first, count = subscribed(connected(), kind=kind).client(flow(1000)), 0, entries
    for number in range(times + 1):
        talk.server(*[delivery(first + entry) for entry in range(count)]).wait(SECOND).client(ack(*range(first, first + count)))
        first, count = first + count - back, back + (entries - back if number % sparse == sparse - 1 else 0)
        if number < times:
            place = {"ledgerId": 7, "entryId": first}
            talk.client(command_frame("SEEK", consumer_id=1, request_id=500 + number, message_id=place))
            talk = subscribed(talk.server(close_consumer(1, BY_BROKER), success(500 + number)), kind=kind).client(flow(1000))
    return talk


@pytest.mark.slow
@pytest.mark.parametrize(("times", "kind"), [*product((12, 40), ("Exclusive", "Failover"))])
@pytest.mark.parametrize(("entries", "back", "sparse"), [(10, 3, 1), (10, 9, 1), (2, 1, 1), (100, 60, 1), (5, 3, 2)])
def test_one_that_steps_back_and_gets_on_is_not(tmp_path: Path, times: int, kind: str, entries: int, back: int, sparse: int) -> None:
    """Its next round begins, and ends, with later entries."""
    assert STORM not in diagnose(tmp_path, stepping_back(times, entries, back, sparse=sparse, kind=kind)).codes


@pytest.mark.parametrize("times", [12, 40])
def test_one_that_steps_back_all_that_it_got_is(tmp_path: Path, times: int) -> None:
    assert diagnose(tmp_path, stepping_back(times, 10, 10)).only(STORM)[1]["seeks"] == times


@pytest.mark.parametrize(("times", "more"), [*product((12, 30), (1, 4))])
def test_one_that_begins_with_the_same_again_is_though_more_come(tmp_path: Path, times: int, more: int) -> None:
    talk = subscribed(connected(), kind="Exclusive").client(flow(1000))
    for number in range(times + 1):
        count = 5 + number * more
        talk.server(*[delivery(entry) for entry in range(count)]).wait(SECOND).client(ack(*range(count)))
        talk = seek(talk, 500 + number) if number < times else talk
    _, evidence = diagnose(tmp_path, talk).only(STORM)
    assert (evidence["message_id"], evidence["redelivery_count"]) == ([7, 0], times - 1)


@pytest.mark.parametrize("before", [1, 4])
def test_one_that_got_on_before_is_reported_since_then(tmp_path: Path, before: int) -> None:
    talk = stepping_back(before, 10, 0)
    first = 10 * before
    for number in range(14):
        place = {"ledgerId": 7, "entryId": first}
        talk.client(command_frame("SEEK", consumer_id=1, request_id=600 + number, message_id=place)).server(success(600 + number))
        talk.server(*[delivery(first + entry) for entry in range(10)]).wait(SECOND).client(ack(*range(first, first + 10)))
    _, evidence = diagnose(tmp_path, talk).only(STORM)
    assert evidence["message_id"] == [7, first]


@pytest.mark.parametrize(("times", "pause"), [(3, 400), (8, 50), (8, 3000), (14, 15_000), (30, 60_000)])
def test_one_that_acknowledges_and_seeks_back_now_and_then_is_not(tmp_path: Path, times: int, pause: int) -> None:
    assert STORM not in diagnose(tmp_path, replaying(times, pause, acks=5)).codes


@pytest.mark.parametrize("times", [12, 40])
def test_one_that_seeks_forward_is_not(tmp_path: Path, times: int) -> None:
    assert STORM not in diagnose(tmp_path, replaying(times, 400, acks=5, forward=True)).codes


@pytest.mark.parametrize(("times", "closes"), [*product((6, 12), (False, True))])
def test_it_is_named_whether_or_not_the_broker_closes_the_consumer(tmp_path: Path, times: int, *, closes: bool) -> None:
    assert STORM in diagnose(tmp_path, replaying(times, 400, closes=closes)).codes


@pytest.mark.parametrize(
    ("times", "pause", "fields"),
    [
        *product((1, 3, 5), (20, 900), ({},)),  # a few times
        *product((4, 9), (20, 900), ({"acks": 5}, {"acks": 1})),  # it makes progress
        *product((4, 9), (20, 900), ({"durable": False},)),  # a reader
        *product((4, 9), (20, 900), ({"forward": True},)),  # it skips messages
        *product((9, 20), (100,), ({"entries": 0},)),  # there are no messages
        *product((4, 9, 19), (20, 200), ({},)),  # its ACKs may have been dropped while they waited to be sent
    ],
)
def test_one_that_replays_on_purpose_is_not(tmp_path: Path, times: int, pause: int, fields: dict[str, Any]) -> None:
    for end in ("open", "fin"):
        assert STORM not in diagnose(tmp_path, replaying(times, pause, end=end, **fields)).codes


@pytest.mark.parametrize("times", [4, 5])
def test_a_few_times_make_a_note(tmp_path: Path, times: int) -> None:
    row, evidence = diagnose(tmp_path, replaying(times, 500)).only("consumer-undecided")
    assert (row.severity, evidence["seeks"]) == ("note", times)


@pytest.mark.parametrize(("times", "pause"), [(60, 20), (200, 100)])
def test_seeks_without_any_message_are_a_storm_of_requests(tmp_path: Path, times: int, pause: int) -> None:
    assert "request-storm" in diagnose(tmp_path, replaying(times, pause, entries=0)).codes
