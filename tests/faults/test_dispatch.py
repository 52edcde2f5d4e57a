"""Brokers that pause repeatedly although a consumer has permits and its topic has messages, as with a dispatch rate limit."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.faults.consumers import publishing
from tests.scenarios.commands import ack, created, delivery, flow, message, producer, receipt, send
from tests.scenarios.connections import connected, subscribed, wait_until
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.evaluation import diagnose

LIMITED = "dispatch-limited"


def limited(
    seconds: int,
    each: int,
    *,
    period: int = 1000,
    kind: str = "Shared",
    permits: int = 1000,
    acks: int = 20,
    port: int = 40000,
    first: int = 0,
) -> Conversation:
    """A consumer that gets `each` entries together, one such group per `period` ms, and acknowledges them `acks` ms later."""
    talk = subscribed(connected(port, start=50 * MILLISECOND), kind=kind).client(flow(permits))
    for number in range(seconds * 1000 // period):
        wait_until(talk, 200 * MILLISECOND + number * period * MILLISECOND)
        entries = range(first + number * each, first + (number + 1) * each)
        talk.server(*[delivery(entry) for entry in entries]).wait(acks * MILLISECOND).client(ack(*entries))
    return talk


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seconds", "each", "period", "kind"),
    [*product((15, 40), (1, 5, 12), (1000,), ("Shared", "Exclusive")), (30, 3, 400, "Failover"), (40, 3, 3000, "Key_Shared")],
)
def test_rests_with_permits_and_a_backlog_are_reported(tmp_path: Path, seconds: int, each: int, period: int, kind: str) -> None:
    row, evidence = diagnose(tmp_path, limited(seconds, each, period=period, kind=kind), publishing(seconds * 50, 20 * MILLISECOND)).only(
        LIMITED
    )
    assert (row.severity, evidence["act"]) == ("warning", "broker")
    assert 0.8 * period < evidence["rest_ns"] / MILLISECOND < period
    assert evidence["rested_ns"] <= evidence["span_ns"] <= seconds * SECOND
    assert f"the broker rested {evidence['rests']} times, for " in row.text


def test_so_they_are_behind_a_burst_that_is_over(tmp_path: Path) -> None:
    row, _ = diagnose(tmp_path, limited(20, 5), publishing(300, MILLISECOND, until=20 * SECOND)).only(LIMITED)
    assert row.text.startswith("Consumer 1 ")


def test_consumers_that_all_rest_are_reported_once(tmp_path: Path) -> None:
    talks = [limited(15, 10, port=40000), limited(15, 10, port=40001, first=5)]
    row, evidence = diagnose(tmp_path, *talks, publishing(800, 20 * MILLISECOND)).only(LIMITED)
    assert row.text.startswith("2 consumers of subscription s on ")
    assert len(evidence["connections"]) == 2


NEAR_MISSES = {
    "no backlog": ({"seconds": 20, "each": 5}, (100, 200)),
    "too short": ({"seconds": 8, "each": 5}, (400, 20)),
    "no permits": ({"seconds": 20, "each": 5, "permits": 5}, (1000, 20)),
    "acknowledged late, as if the broker waited for it": ({"seconds": 20, "each": 5, "acks": 900}, (1000, 20)),
    "short rests": ({"seconds": 20, "each": 2, "period": 150}, (1500, 5)),
}


@pytest.mark.parametrize("how", NEAR_MISSES)
def test_what_may_have_another_reason_is_not(tmp_path: Path, how: str) -> None:
    consumer, (count, every) = NEAR_MISSES[how]
    assert LIMITED not in diagnose(tmp_path, limited(**consumer), publishing(count, every * MILLISECOND)).codes  # type: ignore[arg-type]


def test_one_of_two_consumers_may_rest(tmp_path: Path) -> None:
    """With Key_Shared, its keys may be rare; with Shared, others may get more."""
    for kind in ("Shared", "Key_Shared"):
        other = limited(20, 2, period=100, kind=kind, port=40001)
        assert LIMITED not in diagnose(tmp_path, limited(20, 1, kind=kind), other, publishing(1000, 20 * MILLISECOND)).codes


@pytest.mark.parametrize("fields", [{"deliver_at_time": 1}, {"txnid_least_bits": 1}], ids=["delayed", "transactional"])
def test_messages_that_wait_for_their_time_are_no_backlog(tmp_path: Path, fields: dict[str, Any]) -> None:
    talk = connected(41000).client(producer()).server(created())
    for number in range(1000):
        wait_until(talk, 100 * MILLISECOND + number * 20 * MILLISECOND)
        metadata = fields if "deliver_at_time" in fields else {}
        command: dict[str, Any] = {} if metadata else fields
        talk.client(send(sequence_id=number, metadata=metadata, **command)).server(receipt(sequence_id=number, entry=number))
    assert LIMITED not in diagnose(tmp_path, limited(20, 5), talk).codes


def test_large_messages_may_be_on_their_way_all_the_time(tmp_path: Path) -> None:
    talk = subscribed(connected(start=50 * MILLISECOND)).client(flow(1000))
    for number in range(20):
        wait_until(talk, 200 * MILLISECOND + number * SECOND)
        talk.server(message(1, number, b"x" * 20_000)).wait(20 * MILLISECOND).client(ack(number))
    assert LIMITED not in diagnose(tmp_path, talk, publishing(1000, 20 * MILLISECOND)).codes
