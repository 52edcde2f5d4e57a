"""Conversations with a consumer that waits for a published message."""

from __future__ import annotations

from typing import Any

from tests.scenarios import Conversation
from tests.scenarios.commands import PING, TOPIC, created, delivery, flow, producer, receipt, send
from tests.scenarios.connections import connected, subscribed
from tests.scenarios.conversation import SECOND


def producing(talk: Conversation, entry: int, topic: str = TOPIC, metadata: dict[str, Any] | None = None, name: str = "p") -> Conversation:
    """A connection whose producer sends one message."""
    talk.client(producer(name=name, topic=topic)).server(created(name))
    return talk.client(send(metadata=metadata)).server(receipt(entry=entry))


def silent() -> list[Conversation]:
    """A consumer with permits that does not get a published message."""
    waiting = subscribed(connected()).client(flow(10)).server(delivery(1)).wait(60 * SECOND).client(PING).close()
    return [waiting, producing(connected(40001, start=2 * SECOND), entry=2).close()]
