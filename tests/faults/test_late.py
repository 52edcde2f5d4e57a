"""Consumers that get their messages later and later although they have permits."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.commands import ack, close_consumer, created, delivery, flow, message, producer, receipt, send
from tests.scenarios.connections import connected, subscribed, wait_until
from tests.scenarios.conversation import MILLISECOND, SECOND, START_NS, Conversation
from tests.scenarios.evaluation import diagnose

LATE = "delivery-behind"


def published(now: int, age: float) -> int:
    """Publish time, in ms, of a message of this age in seconds."""
    return (START_NS + now - round(age * SECOND)) // MILLISECOND


def getting(
    ages: list[float], pace: int, *, permits: int = 1000, again: int = 0, rests: Mapping[int, float] | None = None, **metadata: Any
) -> Conversation:
    """A consumer that gets and acknowledges a message every `pace` ms; each has an age in seconds.

    `rests`: seconds for which the broker rests before messages, by their numbers.
    """
    talk = subscribed(connected(), kind="Shared").client(flow(permits))
    rested = 0.0
    for number, age in enumerate(ages):
        rested += (rests or {}).get(number, 0)
        now = 100 * MILLISECOND + number * pace * MILLISECOND + round(rested * SECOND)
        wait_until(talk, now).server(delivery(number, again=again, publish_time=published(now, age), **metadata))
        talk.wait(2 * MILLISECOND).client(ack(number), flow(1))
    return talk


@pytest.mark.slow
@pytest.mark.parametrize(("count", "grows", "offset"), [*product((80, 300, 2_000), (0.04, 0.08), (0, -3600))])
def test_messages_that_come_later_and_later_are_reported(tmp_path: Path, count: int, grows: float, offset: int) -> None:
    diagnosis = diagnose(tmp_path, getting([offset + number * grows for number in range(count)], 100))
    row, evidence = diagnosis.only(LATE)
    assert (row.severity, evidence["deliveries"]) == ("warning", count)
    assert diagnosis.commands(row) == ["MESSAGE", "MESSAGE"]
    assert " kbit/s." in (row.text or "")


GROWING = [number * 0.05 for number in range(200)]


@pytest.mark.parametrize("seconds", [30, 60])
@pytest.mark.parametrize("grows", [0.04, 0.08])
@pytest.mark.parametrize(("numbers", "late"), [((10,), True), ((2, 8, 14), True), ((21, 60, 100, 140), False)])
def test_a_rest_before_the_messages_get_older_explains_nothing(
    tmp_path: Path, seconds: int, grows: float, numbers: tuple[int, ...], late: bool
) -> None:
    """The topic is idle, for example; the messages get older from the 20th on."""
    ages = [0.5 - number / 50 for number in range(20)] + [number * grows for number in range(200)]
    codes = diagnose(tmp_path, getting(ages, 100, rests={number: seconds / len(numbers) for number in numbers})).codes
    assert (LATE in codes) is late


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


def stored_late(port: int, waits: list[float], **more: Any) -> Conversation:
    """A producer whose SENDs, one each 100 ms, are answered after these seconds."""
    talk = connected(port).client(producer(**more)).server(created())
    events = [(100 + number * 100, 0, number) for number in range(len(waits))]
    events += [(110 + number * 100 + round(100 * wait) * 10, 1, number) for number, wait in enumerate(waits)]
    for at, is_receipt, number in sorted(events):
        if talk.time_ns < START_NS + at * MILLISECOND:
            wait_until(talk, at * MILLISECOND)
        if is_receipt:
            talk.server(receipt(sequence_id=number, entry=number))
        else:
            talk.client(send(sequence_id=number, metadata={"publish_time": published(at * MILLISECOND, 0)}))
    return talk


@pytest.mark.parametrize("grows", [0.03, 0.05])
@pytest.mark.parametrize("share", [0.6, 1.0])
def test_what_waited_for_its_broker_is_the_slow_publish(tmp_path: Path, grows: float, share: float) -> None:
    """A rate limit of a topic, for example: its consumers get what is stored at once."""
    ages = [number * grows for number in range(200)]
    codes = diagnose(tmp_path, stored_late(41000, [share * age for age in ages]), getting(ages, 100)).codes
    assert "slow-publish" in codes
    assert LATE not in codes


@pytest.mark.slow
@pytest.mark.parametrize("wait", [5.0, 9.0])
@pytest.mark.parametrize("grows", [0.03, 0.05])
@pytest.mark.parametrize(("pauses", "late"), [((0,), True), ((350,), True), ((0, 350), True), ((0, 200), False), ((140, 350), False)])
def test_a_send_that_waited_before_or_afterwards_explains_no_delay(
    tmp_path: Path, wait: float, grows: float, pauses: tuple[int, ...], late: bool
) -> None:
    """`pauses`: numbers of the SENDs, ten a second, at which the broker pauses; the messages get older from the 130th to the 330th."""
    waits = [0.01] * 450
    for pause in pauses:
        waits[pause : pause + int(10 * wait)] = [wait - number / 10 for number in range(int(10 * wait))]
    ages = [0.5 - number / 500 for number in range(130)] + [number * grows for number in range(200)]
    codes = diagnose(tmp_path, stored_late(41000, waits), getting(ages, 100)).codes
    assert (LATE in codes) is late


def test_receipts_that_come_soon_leave_the_delay_to_the_delivery(tmp_path: Path) -> None:
    assert LATE in diagnose(tmp_path, stored_late(41000, [0.05] * 200), getting(GROWING, 100)).codes


@pytest.mark.parametrize(("waits", "late"), [(0.0, True), (0.002, True), (0.05, False)])
def test_ages_count_from_the_time_at_which_the_broker_stored_the_messages(tmp_path: Path, waits: float, late: bool) -> None:
    """`waits`: by how many seconds more each message waits for its broker than the one before; all of its delay, or a part of it."""
    talk = subscribed(connected(), kind="Shared").client(flow(1000))
    for number, age in enumerate(GROWING):
        now = 100 * MILLISECOND + number * 100 * MILLISECOND
        stored = {"broker_timestamp": published(now, age - waits * number)}
        content = message(1, number, metadata={"publish_time": published(now, age)}, broker_entry=stored)
        wait_until(talk, now).server(content).wait(2 * MILLISECOND).client(ack(number), flow(1))
    assert (LATE in diagnose(tmp_path, talk).codes) is late


@pytest.mark.parametrize(("seconds", "gets"), [*product((5, 20), (6, 40))])
def test_what_was_on_its_way_to_a_consumer_that_closes_is_not_held_by_another_one(tmp_path: Path, seconds: int, gets: int) -> None:
    talk = subscribed(connected()).client(flow(1000)).server(delivery(0)).client(ack(0), close_consumer())
    for number in range(1, gets):
        talk.wait(seconds * SECOND // gets).server(delivery(number))
    assert "consumer-not-acking" not in diagnose(tmp_path, talk.wait(SECOND)).codes
