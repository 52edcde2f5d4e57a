"""Subscriptions blocked by the unacknowledged messages of all their consumers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios import Conversation
from tests.scenarios.commands import ack, close_consumer, delivery, flow
from tests.scenarios.connections import connected, subscribed
from tests.scenarios.conversation import SECOND
from tests.scenarios.evaluation import diagnose


def holding(number: int, *, after: int = 0) -> Conversation:
    """A connection with one consumer that holds 48,000 messages in batches."""
    talk = subscribed(connected(40000 + number, start=after), number).client(flow(10**6, number))
    return talk.server(*[delivery(entry, number, batch=12_000) for entry in range(4)])


def test_consumers_that_reach_the_limit_of_the_subscription_together_are_named(tmp_path: Path) -> None:
    diagnosis = diagnose(tmp_path, *[holding(number) for number in range(1, 6)])
    row, evidence = diagnosis.only("consumer-not-acking")
    assert (evidence["unacknowledged"], evidence["limit"], len(evidence["frames"])) == (204_000, 200_000, 5)
    assert set(diagnosis.commands(row)) == {"MESSAGE"}
    assert "5 consumers of subscription s" in (row.text or "")


@pytest.mark.parametrize("given_up", ["acknowledged", "closed", "connection lost"])
def test_what_one_gave_up_before_does_not_count(tmp_path: Path, given_up: str) -> None:
    talks = [holding(number) for number in range(1, 5)]
    if given_up == "connection lost":
        talks[0].reset()
    else:
        talks[0].client(ack(0, 1, 2, 3, number=1) if given_up == "acknowledged" else close_consumer(1))
    assert "consumer-not-acking" not in diagnose(tmp_path, *talks, holding(9, after=SECOND)).codes
