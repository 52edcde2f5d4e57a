"""Messages with a time of delivery, and subscriptions that do or do not respect it."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.commands import ack, created, delivery, flow, producer, receipt, send
from tests.scenarios.connections import connected, subscribed, wait_until
from tests.scenarios.conversation import MILLISECOND, START_NS, Conversation
from tests.scenarios.evaluation import diagnose

IGNORED, EARLY, LATE = CODES = ("delay-ignored", "delay-early", "delay-late")


def delayed(
    kind: str, delay: int, waited: int, *, skew: int = 0, able: int = 0, count: int = 3, sent: bool = True, again: int = 0
) -> list[Conversation]:
    """Messages that should be delayed by `delay` ms come after `waited` ms; the producer's clock is `skew` ms ahead."""
    begin = 100
    publish = START_NS // MILLISECOND + begin + skew
    metadata: dict[str, Any] = {"publish_time": publish, "deliver_at_time": publish + delay, "producer_name": "p"}
    out = wait_until(connected(41000).client(producer()).server(created()), begin * MILLISECOND)
    for number in range(count if sent else 0):
        out.client(send(sequence_id=number, metadata=metadata)).server(receipt(sequence_id=number, entry=number))
    of_reader = {"durable": False} if kind == "Reader" else {}
    kind = "Exclusive" if of_reader else kind
    into = wait_until(subscribed(connected(), kind=kind, **of_reader), (able or 50) * MILLISECOND).client(flow(100))
    wait_until(into, max(begin + waited, able + 1) * MILLISECOND)
    return [out, into.server(*[delivery(number, again=again, **metadata) for number in range(count)])]


def of(folder: Path, talks: list[Conversation]) -> dict[str, int]:
    diagnosis = diagnose(folder, *talks)
    for code in CODES:
        for row in diagnosis.of(code):
            assert set(diagnosis.commands(row)) == {"MESSAGE"}
    return {code: (diagnosis.of(code)[0].evidence or {})["count"] for code in CODES if diagnosis.of(code)}


@pytest.mark.parametrize(
    ("kind", "delay", "skew", "sent"),
    [
        *product(("Exclusive", "Failover", "Shared", "Key_Shared", "Reader"), (2000, 30000), (0, 900), (True,)),
        *product(("Exclusive", "Shared"), (5000, 9000), (0,), (True, False)),
    ],
)
def test_a_delay_that_is_ignored_is_named(tmp_path: Path, kind: str, delay: int, skew: int, sent: bool) -> None:
    assert of(tmp_path, delayed(kind, delay, 20, skew=skew, sent=sent)) == {IGNORED: 3}


@pytest.mark.parametrize(("kind", "delay", "waited", "skew"), [*product(("Exclusive", "Failover"), (2000, 9000), (1000, 1400), (0, 900))])
def test_one_that_the_subscription_cannot_keep_is_named_though_the_message_waited(
    tmp_path: Path, kind: str, delay: int, waited: int, skew: int
) -> None:
    """A new failover consumer waits a second before it becomes active."""
    assert of(tmp_path, delayed(kind, delay, waited, skew=skew)) == {IGNORED: 3}


@pytest.mark.parametrize(("kind", "delay", "early"), [*product(("Exclusive", "Failover"), (2000, 9000), (-500, 0, 300, 450))])
def test_a_subscription_that_does_not_delay_may_deliver_near_the_time(tmp_path: Path, kind: str, delay: int, early: int) -> None:
    assert not of(tmp_path, delayed(kind, delay, delay - early))


@pytest.mark.parametrize(("delay", "early", "skew"), [*product((5000, 9000, 30000), (1500, 2500, 4000), (0, 5000, -5000))])
def test_a_delivery_long_before_its_time_is_early(tmp_path: Path, delay: int, early: int, skew: int) -> None:
    assert of(tmp_path, delayed("Shared", delay, delay - early, skew=skew)) == {EARLY: 3}


@pytest.mark.parametrize(("delay", "late", "skew"), [*product((500, 3000, 9000), (3500, 6000, 20000), (0, 5000, -5000))])
def test_a_delivery_long_after_its_time_is_late(tmp_path: Path, delay: int, late: int, skew: int) -> None:
    assert of(tmp_path, delayed("Shared", delay, delay + late, skew=skew)) == {LATE: 3}


