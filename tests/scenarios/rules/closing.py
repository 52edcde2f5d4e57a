"""Conversations with a side that falls silent."""

from __future__ import annotations

from tests.scenarios.commands import PING, PONG
from tests.scenarios.connections import connected, wait_until
from tests.scenarios.conversation import SECOND, Conversation


def half_dead() -> list[Conversation]:
    """A client that answers only the first PING."""
    talk = wait_until(connected().server(PING).client(PONG), 30 * SECOND).server(PING)
    return [wait_until(talk, 60 * SECOND).server(PING).close("server")]
