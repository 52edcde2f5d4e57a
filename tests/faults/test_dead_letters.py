"""Consumers that lose most of their messages to a dead letter topic."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.commands import TOPIC, ack, created, delivery, flow, producer, receipt, redeliver, send
from tests.scenarios.connections import connected, subscribed
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.evaluation import diagnose

MOST = "most-dead-lettered"


def letters(talk: Conversation, count: int, *, topic: str = f"{TOPIC}-s-DLQ", number: int = 5, **more: Any) -> Conversation:
    """Publish this many messages to a dead letter topic."""
    talk.client(producer(number, "dead", 50, topic)).server(created("dead", 50))
    for entry in range(count):
        properties = [{"key": "REAL_TOPIC", "value": TOPIC}, {"key": "ORIGIN_MESSAGE_ID", "value": f"7:{entry}:-1"}]
        talk.wait(MILLISECOND).client(send(number, entry, metadata={"properties": properties, **more})).server(receipt(number, entry))
    return talk


def failing(got: int, *, batch: int = 0, port: int = 40000, again: int = 2, kind: str = "Shared") -> Conversation:
    """A consumer that gets each entry repeatedly, until it is acknowledged."""
    talk = subscribed(connected(port), kind=kind).client(flow(1000)).server(*[delivery(entry, batch=batch) for entry in range(got)])
    for time in range(1, again + 1):
        talk.wait(SECOND).client(redeliver(*range(got))).server(*[delivery(entry, again=time, batch=batch) for entry in range(got)])
    return talk.client(ack(*range(got)))


@pytest.mark.parametrize(("got", "dead"), [(10, 10), (20, 10), (40, 40), (40, 25)])
@pytest.mark.parametrize("same", [True, False], ids=["one connection", "another one of the client"])
def test_most_messages_that_end_there_are_reported(tmp_path: Path, got: int, dead: int, same: bool) -> None:
    talk = failing(got)
    talks = [letters(talk, dead)] if same else [talk, letters(connected(40001), dead)]
    diagnosis = diagnose(tmp_path, *talks)
    row, evidence = diagnosis.only(MOST)
    assert (row.severity, evidence["messages"], evidence["count"], len(evidence["connections"])) == ("warning", got, dead, len(talks))
    assert f"got {got} messages, and {'all of them' if got == dead else dead} went to the dead letter topic" in row.text
    assert {*diagnosis.commands(row)} == {"SEND"}
    assert "dead-lettered" in diagnosis.codes


def test_messages_are_counted_and_not_batches(tmp_path: Path) -> None:
    assert diagnose(tmp_path, letters(failing(4, batch=5), 20)).only(MOST)[1]["messages"] == 20
    assert MOST not in diagnose(tmp_path, letters(failing(20, batch=5), 20)).codes


def test_consumers_of_one_subscription_are_reported_once(tmp_path: Path) -> None:
    talks = [letters(failing(10, port=40000 + number), 8) for number in range(3)]
    row, evidence = diagnose(tmp_path, *talks).only(MOST)
    assert (evidence["messages"], evidence["count"]) == (30, 24)
    assert row.text.startswith("3 consumers of subscription s on ")


def test_a_subscription_beside_it_that_works_is_not(tmp_path: Path) -> None:
    beside = subscribed(connected(40007), subscription="works").client(flow(100)).server(*[delivery(entry) for entry in range(20)])
    beside.client(redeliver(3)).server(delivery(3, again=1)).client(ack(*range(20)))
    for topic in (f"{TOPIC}-s-DLQ", f"{TOPIC}-graves"):
        assert diagnose(tmp_path, letters(failing(20), 20, topic=topic), beside).only(MOST)[1]["subscription"] == "s"


@pytest.mark.parametrize(("got", "dead"), [(9, 9), (30, 12), (100, 30), (1, 20)], ids=["few", "less than half", "a third", "older ones"])
def test_a_few_and_those_of_before_the_capture_are_a_note(tmp_path: Path, got: int, dead: int) -> None:
    codes = diagnose(tmp_path, letters(failing(got), dead)).codes
    assert MOST not in codes
    assert "dead-lettered" in codes


def test_what_is_to_be_retried_is_not_dead(tmp_path: Path) -> None:
    assert MOST not in diagnose(tmp_path, letters(failing(20), 20, topic=f"{TOPIC}-s-RETRY", deliver_at_time=5)).codes


def test_retried_messages_that_end_there_are_reported_without_redeliveries(tmp_path: Path) -> None:
    talk = subscribed(connected()).client(flow(1000)).server(*[delivery(entry) for entry in range(12)])
    letters(talk, 12, topic=f"{TOPIC}-s-RETRY", deliver_at_time=5)
    talk.client(producer(6, "grave", 51, f"{TOPIC}-s-DLQ")).server(created("grave", 51))
    assert diagnose(tmp_path, letters(talk.client(ack(*range(12))), 12, number=7)).only(MOST)[1]["count"] == 12


@pytest.mark.parametrize(("kind", "again"), [*product(("Exclusive", "Failover"), (0, 1))])
def test_entries_that_an_exclusive_consumer_gets_again_count_once(tmp_path: Path, kind: str, again: int) -> None:
    talk = subscribed(connected(), kind=kind).client(flow(1000)).server(*[delivery(entry) for entry in range(12)])
    talk.client(redeliver()).server(*[delivery(entry, again=again) for entry in range(12)]).client(ack(*range(12)))
    assert diagnose(tmp_path, letters(talk, 12)).only(MOST)[1]["messages"] == 12