@pytest.mark.parametrize(
    ("delay", "skew", "error", "code"),
    [
        *((delay, skew, skew, LATE) for delay, skew in product((500, 2000), (4000, 15000))),  # the broker's clock is right
        *((delay, skew, 4000 - skew, EARLY) for delay, skew in product((9000, 30000), (-3000, -2000))),
        *((delay, 0, 6000, LATE) for delay in (500, 2000)),
        *((delay, 900, 6000, LATE) for delay in (500, 2000)),
        *((2000, -8000, 6000, LATE), (30000, 8000, 3000, EARLY)),
    ],
)
def test_the_clock_of_a_producer_is_named_if_it_explains_the_error(tmp_path: Path, delay: int, skew: int, error: int, code: str) -> None:
    """Brokers compare the producer's time with their own."""
    talks = delayed("Shared", delay, delay + (error if code == LATE else -error), skew=skew)
    text = diagnose(tmp_path, *talks).only(code)[0].text or ""
    explains = 2 * (skew if code == LATE else -skew) >= error
    assert ("by the producer's clock" in text) is explains
    if explains:
        assert ("ahead of the capture's" if skew > 0 else "behind the capture's") in text


@pytest.mark.parametrize(
    ("kind", "delay", "waited", "skew", "able", "again"),
    [
        *(
            (kind, delay, delay + error, skew, 0, 0)
            for kind, delay, error, skew in product(("Shared", "Key_Shared"), (1000, 3000, 9000), (-1000, 0, 1000), (0, 7000))
        ),
        *(("Shared", delay, 20, 0, 0, 0) for delay in (100, 500, 1000)),  # within a tick
        *(("Shared", 1000, 6000, 0, able, 0) for able in (2000, 5000)),  # the consumer came later, or had no permits
        *((kind, 1000, 6000, 0, 0, 0) for kind in ("Exclusive", "Failover", "Reader")),  # they got a backlog
        *(("Shared", 9000, waited, 0, 0, 1) for waited in (20, 14000)),  # redelivered
    ],
)
def test_a_delivery_in_time_or_late_for_a_reason_is_healthy(
    tmp_path: Path, kind: str, delay: int, waited: int, skew: int, able: int, again: int
) -> None:
    assert not of(tmp_path, delayed(kind, delay, waited, skew=skew, able=able, again=again))


def older(delay: int, waited: int, *, skew: int = 0, sent: bool = True, again: int = 0) -> list[Conversation]:
    """The same for a producer and a consumer from before the capture."""
    publish = START_NS // MILLISECOND + 100 + skew
    metadata: dict[str, Any] = {"publish_time": publish, "deliver_at_time": publish + delay, "producer_name": "p"}
    out = wait_until(Conversation(("10.0.0.1", 41000), acknowledge=False), 100 * MILLISECOND)
    for number in range(4 if sent else 0):
        out.client(send(sequence_id=number, metadata=metadata)).server(receipt(sequence_id=number, entry=number))
    into = wait_until(Conversation(("10.0.0.1", 42000), acknowledge=False), (100 + waited) * MILLISECOND)
    into.server(delivery(0, again=again, **metadata)).client(ack(0)).server(*[delivery(n, again=again, **metadata) for n in (1, 2)])
    return [out, into]


@pytest.mark.parametrize(("delay", "waited", "skew", "sent"), [*product((2000, 30000), (20, 300), (0, 400), (True, False))])
def test_one_that_is_ignored_for_a_consumer_from_before_the_capture_is_named(
    tmp_path: Path, delay: int, waited: int, skew: int, sent: bool
) -> None:
    if skew < waited or sent:  # otherwise its clock is unknown
        assert of(tmp_path, older(delay, waited, skew=skew, sent=sent)) == {IGNORED: 3}


@pytest.mark.parametrize(
    ("delay", "waited", "skew", "again"),
    [
        *product((2000, 30000), (700, 1500), (0, 400), (0,)),  # the subscription type is unknown
        *product((300, 1000), (20, 300), (0, 400), (0,)),
        *product((2000, 9000), (20, 300), (0,), (1,)),
        *product((1000,), (1000, 9000), (0,), (0,)),
    ],
)
def test_one_from_before_the_capture_that_may_delay_is_not(tmp_path: Path, delay: int, waited: int, skew: int, again: int) -> None:
    assert not of(tmp_path, older(delay, waited, skew=skew, again=again))
