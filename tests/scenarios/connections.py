"""Conversations that begin like those of Pulsar's clients."""

from __future__ import annotations

from typing import Any

from tests.scenarios.commands import CONNECT, CONNECTED, subscribe, success
from tests.scenarios.conversation import START_NS, Conversation


def connected(port: int = 40000, *, host: str = "10.0.0.1", server: tuple[str, int] = ("10.0.0.2", 6650), start: int = 0) -> Conversation:
    """A connection that begins `start` ns after the capture: its packets 1 to 5 are the handshake, CONNECT and CONNECTED."""
    conversation = Conversation((host, port), server, start_ns=START_NS + start, acknowledge=False)
    return conversation.handshake().client(CONNECT).server(CONNECTED)


def wait_until(conversation: Conversation, time: int) -> Conversation:
    """Silence until `time` ns after the beginning of the capture."""
    assert START_NS + time >= conversation.time_ns
    return conversation.wait(START_NS + time - conversation.time_ns)


def subscribed(conversation: Conversation, number: int = 1, kind: str = "Shared", **fields: Any) -> Conversation:
    """A consumer that subscribes, and the broker's SUCCESS."""
    conversation.client(subscribe(number, f"c{number}", 100 + number, kind, **fields))
    return conversation.server(success(100 + number))
