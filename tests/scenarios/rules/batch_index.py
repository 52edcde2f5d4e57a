"""Conversations with a consumer of batches."""

from __future__ import annotations

from tests.scenarios import Conversation
from tests.scenarios.commands import delivery, flow
from tests.scenarios.connections import connected, subscribed


def batches(count: int = 2, size: int = 8) -> Conversation:
    """A consumer with `count` batches."""
    return subscribed(connected()).client(flow(1000)).server(*[delivery(entry, batch=size) for entry in range(count)])
