"""Conversations of producers that share a name."""

from __future__ import annotations

from tests.scenarios.commands import close_producer, created, producer, success
from tests.scenarios.connections import connected
from tests.scenarios.conversation import SECOND, Conversation


def free_again() -> list[Conversation]:
    """A producer that closes before another takes its name."""
    first = connected().client(producer()).server(created()).client(close_producer(1, 2))
    second = connected(40001, start=SECOND).client(producer(producer_access_mode="ExclusiveWithFencing")).server(created())
    return [first.server(success(2)).close(), second.close()]
