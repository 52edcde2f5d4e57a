"""Who produces and consumes on a connection, and the SENDs that wait for their receipts."""

from __future__ import annotations

from collections import deque

import msgspec

from pulsarscope.protocols.pulsar.entry.reader import Entry


class Producer(msgspec.Struct):
    """A PRODUCER and the SENDs of it that wait for their receipt, oldest first."""

    topic: str | None = None
    name: str | None = None
    waiting: deque[Sent] = msgspec.field(default_factory=deque)
    known: set[int] | None = None
    """Their sequence ids, and maybe some that wait no more; made when a receipt first does not fit the oldest."""


class Sent(msgspec.Struct, gc=False):
    """A SEND that waits for its receipt, with its messages."""

    file: int
    packet: int
    sub: int
    time: int
    sequence_id: int
    entry: Entry | None
    ticket: int = 0
    """Under which its messages wait."""


class Consumer(msgspec.Struct):
    """A SUBSCRIBE."""

    topic: str | None = None
    subscription: str | None = None
