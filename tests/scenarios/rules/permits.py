"""Conversations with consumers that run out of permits."""

from __future__ import annotations

from tests.scenarios import Conversation
from tests.scenarios.commands import close_consumer, delivery, flow
from tests.scenarios.connections import connected, subscribed


def below_zero() -> Conversation:
    return subscribed(connected()).client(flow(3)).server(delivery(1, batch=10)).client(flow(50)).client(close_consumer()).close()
