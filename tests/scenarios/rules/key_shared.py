"""Conversations with consumers of Key_Shared subscriptions."""

from __future__ import annotations

from typing import Any

from tests.scenarios import Conversation
from tests.scenarios.commands import ack, delivery, flow
from tests.scenarios.connections import connected, subscribed
from tests.scenarios.conversation import SECOND


def keyed(number: int, *, after: int = 0, kind: str = "Key_Shared", **meta: Any) -> Conversation:
    """A connection with one consumer."""
    fields: dict[str, Any] = {"keySharedMeta": {"keySharedMode": "AUTO_SPLIT", **meta}} if kind == "Key_Shared" else {}
    return subscribed(connected(40000 + number, start=after), number, kind=kind, **fields).client(flow(1000, number))


def deliver(talk: Conversation, number: int, *entries: int, key: str = "k", **fields: Any) -> Conversation:
    return talk.server(*[delivery(entry, number, partition_key=key, **fields) for entry in entries])


def on_two_consumers() -> list[Conversation]:
    """Two consumers: the second gets a message of the key while the first holds some."""
    item = deliver(keyed(1), 1, 1, 2, 3).client(ack(1, number=1)).wait(10 * SECOND).client(ack(2, 3, number=1)).close()
    return [item, deliver(keyed(2, after=4 * SECOND), 2, 4).client(ack(4, number=2)).close()]


def out_of_order() -> list[Conversation]:
    return [deliver(deliver(keyed(1), 1, 1, 5), 1, 3).client(ack(1, 3, 5, number=1)).close()]
