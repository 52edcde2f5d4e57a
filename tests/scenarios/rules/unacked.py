"""Conversations with consumers that acknowledge late, or not at all."""

from __future__ import annotations

from tests.scenarios import Conversation
from tests.scenarios.commands import PING, ack, delivery, flow
from tests.scenarios.connections import connected, subscribed
from tests.scenarios.conversation import SECOND


def consumer_with_entries(count: int, kind: str = "Shared") -> Conversation:
    """A consumer that got `count` entries, from 0."""
    return subscribed(connected(), kind=kind).client(flow(1000)).server(*[delivery(entry) for entry in range(count)])


def with_a_hole() -> list[Conversation]:
    """A consumer that acknowledges all entries but one."""
    talk = consumer_with_entries(30).client(ack(0, 1, 2)).client(ack(*range(4, 30))).wait(100 * SECOND)
    return [talk.server(delivery(30)).client(ack(30), PING).close()]


def one_after_the_other() -> list[Conversation]:
    """A consumer that acknowledges entries in order, one every few seconds: each waits for long, none is skipped."""
    talk = consumer_with_entries(60)
    for entry in range(50):
        talk.wait(5 * SECOND).client(ack(entry), PING)
    return [talk.close()]
