"""Conversations with payloads around the broker's limit."""

from __future__ import annotations

from tests.scenarios.commands import CONNECT, created, producer, send
from tests.scenarios.conversation import START_NS, Conversation
from tests.scenarios.frames import command_frame

LIMIT = 1 << 16
CONNECTED = command_frame("CONNECTED", server_version="test", protocol_version=21, max_message_size=LIMIT)


def sending(*sizes: int, port: int = 40_000, start: int = 0) -> Conversation:
    talk = (
        Conversation(("10.0.0.1", port), acknowledge=False, mss=60_000, start_ns=START_NS + start)
        .handshake()
        .client(CONNECT)
        .server(CONNECTED)
        .client(producer())
        .server(created())
    )
    for number, size in enumerate(sizes):
        talk.client(send(1, number, b"x" * size))
    return talk
