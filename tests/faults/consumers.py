"""Consumers beside a producer of their topic, each with its own rhythm."""

from __future__ import annotations

from tests.scenarios.commands import ack, close_consumer, created, delivery, flow, producer, receipt, send
from tests.scenarios.connections import connected, subscribed, wait_until
from tests.scenarios.conversation import MILLISECOND, Conversation


def publishing(count: int, every: int, *, until: int = 0, first: int = 0) -> Conversation:
    """A producer on its own connection that publishes `count` entries, one every `every` ns."""
    talk = connected(41000).client(producer()).server(created())
    for number in range(count):
        wait_until(talk, 100 * MILLISECOND + number * every)
        talk.client(send(sequence_id=number)).server(receipt(sequence_id=number, entry=first + number))
    return wait_until(talk, until).client(send(sequence_id=count)) if until else talk


def consuming(
    got: int,
    permits: int,
    *,
    until: int,
    every: int = MILLISECOND,
    kind: str = "Shared",
    acks: int = 0,
    pause: int = 50 * MILLISECOND,
    port: int = 40000,
    end: str = "open",
) -> Conversation:
    """A consumer that gets entries from 0, acknowledges the first `acks` of them one by one, and then does nothing.

    The kind Reader is an exclusive consumer of a subscription that the broker does not keep.
    """
    fields = {"durable": False} if kind == "Reader" else {}
    talk = subscribed(connected(port, start=50 * MILLISECOND), kind="Exclusive" if fields else kind, **fields).client(flow(permits))
    talk.wait(100 * MILLISECOND)
    for entry in range(got):
        talk.wait(every).server(delivery(entry))
    for entry in range(acks):
        talk.wait(pause).client(ack(entry))
    if end != "open":
        wait_until(talk, until)
        if end == "closed":
            talk.client(close_consumer())
        talk.reset("client") if end == "rst" else talk.close()
    return talk


def leaving(
    entries: range,
    number: int,
    start: int,
    end: str,
    *,
    acks: range = range(0),
    talk: Conversation | None = None,
    subscription: str = "s",
) -> Conversation:
    """A consumer that gets entries, acknowledges some and leaves."""
    talk = subscribed(talk or connected(40000 + number, start=start), subscription=subscription).client(flow(1000))
    talk.server(*[delivery(entry) for entry in entries]).wait(20 * MILLISECOND)
    for entry in acks:
        talk.client(ack(entry))
    if end == "closed":
        talk.client(close_consumer())
    if end == "rst":
        return talk.reset("client")
    return talk if end == "open" else talk.close()
