"""Clients that seek back again and again, and those that replay a topic on purpose."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.commands import BY_BROKER, PING, PONG, ack, close_consumer, delivery, flow, success
from tests.scenarios.connections import connected, subscribed
from tests.scenarios.conversation import MILLISECOND, Conversation
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
    """A client that takes entries, acknowledges some and seeks, again and again."""
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


@pytest.mark.parametrize(("times", "pause", "kind"), [*product((12, 40), (20, 400, 5000), ("Exclusive", "Shared"))])
@pytest.mark.parametrize("acks", [2, 5])
@pytest.mark.parametrize("closes", [True, False])
def test_one_that_acknowledges_and_seeks_back_all_the_same_is(
    tmp_path: Path, times: int, pause: int, kind: str, acks: int, *, closes: bool
) -> None:
    row, evidence = diagnose(tmp_path, replaying(times, pause, kind=kind, acks=acks, closes=closes)).only(STORM)
    assert "acknowledged what it got" in (row.text or "")
    assert evidence["seeks"] == times


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
        *product((4, 9), (20, 900), ({"acks": 5}, {"acks": 1})),  # it gets on
        *product((4, 9), (20, 900), ({"durable": False},)),  # a reader
        *product((4, 9), (20, 900), ({"forward": True},)),  # it passes messages over
        *product((9, 20), (100,), ({"entries": 0},)),  # nothing is there
        *product((4, 9, 19), (20, 200), ({},)),  # its ACKs may have waited to be sent, and were dropped
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
