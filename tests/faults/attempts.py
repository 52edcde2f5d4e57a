"""Connections that fail at their start."""

from __future__ import annotations

from tests.scenarios.conversation import SECOND, START_NS, Conversation, Endpoint
from tests.scenarios.packets import ACK, RST, SYN


def attempt(
    server: Endpoint, start: int, how: str = "refused", *, port: int = 41000, client: str = "10.0.0.1", syns: int = 1
) -> Conversation:
    """A SYN that is refused, reset after a frame, closed at once, or never answered however often it is repeated."""
    talk = Conversation((client, port), server, start_ns=START_NS + start, acknowledge=False)
    if how in ("refused", "unanswered"):
        for number in range(syns):
            if number:
                talk.wait(SECOND << number - 1)
            talk._add(0, flags=SYN, sequence=talk._next[0] - 1)
        if how == "refused":
            talk._add(1, flags=RST | ACK, sequence=0)
        return talk
    talk.handshake()
    return talk.reset() if how == "reset" else talk.close("server")
