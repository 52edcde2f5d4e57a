"""Producers that wait for exclusive access."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.scenarios.commands import PING, PONG, TOPIC, close_producer, created, error, producer, receipt, send, success
from tests.scenarios.connections import connected, wait_until
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.evaluation import diagnose

WAITING = "producer-waiting"
ENDS = ("open", "fin", "rst", "closed")


def queued(wait: int, *, name: str = "w", topic: str = TOPIC) -> Conversation:
    """A producer whose broker tells it to wait; `wait` ms pass."""
    talk = connected(40001, start=100 * MILLISECOND).client(producer(1, name, 5, topic, producer_access_mode="WaitForExclusive"))
    return talk.server(created(name, 5, producer_ready=False)).wait(wait * MILLISECOND)


def ended(talk: Conversation, end: str) -> Conversation:
    if end == "closed":
        talk.client(close_producer(1, 6)).server(success(6))
    elif end == "open":
        talk.client(producer(2, "other", 7, f"{TOPIC}-2")).server(created("other", 7))
    return talk.reset("client") if end == "rst" else talk if end == "open" else talk.close()


def holding(mode: str = "Exclusive", until: int = 20) -> Conversation:
    talk = connected(40000).client(producer(1, "h", 1, producer_access_mode=mode)).server(created("h", 1))
    for number in range(until):
        talk.wait(100 * MILLISECOND).client(send(1, number)).server(receipt(1, number, entry=number))
    return talk


@pytest.mark.parametrize(("wait", "mode", "end"), [*product((1500, 4000, 60000), ("Exclusive", "Shared"), ENDS)])
def test_one_that_waits_to_its_end_is_noted_with_the_holder(tmp_path: Path, wait: int, mode: str, end: str) -> None:
    diagnosis = diagnose(tmp_path, holding(mode), ended(queued(wait), end))
    row, evidence = diagnosis.only(WAITING)
    assert (row.severity, evidence["producer_name"], evidence["topic"]) == ("note", "w", TOPIC)
    assert evidence["holders"][0]["name"] == "h"
    assert diagnosis.commands(row) == ["PRODUCER", "PRODUCER_SUCCESS", "PRODUCER"]


@pytest.mark.parametrize("wait", [1500, 9000])
def test_its_holder_may_be_from_before_the_capture(tmp_path: Path, wait: int) -> None:
    row, evidence = diagnose(tmp_path, ended(queued(wait), "fin")).only(WAITING)
    assert evidence["holders"] == []
    assert "its holder is not in the capture" in (row.text or "")


@pytest.mark.parametrize(("wait", "end"), [*product((200, 4000, 20000), ENDS)])
def test_one_that_gets_its_turn_is_right(tmp_path: Path, wait: int, end: str) -> None:
    holder = wait_until(holding(until=1), (wait + 90) * MILLISECOND).client(close_producer(1, 2)).server(success(2))
    talk = queued(wait).server(created("w", 5, producer_ready=True)).wait(5 * SECOND)
    assert WAITING not in {row.code for row in diagnose(tmp_path, holder, ended(talk, end)).findings}


@pytest.mark.parametrize(("wait", "end"), [*product((10, 500), ENDS)])
def test_one_that_waits_for_a_moment_is_right(tmp_path: Path, wait: int, end: str) -> None:
    assert WAITING not in {row.code for row in diagnose(tmp_path, holding(), ended(queued(wait), end)).findings}


@pytest.mark.parametrize("name", ["ProducerFenced", "TopicNotFound"])
def test_one_that_is_refused_waits_no_longer(tmp_path: Path, name: str) -> None:
    talk = queued(3000).server(error(5, name)).wait(SECOND)
    assert WAITING not in {row.code for row in diagnose(tmp_path, holding(), talk.close()).findings}


@pytest.mark.parametrize(("count", "turn"), [(2, 1500), (3, 4000), (5, 900)])
def test_holders_in_turn_are_named_with_their_ends_the_latest_first(tmp_path: Path, count: int, turn: int) -> None:
    """Each gives the topic up while the waiting one still waits."""
    holders = []
    for number in range(count):
        holder = wait_until(connected(41000 + number), (200 + number * turn) * MILLISECOND)
        holder.client(producer(1, f"h{number}", 1, producer_access_mode="WaitForExclusive")).server(created(f"h{number}", 1))
        holder.wait((turn - 100) * MILLISECOND)
        holders.append(holder.client(close_producer(1, 2)).server(success(2)) if number < count - 1 else holder.client(PING).server(PONG))
    row, evidence = diagnose(tmp_path, *holders, ended(queued(count * turn), "fin")).only(WAITING)
    assert [holder["name"] for holder in evidence["holders"]] == [f"h{number}" for number in reversed(range(count))][:3]
    assert "-" not in (row.text or "").partition("did not get it: ")[2].replace(TOPIC, "")
    assert (row.text or "").count("gave it up") == min(count, 3) - 1
    assert f"producer h{count - 2} (WaitForExclusive) on connection" in (row.text or "")
