"""Positions of consumers and readers in their topic."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from pulsarscope.protocols.pulsar.rules.subscriptions.resting import Unsubscribed, note_delivery
from tests.faults.consumers import publishing
from tests.scenarios.commands import PING, PONG, TOPIC, ack, close_consumer, delivery, flow, message, receipt, send
from tests.scenarios.connections import connected, subscribed, wait_until
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.evaluation import diagnose
from tests.scenarios.frames import command_frame

BEFORE, BEHIND = "published-before-subscription", "reader-behind-last-id"


def late(begin: int, first: int, got: int, **fields: Any) -> Conversation:
    """A consumer that subscribes at `begin` ms and gets entries from `first` on."""
    talk = subscribed(connected(start=begin * MILLISECOND), **fields).client(flow(1000))
    return wait_until(talk, 6 * SECOND).server(*[delivery(first + number) for number in range(got)]).client(ack(*range(first, first + got)))


@pytest.mark.parametrize(("published", "begin", "got", "kind"), [*product((1, 5, 40), (1000, 4000), (0, 3), ("Shared", "Exclusive"))])
def test_what_was_published_before_a_subscription_is_reported(tmp_path: Path, published: int, begin: int, got: int, kind: str) -> None:
    talk = late(begin, published, got, kind=kind)
    row, evidence = diagnose(tmp_path, talk, publishing(published, 10 * MILLISECOND, until=9 * SECOND)).only(BEFORE)
    assert (row.severity, evidence["count"], evidence["first"]) == ("note", published, [7, 0])


def older_publishing(count: int, every: int) -> Conversation:
    """A producer from before the capture, of whose topic only the ledger is known."""
    talk = Conversation(("10.0.0.1", 41000), ("10.0.0.2", 6650), acknowledge=False)
    for number in range(count):
        wait_until(talk, 100 * MILLISECOND + number * every)
        talk.client(send(sequence_id=number)).server(receipt(sequence_id=number, entry=number))
    return talk


@pytest.mark.parametrize(("published", "begin", "kind"), [*product((2, 5, 40), (1000, 4000), ("Shared", "Exclusive"))])
def test_what_a_producer_from_before_the_capture_published_is_reported(tmp_path: Path, published: int, begin: int, kind: str) -> None:
    row, evidence = diagnose(tmp_path, late(begin, published, 3, kind=kind), older_publishing(published, 10 * MILLISECOND)).only(BEFORE)
    assert (evidence["count"], evidence["first"], evidence["topic"]) == (published, [7, 0], TOPIC)
    assert TOPIC in (row.text or "")


@pytest.mark.parametrize(("published", "begin", "got"), [*product((5, 40), (1000, 4000), (1, 5))])
def test_one_whose_subscription_may_be_that_of_a_consumer_from_before_the_capture_is_not(
    tmp_path: Path, published: int, begin: int, got: int
) -> None:
    """Clients repeatedly subscribe at the latest message, which only counts for a new subscription."""
    older = Conversation(("10.0.0.1", 43000), ("10.0.0.2", 6650), acknowledge=False)
    older.wait(100 * MILLISECOND).server(*[delivery(entry) for entry in range(got)]).client(ack(*range(got))).close()
    diagnosis = diagnose(tmp_path, late(begin, published, 3), older_publishing(published, 10 * MILLISECOND), older)
    assert BEFORE not in diagnosis.codes


@pytest.mark.parametrize(("turns", "ledgers"), [*product((1, 3, 50), ((8, 7), (7, 8, 9)))])
def test_a_consumer_from_before_the_capture_is_one_fact_of_its_topic(tmp_path: Path, turns: int, ledgers: tuple[int, ...]) -> None:
    """Redeliveries alternate between ledgers; a fact for each change would displace other facts of the topic."""
    talk = Conversation(acknowledge=False)
    for turn in range(turns):
        talk.server(*[message(1, turn, ledger=ledger) for ledger in ledgers])
    context = Mock()
    table: dict[int, Unsubscribed] = {}
    for row in diagnose(tmp_path, talk).frames.values():
        note_delivery(context, table, row)
    assert [call.args[1] for call in context.emit_fact.call_args_list] == [f"topic of ledger {ledgers[0]}"]


@pytest.mark.parametrize("names", [("s", "t"), ("t", "s")])
def test_each_of_two_subscriptions_has_its_name(tmp_path: Path, names: tuple[str, str]) -> None:
    talks = []
    for number, name in enumerate(names):
        talk = subscribed(connected(40100 + number, start=SECOND * (2 + number)), subscription=name, initialPosition="Latest")
        talks.append(wait_until(talk.client(flow(100)), 7 * SECOND).server(delivery(9)))
    rows = diagnose(tmp_path, *talks, publishing(9, 10 * MILLISECOND, until=9 * SECOND)).of(BEFORE)
    assert sorted((row.evidence or {})["subscription"] for row in rows) == ["s", "t"]


@pytest.mark.parametrize(
    ("published", "begin", "position", "first"),
    [
        *product((1, 5, 40), (1000, 4000), ("Earliest",), (0, 1)),
        *product((1, 5, 40), (1000, 4000), ("Latest",), (0,)),  # the subscription existed, and gets them
        *product((1, 5, 40), (50, 90), ("Latest",), (0,)),  # it began before
    ],
)
def test_a_subscription_that_gets_all_is_healthy(tmp_path: Path, published: int, begin: int, position: str, first: int) -> None:
    talk = late(begin, first, published - first, initialPosition=position)
    assert BEFORE not in diagnose(tmp_path, talk, publishing(published, 10 * MILLISECOND, until=9 * SECOND)).codes


def test_a_consumer_that_comes_again_is_no_new_subscription(tmp_path: Path) -> None:
    talk = subscribed(connected()).client(flow(10))
    wait_until(talk, SECOND).server(delivery(0)).client(ack(0), close_consumer()).wait(SECOND)
    talk = wait_until(subscribed(talk).client(flow(10)), 8 * SECOND).server(delivery(20))
    assert BEFORE not in diagnose(tmp_path, talk, publishing(5, 10 * MILLISECOND, until=9 * SECOND)).codes


def reading(
    got: int,
    announced: int,
    waited: int,
    *,
    asks: int = 1,
    permits: int = 1000,
    start: tuple[int, int] | None = None,
    durable: bool = False,
) -> Conversation:
    """A reader that gets entries from 0, requests the last one and waits."""
    place: dict[str, Any] = {} if start is None else {"start_message_id": {"ledgerId": start[0], "entryId": start[1]}}
    talk = subscribed(connected(), kind="Exclusive", durable=durable, **place).client(flow(permits))
    talk.server(*[delivery(entry) for entry in range(got)])
    for number in range(asks):
        talk.client(command_frame("GET_LAST_MESSAGE_ID", consumer_id=1, request_id=50 + number))
        last = {"ledgerId": 7, "entryId": announced}
        talk.server(command_frame("GET_LAST_MESSAGE_ID_RESPONSE", request_id=50 + number, last_message_id=last))
        talk.wait(waited * MILLISECOND // asks)
    return talk.client(PING)


@pytest.mark.parametrize(("got", "missing", "waited", "asks"), [*product((1, 5, 20), (1, 3), (1500, 5000), (1, 10))])
def test_a_reader_that_does_not_get_the_last_message_is_named(tmp_path: Path, got: int, missing: int, waited: int, asks: int) -> None:
    diagnosis = diagnose(tmp_path, reading(got, got - 1 + missing, waited, asks=asks))
    row, evidence = diagnosis.only(BEHIND)
    assert diagnosis.commands(row) == ["GET_LAST_MESSAGE_ID_RESPONSE"]
    assert (evidence["last_message_id"], evidence["last_delivered"]) == ([7, got - 1 + missing], [7, got - 1])


@pytest.mark.parametrize(("got", "size", "before"), [*product((0, 1, 20), (60, 2000), (False, True))])
def test_a_reader_whose_last_message_the_capture_may_lack_is_not_accused(tmp_path: Path, got: int, size: int, before: bool) -> None:
    """A reader that lacks only bytes from before the answer is."""
    talk = subscribed(connected(), kind="Exclusive", durable=False, start_message_id={"ledgerId": 7, "entryId": 0}).client(flow(1000))
    if before:
        talk.lose("server", size)
    talk.server(*[delivery(entry) for entry in range(got + 1)]).wait(MILLISECOND)
    talk.client(command_frame("GET_LAST_MESSAGE_ID", consumer_id=1, request_id=50))
    last = {"ledgerId": 7, "entryId": got + 1}
    talk.server(command_frame("GET_LAST_MESSAGE_ID_RESPONSE", request_id=50, last_message_id=last)).wait(MILLISECOND)
    if not before:
        talk.lose("server", size)
    talk.server(PING).client(PONG).wait(3 * SECOND).client(PING).server(PONG)
    assert (BEHIND in diagnose(tmp_path, talk).codes) == before


@pytest.mark.parametrize(("got", "size"), [*product((0, 1, 20), (60, 2000))])
def test_a_reader_whose_last_message_was_lost_before_the_answer_is_not_accused(tmp_path: Path, got: int, size: int) -> None:
    talk = subscribed(connected(), kind="Exclusive", durable=False, start_message_id={"ledgerId": 7, "entryId": 0}).client(flow(1000))
    talk.server(*[delivery(entry) for entry in range(got)]).wait(MILLISECOND)
    talk.lose("server", size).server(PING).client(PONG).wait(MILLISECOND)
    talk.client(command_frame("GET_LAST_MESSAGE_ID", consumer_id=1, request_id=50))
    last = {"ledgerId": 7, "entryId": got or 1}
    talk.server(command_frame("GET_LAST_MESSAGE_ID_RESPONSE", request_id=50, last_message_id=last)).wait(3 * SECOND)
    assert BEHIND not in diagnose(tmp_path, talk.client(PING).server(PONG)).codes


def test_a_reader_that_begins_at_the_earliest_message_and_gets_nothing_is_named(tmp_path: Path) -> None:
    assert BEHIND in diagnose(tmp_path, reading(0, 3, 2000, start=(2**64 - 1, 2**64 - 1))).codes


@pytest.mark.parametrize(
    ("got", "announced", "waited", "permits", "start", "durable"),
    [
        *((got, got - 1, waited, 1000, None, False) for got, waited in product((1, 5, 20), (1500, 9000))),  # it has it
        *((got, got + 1, 500, 1000, None, False) for got in (1, 5, 20)),  # soon
        *((got, got + 1, 3000, got, None, False) for got in (1, 5, 20)),  # its client must act
        *((0, announced, 3000, 1000, start, False) for announced, start in product((0, 5), (None, (2**63 - 1, 2**63 - 1), (7, 5)))),
        (0, 2**64 - 1, 3000, 1000, (2**64 - 1, 2**64 - 1), False),  # an empty topic
        *((got, got + 1, 3000, 1000, None, True) for got in (1, 5)),  # a consumer
    ],
)
def test_a_reader_at_the_end_is_healthy(
    tmp_path: Path, got: int, announced: int, waited: int, permits: int, start: tuple[int, int] | None, durable: bool
) -> None:
    assert BEHIND not in diagnose(tmp_path, reading(got, announced, waited, permits=permits, start=start, durable=durable)).codes
