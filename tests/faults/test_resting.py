"""Consumers from before the capture that get nothing more."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.scenarios.commands import BY_BROKER, ack, close_consumer, delivery, flow, receipt, send, subscribe, success
from tests.scenarios.connections import wait_until
from tests.scenarios.conversation import MILLISECOND, Conversation
from tests.scenarios.evaluation import diagnose, problem_codes
from tests.scenarios.frames import command_frame

UNDECIDED = "consumer-undecided"


def attached(port: int, start: int = 0) -> Conversation:
    """A connection from before the capture."""
    return wait_until(Conversation(("10.0.0.1", port), acknowledge=False), start * MILLISECOND)


def publishing(every: int, length: int) -> Conversation:
    """A producer that publishes an entry every `every` ms."""
    talk = attached(41000)
    for entry in range(length // every):
        wait_until(talk, (entry * every + 1) * MILLISECOND).client(send(1, entry)).server(receipt(1, entry, entry=entry))
    return talk


def consuming(entries: range, every: int, *, port: int = 40000, step: int = 1, acks: bool = True) -> Conversation:
    """A consumer that gets entries some milliseconds after they were published."""
    talk = attached(port)
    for entry in entries[::step]:
        wait_until(talk, (entry * every + 5) * MILLISECOND).server(delivery(entry, 3))
        if acks:
            talk.client(ack(entry, number=3))
    return talk


@pytest.mark.slow
@pytest.mark.parametrize(
    ("every", "got", "length", "beside"),
    [*product((10, 20, 50), (12, 25), (4500, 9000), ("nobody", "another subscription", "another topic"))],
)
def test_one_that_stops_while_much_is_published_has_no_permits(tmp_path: Path, every: int, got: int, length: int, beside: str) -> None:
    talks = [publishing(every, length), consuming(range(got), every)]
    if beside == "another subscription":
        talks.append(consuming(range(length // every), every, port=40001))
    diagnosis = diagnose(tmp_path, *talks)
    row, evidence = diagnosis.only("consumer-starved")
    assert evidence["last_delivered"] == [7, got - 1]
    assert diagnosis.commands(row) == ["MESSAGE"]
    assert problem_codes(diagnosis.findings) == ["consumer-starved"]


@pytest.mark.parametrize(
    ("every", "got", "length", "why"),
    [
        *product((10, 20), (12, 40), (2700, 3000), ("soon",)),
        *product((200,), (12,), (5000, 6000), ("few",)),
        *product((10, 50), (12, 40), (4500, 9000), ("permits",)),
        *product((20,), (40,), (4500, 9000), ("shared",)),
    ],
)
def test_one_that_may_have_permits_or_not_stopped_for_long_is_noted(tmp_path: Path, every: int, got: int, length: int, why: str) -> None:
    talks = [publishing(every, length), consuming(range(got), every, step=2 if why == "shared" else 1)]
    if why == "permits":
        talks[1].client(flow(5, 3))
    diagnosis = diagnose(tmp_path, *talks)
    rows = [row for row in diagnosis.of(UNDECIDED) if "subscribed before the capture" in (row.text or "")]
    assert len(rows) == 1
    assert diagnosis.commands(rows[0]) == ["MESSAGE"]
    assert problem_codes(diagnosis.findings) == []


@pytest.mark.parametrize(
    "story", ["to the end", "shared", "soon", "few", "closed", "closed by the broker", "unsubscribed", "standby", "seldom", "nothing more"]
)
def test_one_that_may_have_all_is_not(tmp_path: Path, story: str) -> None:
    every, length, got = 20, 5000, 50
    if story == "soon":
        length = 2200
    entries = {"to the end": range(240), "few": range(6), "nothing more": range(249)}.get(story, range(got))
    talks = [publishing(every, length), consuming(entries, every, step=2 if story == "shared" else 1)]
    if story == "shared":
        talks.append(consuming(range(1, 248), every, port=40001))
    if story == "closed":
        talks[1].client(close_consumer(3))
    if story == "closed by the broker":
        talks[1].server(close_consumer(3, BY_BROKER))
    if story == "unsubscribed":
        talks[1].client(command_frame("UNSUBSCRIBE", consumer_id=3, request_id=70))
    if story == "standby":
        talks[1].server(command_frame("ACTIVE_CONSUMER_CHANGE", consumer_id=3, is_active=False))
    if story == "seldom":
        talks = [publishing(300, 7 * 1000), consuming(range(19), 300)]
    assert UNDECIDED not in diagnose(tmp_path, *talks).codes


@pytest.mark.parametrize(("on_the_way", "by"), [*product((12, 40), ("the client", "the broker")), (12, "the client, from before")])
def test_entries_on_their_way_to_a_closed_consumer_are_not_those_of_an_older_one(tmp_path: Path, on_the_way: int, by: str) -> None:
    every, length = 20, 9000
    talk = consuming(range(2), every) if by.endswith("before") else attached(40000).client(subscribe(3), flow(100, 3)).server(success(2))
    talk.server(delivery(0, 3)).client(ack(0, number=3))
    talk = wait_until(talk, 2000 * MILLISECOND)
    talk.server(close_consumer(3)) if by == "the broker" else talk.client(close_consumer(3))
    talk.server(*(delivery(entry, 3) for entry in range(2, 2 + on_the_way)))
    assert "consumer-starved" not in {row.code for row in diagnose(tmp_path, publishing(every, length), talk).findings}


def test_a_closed_consumer_whose_id_is_used_again_counts(tmp_path: Path) -> None:
    talk = wait_until(attached(40000).client(close_consumer(3)), 100 * MILLISECOND).client(flow(1, 3))
    for entry in range(25):
        wait_until(talk, (200 + entry * 20) * MILLISECOND).server(delivery(entry, 3)).client(ack(entry, number=3))
    diagnosis = diagnose(tmp_path, publishing(20, 9000), talk)
    assert diagnosis.only("consumer-starved")[1]["last_delivered"] == [7, 24]
