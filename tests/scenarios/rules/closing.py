"""Conversations with a side that falls silent."""

from __future__ import annotations

from tests.scenarios.conversation import Conversation
from tests.scenarios.rules.recorded import (
    PING,
    PONG,
    SECOND,
    dial,
    until,
)


def half_dead() -> list[Conversation]:
    """A client that answers only the first PING."""
    talk = until(dial().server(PING).client(PONG), 30 * SECOND).server(PING)
    return [until(talk, 60 * SECOND).server(PING).close("server")]
