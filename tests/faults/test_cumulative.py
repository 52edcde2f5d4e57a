"""Cumulative ACKs of subscriptions that do not support them, and of those that do."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.scenarios.commands import ack, close_consumer, delivery, flow
from tests.scenarios.connections import connected, subscribed
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.evaluation import diagnose

IGNORED, NOT_ACKING = "ack-cumulative-shared", "consumer-not-acking"


def consuming(kind: str, got: int, every: int, ack_kind: str, *, end: str, pause: int = 20, durable: bool = True) -> Conversation:
    """A consumer that acknowledges one of `every` messages."""
    talk = subscribed(connected(), kind=kind, durable=durable).client(flow(1000))
    for entry in range(got):
        talk.wait(pause * MILLISECOND).server(delivery(entry))
        if entry % every == every - 1:
            talk.client(ack(entry, kind=ack_kind))
    if end == "closed":
        talk.client(close_consumer())
    return talk.reset("client") if end == "rst" else talk if end == "open" else talk.close()


@pytest.mark.parametrize(
    ("kind", "got", "every", "end"), [*product(("Shared", "Key_Shared"), (1, 10, 40), (1, 10), ("open", "fin", "rst", "closed"))]
)
def test_a_cumulative_ack_of_a_shared_subscription_is_named(tmp_path: Path, kind: str, got: int, every: int, end: str) -> None:
    diagnosis = diagnose(tmp_path, consuming(kind, got, every, "Cumulative", end=end))
    assert len(diagnosis.of(IGNORED)) == (got >= every)
    if got >= every:
        row, evidence = diagnosis.only(IGNORED)
        assert (row.severity, evidence["count"], set(diagnosis.commands(row))) == ("warning", got // every, {"ACK"})


@pytest.mark.parametrize("kind", ["Shared", "Key_Shared"])
def test_what_they_name_stays_unacknowledged(tmp_path: Path, kind: str) -> None:
    talk = consuming(kind, 10, 1, "Cumulative", end="open").wait(6 * SECOND).client(close_consumer()).close()
    assert {IGNORED, NOT_ACKING} <= set(diagnose(tmp_path, talk).codes)


@pytest.mark.parametrize(
    ("kind", "ack_kind", "got", "every", "end"),
    [
        *product(("Exclusive", "Failover"), ("Cumulative",), (1, 10, 40), (1, 10), ("open", "fin", "rst")),
        *product(("Shared", "Key_Shared"), ("Individual",), (10, 40), (1,), ("open", "fin", "rst")),
    ],
)
def test_those_that_the_broker_takes_are_not(tmp_path: Path, kind: str, ack_kind: str, got: int, every: int, end: str) -> None:
    assert diagnose(tmp_path, consuming(kind, got, every, ack_kind, end=end)).of(IGNORED) == []


@pytest.mark.parametrize("got", [1, 3, 30])
def test_of_a_consumer_from_before_the_capture_the_type_is_unknown(tmp_path: Path, got: int) -> None:
    talk = Conversation(("10.0.0.1", 40000), ("10.0.0.2", 6650), acknowledge=False)
    for entry in range(got):
        talk.server(delivery(entry)).client(ack(entry, kind="Cumulative"))
    assert diagnose(tmp_path, talk).of(IGNORED) == []
