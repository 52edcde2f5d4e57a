"""Connections with a problem, and healthy ones that look similar, for the questions of `test_questions.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.scenarios.commands import (
    PING,
    PONG,
    ack,
    close_consumer,
    created,
    delivery,
    flow,
    lookup,
    lookup_response,
    producer,
    receipt,
    redeliver,
    send,
    send_error,
    subscribe,
    success,
)
from tests.scenarios.connections import connected, subscribed, wait_until
from tests.scenarios.conversation import SECOND, Conversation
from tests.scenarios.rules import backlog, batch_index, chunks, journey, key_shared, lookups, publishing, resends, schemas, transactions

MILLISECOND = SECOND // 1_000
HOUR = 3_600 * SECOND


def consumer_at_its_own_pace() -> list[Conversation]:
    """A consumer that acknowledges without permits for two minutes, then grants some and gets all messages at once."""
    talk = subscribed(connected()).client(flow(20)).server(*[delivery(entry) for entry in range(20)])
    for entry in range(10):
        talk.wait(12 * SECOND).client(ack(entry), PING).server(PONG)
    talk.client(flow(10)).server(delivery(20)).client(ack(*range(10, 21))).close()
    return [talk, backlog.producing(connected(40001, start=110 * SECOND), entry=20).close()]


def refused_without_damage() -> list[Conversation]:
    """A SEND that is refused for another reason, the intact message sent again with success, and its delivery."""
    refusal = send_error("PersistenceError", "full")
    talk = connected().client(producer()).server(created())
    for _ in range(4):
        talk.client(send()).server(refusal)
    return [
        talk.client(send()).server(receipt()).close(),
        subscribed(connected(40009, start=SECOND)).client(flow(9)).server(delivery(0)).close(),
    ]


def refused_again_and_again() -> list[Conversation]:
    talk = connected().client(producer()).server(created())
    for _ in range(3):
        talk.client(send()).server(resends.REFUSAL)
    return [talk.close()]


def damaged_behind_the_broker() -> list[Conversation]:
    talk = subscribed(connected(40001, start=SECOND)).client(flow(10)).server(journey.corrupted())
    return [connected().client(producer()).server(created()).client(send()).server(receipt()).close(), talk.close()]


def subscription_that_is_free_again() -> list[Conversation]:
    first = connected().client(subscribe()).server(success(2)).client(close_consumer(request=3)).server(success(3)).close()
    return [first, connected(40001, start=SECOND).client(subscribe(name="d")).server(success(2)).close()]


def redirects(times: int) -> list[Conversation]:
    """Two brokers that redirect the client to each other `times` times."""
    talks = lookups.brokers()
    for hop in range(times):
        url = (lookups.TO_TWO, lookups.TO_ONE)[hop % 2]
        wait_until(talks[hop % 2], (hop + 1) * SECOND).client(lookup(hop, authoritative=hop > 0)).server(
            lookup_response("Redirect", url, hop)
        )
    last = talks[times % 2]
    own = (lookups.TO_ONE, lookups.TO_TWO)[times % 2]
    wait_until(last, (times + 1) * SECOND).client(lookup(times, authoritative=True)).server(lookup_response("Connect", own, times))
    return [talk.close() for talk in talks]


def acked_and_again() -> list[Conversation]:
    talk = batch_index.batches().client(ack(0, ack_set=[0b11110000])).wait(5 * SECOND).client(redeliver(0))
    return [talk.server(delivery(0, batch=8, again=1)).client(close_consumer()).close()]


def the_rest_again() -> list[Conversation]:
    """A batch of which half is delivered again, and then acknowledged."""
    talk = batch_index.batches().client(ack(0, ack_set=[0b11110000])).wait(5 * SECOND).client(redeliver(0))
    talk.server(delivery(0, batch=8, again=1, ack_set=[0b11110000])).client(ack(0, ack_set=[0b00001111]), ack(1))
    return [talk.client(close_consumer()).close()]


def chunked(delivered: Sequence[int], **more: Any) -> list[Conversation]:
    """A message of which all chunks are stored, but only these are delivered."""
    sender = connected().client(producer()).server(created())
    for chunk in range(chunks.COUNT):
        sender.client(send(is_chunk=True, metadata=chunks.part(chunk, **more))).server(receipt(entry=chunk))
    taker = subscribed(connected(40001, start=SECOND), kind="Exclusive").client(flow(10))
    taker.server(*(delivery(chunk, **chunks.part(chunk, **more)) for chunk in delivered))
    return [sender.close(), taker.wait(6 * SECOND).client(PING).close()]


def left_waiting() -> list[Conversation]:
    return [connected().client(producer()).server(created()).client(send()).close("client")]


def orderly_end() -> list[Conversation]:
    talk = connected().client(producer()).server(created()).client(send()).server(receipt())
    talk = wait_until(talk, 30 * SECOND).server(PING).client(PONG)
    return [
        wait_until(talk, 60 * SECOND).client(PING).server(PONG).client(publishing.CLOSED).server(success((1 << 64) - 1)).close("server")
    ]


def many_lookups(refused: int) -> list[Conversation]:
    """Fifty lookups at once, of which `refused` are refused."""
    talk = connected()
    for request in range(50):
        talk.client(lookup(request))
    for request in range(50):
        if request < refused:
            talk.server(lookup_response("Failed", "", request, error="TooManyRequests", message="full"))
        else:
            talk.server(lookup_response("Connect", lookups.TO_ONE, request))
    return [talk.close()]


def outlived() -> list[Conversation]:
    return [wait_until(transactions.begun(), 90 * SECOND).client(PING).server(PONG)]


def expired() -> list[Conversation]:
    return [transactions.ended(transactions.begun(), error="TransactionNotFound", message="expired")]


def schema_that_is_taken() -> list[Conversation]:
    """A schema that differs from the previous one, and that the broker accepts."""
    first = connected().client(producer(schema=schemas.record("A", schemas.ID))).server(created())
    second = (
        connected(40001, start=SECOND)
        .client(producer(name="q", schema=schemas.record("A", schemas.ID, schemas.PRICE)))
        .server(created("q"))
    )
    return [first, second]


def slow_receipts(latency: int, times: int) -> list[Conversation]:
    talk = connected().client(producer()).server(created())
    for number in range(times):
        talk.client(send(1, number)).wait(latency).server(receipt(1, number, entry=number))
    return [talk.client(PING).close()]


def no_receipt(pause: int) -> list[Conversation]:
    """A SEND without a receipt on a connection that continues for `pause` ns."""
    return [connected().client(producer()).server(created()).client(send()).wait(pause).client(PING).server(PONG).close()]


def published_by_a_clock(offset: int, pause: int = SECOND) -> list[Conversation]:
    """A producer whose clock is ahead by `offset` ns, and a delivery after `pause` ns."""
    sender = connected().client(producer()).server(created())
    publish_time = (sender.time_ns + offset) // MILLISECOND
    sender.client(send(metadata={"publish_time": publish_time})).server(receipt()).close()
    taker = subscribed(connected(40001, start=pause)).client(flow(10)).server(delivery(0, publish_time=publish_time)).client(ack(0))
    return [sender, taker.close()]


def key_that_moves() -> list[Conversation]:
    """A key that moves to a second consumer after the first has returned its messages."""
    item = key_shared.deliver(key_shared.keyed(1), 1, 1, 2).wait(SECOND).client(redeliver(1, 2, number=1)).wait(20 * SECOND).close()
    two = key_shared.deliver(key_shared.keyed(2, after=4 * SECOND), 2, 1, 2, again=1).client(ack(1, 2, number=2)).close()
    return [item, two]
