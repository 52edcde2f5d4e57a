"""Consumers that get their messages later and later although they have permits."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.commands import ack, close_consumer, created, delivery, flow, producer, receipt, send
from tests.scenarios.connections import connected, subscribed, wait_until
from tests.scenarios.conversation import MILLISECOND, SECOND, START_NS, Conversation
from tests.scenarios.evaluation import diagnose

LATE = "delivery-behind"


def published(now: int, age: float) -> int:
    """Publish time, in ms, of a message of this age in seconds."""
    return (START_NS + now - round(age * SECOND)) // MILLISECOND


def getting(ages: list[float], pace: int, *, permits: int = 1000, again: int = 0, **metadata: Any) -> Conversation:
    """A consumer that gets and acknowledges a message every `pace` ms; each has an age in seconds."""
    talk = subscribed(connected(), kind="Shared").client(flow(permits))
    for number, age in enumerate(ages):
        now = 100 * MILLISECOND + number * pace * MILLISECOND
        wait_until(talk, now).server(delivery(number, again=again, publish_time=published(now, age), **metadata))
        talk.wait(2 * MILLISECOND).client(ack(number), flow(1))
    return talk


@pytest.mark.parametrize(("count", "grows", "offset"), [*product((80, 300, 2_000), (0.04, 0.08), (0, -3600))])
def test_messages_that_come_later_and_later_are_reported(tmp_path: Path, count: int, grows: float, offset: int) -> None:
    diagnosis = diagnose(tmp_path, getting([offset + number * grows for number in range(count)], 100))
    row, evidence = diagnosis.only(LATE)
    assert (row.severity, evidence["deliveries"]) == ("warning", count)
    assert diagnosis.commands(row) == ["MESSAGE", "MESSAGE"]
    assert " kbit/s." in (row.text or "")


GROWING = [number * 0.05 for number in range(200)]

NEAR_MISSES = {
    "level": getting([3.0] * 200, 100),
    "younger, as a backlog is worked off": getting(GROWING[::-1], 100),
    "all published at once": getting([number * 0.1 for number in range(200)], 100),
    "without permits now and then: its application is slow": getting(GROWING, 100, permits=1),
    "delivered again": getting(GROWING, 100, again=1),
    "of another cluster": getting(GROWING, 100, replicated_from="west"),
    "later on purpose": getting(GROWING, 100, deliver_at_time=5),
    "a broker that rests": getting([number * 0.2 for number in range(60)], 400),
}


@pytest.mark.parametrize("how", NEAR_MISSES)
def test_others_are_not(tmp_path: Path, how: str) -> None:
    assert LATE not in diagnose(tmp_path, NEAR_MISSES[how]).codes


def test_what_is_sent_later_and_later_is_the_producers(tmp_path: Path) -> None:
    talk = connected(41000).client(producer()).server(created())
    for number, age in enumerate(GROWING):
        now = 100 * MILLISECOND + number * 100 * MILLISECOND
        wait_until(talk, now).client(send(sequence_id=number, metadata={"publish_time": published(now, age)}))
        talk.wait(MILLISECOND).server(receipt(sequence_id=number, entry=number))
    diagnosis = diagnose(tmp_path, talk, getting(GROWING, 100))
    assert {"producer-behind", LATE} & set(diagnosis.codes) == {"producer-behind"}


@pytest.mark.parametrize(("seconds", "gets"), [*product((5, 20), (6, 40))])
def test_what_was_on_its_way_to_a_consumer_that_closes_is_not_held_by_another_one(tmp_path: Path, seconds: int, gets: int) -> None:
    talk = subscribed(connected()).client(flow(1000)).server(delivery(0)).client(ack(0), close_consumer())
    for number in range(1, gets):
        talk.wait(seconds * SECOND // gets).server(delivery(number))
    assert "consumer-not-acking" not in diagnose(tmp_path, talk.wait(SECOND)).codes
