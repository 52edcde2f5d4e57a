"""Entries that an Exclusive or Failover consumer gets late, or again, without a request of its client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from pulsarscope.protocols.pulsar.rules.consumers import order
from tests.scenarios import Conversation
from tests.scenarios.commands import ack, close_consumer, created, delivery, flow, message, producer, receipt, redeliver, send, success
from tests.scenarios.connections import connected, subscribed
from tests.scenarios.conversation import SECOND
from tests.scenarios.evaluation import diagnose
from tests.scenarios.frames import command_frame

CODE = "delivered-out-of-order"


def consuming(kind: str = "Exclusive", **fields: object) -> Conversation:
    talk = subscribed(connected(), 1, kind, **fields).client(flow(1000))
    return talk.server(command_frame("ACTIVE_CONSUMER_CHANGE", consumer_id=1, is_active=True)) if kind == "Failover" else talk


def deliver(talk: Conversation, entries: Sequence[int]) -> Conversation:
    for entry in entries:
        talk.wait(SECOND // 10).server(delivery(entry)).client(ack(entry))
    return talk


@pytest.mark.parametrize("kind", ["Exclusive", "Failover"])
@pytest.mark.parametrize(
    ("entries", "first", "late", "again"),
    [
        ((0, 1, 3, 2, 4), (2, 3), 1, 0),
        ((5, 6, 9, 7, 8, 10), (7, 9), 2, 0),
        ((5, 6, 9, 8, 7, 10), (8, 9), 2, 0),
        ((0, 1, 2, 2, 3), (2, 2), 0, 1),
        ((0, 1, 2, 3, 1, 4, 6, 5), (1, 3), 1, 1),
        ((*range(40), 41, 40, *range(42, 80)), (40, 41), 1, 0),
    ],
)
def test_entries_that_come_late_or_again_are_named(
    tmp_path: Path, kind: str, entries: Sequence[int], first: tuple[int, int], late: int, again: int
) -> None:
    diagnosis = diagnose(tmp_path, deliver(consuming(kind), entries).close())
    row, evidence = diagnosis.only(CODE)
    assert row.severity == "warning"
    assert (evidence["message_id"], evidence["after"]) == ([7, first[0]], [7, first[1]])
    assert (evidence["late"], evidence["again"]) == (late, again)
    assert {*diagnosis.commands(row)} == {"MESSAGE"}


def published(count: int) -> Conversation:
    """A producer whose messages become the first entries."""
    talk = connected(41000).client(producer()).server(created())
    for entry in range(count):
        talk.client(send(1, entry)).server(receipt(1, entry, entry=entry))
    return talk


@pytest.mark.parametrize(
    ("entries", "skipped"),
    [
        ((0, 1, 2, 4, 3, 5, 6), None),
        ((0, 1, 5, 4, 2, 3, 6), None),
        ((0, 1, 5, 3, 6, 7), 2),
        ((0, 1, 5, 2, 4, 6, 7), 3),
        ((0, 4, 1, 5, 6), 2),
    ],
)
def test_only_those_that_never_come_are_called_skipped(tmp_path: Path, entries: Sequence[int], skipped: int | None) -> None:
    diagnosis = diagnose(tmp_path, deliver(consuming(), entries).wait(20 * SECOND).close(), published(10).wait(20 * SECOND).close())
    assert CODE in diagnosis.codes
    found = [row.evidence["before"][1] + 1 for row in diagnosis.of("messages-skipped") if row.evidence]
    assert found[:1] == ([] if skipped is None else [skipped])


def asked(talk: Conversation) -> Conversation:
    return deliver(talk.client(redeliver()), (1, 2, 3, 4))


def asked_for_one(talk: Conversation) -> Conversation:
    return deliver(talk.client(redeliver(2)), (2, 4, 5))


def sought(talk: Conversation) -> Conversation:
    return deliver(talk.client(command_frame("SEEK", consumer_id=1, request_id=5)).server(success(5)), (0, 1, 2))


def opened_anew(talk: Conversation) -> Conversation:
    return deliver(subscribed(talk.client(close_consumer(1)), 1, "Exclusive").client(flow(100)), (0, 1, 2, 3))


def opened_anew_by_the_broker(talk: Conversation) -> Conversation:
    return deliver(subscribed(talk.server(close_consumer(1)), 1, "Exclusive").client(flow(100)), (0, 1, 2, 3))


def active_again(talk: Conversation) -> Conversation:
    for is_active in (False, True):
        talk.server(command_frame("ACTIVE_CONSUMER_CHANGE", consumer_id=1, is_active=is_active)).wait(SECOND)
    return deliver(talk, (1, 2, 3))


def in_a_transaction(talk: Conversation) -> Conversation:
    return deliver(talk.client(ack(3, txnid_least_bits=1, txnid_most_bits=0)), (3, 4))


def later_ledger(talk: Conversation) -> Conversation:
    return talk.server(*[message(1, entry, ledger=9) for entry in range(3)])


def with_holes(talk: Conversation) -> Conversation:
    return deliver(talk, (5, 8, 10))


def incomplete(talk: Conversation) -> Conversation:
    return deliver(talk.lose("client", 100), (1, 2, 3))


@pytest.mark.parametrize(
    "course",
    [asked, asked_for_one, sought, opened_anew, opened_anew_by_the_broker, in_a_transaction, later_ledger, with_holes, incomplete],
)
def test_there_may_be_a_reason_for_them(tmp_path: Path, course: Callable[[Conversation], Conversation]) -> None:
    talk = course(deliver(consuming(), (0, 1, 2, 3)))
    assert CODE not in diagnose(tmp_path, talk.close()).codes


def test_a_consumer_that_is_active_again_gets_what_it_has_not_acknowledged(tmp_path: Path) -> None:
    talk = active_again(deliver(consuming("Failover"), (0, 1, 2, 3)))
    assert CODE not in diagnose(tmp_path, talk.close()).codes


@pytest.mark.parametrize("before", [True, False])
def test_a_transaction_from_an_earlier_connection_may_end(tmp_path: Path, before: bool) -> None:
    coordinator = command_frame("TC_CLIENT_CONNECT_REQUEST", request_id=70, tc_id=3)
    talk = subscribed(connected().client(coordinator), 1, "Exclusive").client(flow(100)) if before else consuming().client(coordinator)
    assert CODE not in diagnose(tmp_path, deliver(talk, (0, 1, 2, 3, 2, 3, 4)).close()).codes


def test_old_clients_are_not_told_that_they_were_on_standby(tmp_path: Path) -> None:
    """A broker notifies those of protocol version 12 or later, at the latest before the first message."""
    talk = subscribed(connected(), 1, "Failover").client(flow(1000))
    assert CODE not in diagnose(tmp_path, deliver(talk, (0, 1, 2, 3, 1, 2, 3, 4)).close()).codes


def test_what_comes_after_a_request_was_not_skipped(tmp_path: Path) -> None:
    talk = consuming()
    for entry in (0, 1, 4, 5):
        talk.wait(SECOND // 10).server(message(1, entry, metadata={"producer_name": "p"})).client(ack(entry))
    talk.client(redeliver(5)).server(delivery(2), delivery(3), delivery(5)).client(ack(2, 3, 5))
    assert diagnose(tmp_path, published(6).close(), talk.wait(SECOND).close()).codes == []


def test_holes_that_are_divided_again_and_again_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "HOLES_MAX", 5)
    _, evidence = diagnose(tmp_path, deliver(consuming(), (0, 1_000, *range(10, 900, 20))).close()).only(CODE)
    assert evidence["late"] == 4


@pytest.mark.parametrize("kind", ["Shared", "Key_Shared"])
def test_shared_subscriptions_promise_no_order(tmp_path: Path, kind: str) -> None:
    assert CODE not in diagnose(tmp_path, deliver(consuming(kind), (0, 2, 1, 1, 3)).close()).codes


def test_non_persistent_messages_have_no_place(tmp_path: Path) -> None:
    talk = deliver(consuming(topic="non-persistent://public/default/t"), (0, 0, 0))
    assert CODE not in diagnose(tmp_path, talk.close()).codes


@pytest.mark.parametrize("kind", ["Shared", "Key_Shared"])
@pytest.mark.parametrize("count", [1, 12])
def test_no_consumer_gets_what_it_holds_again(tmp_path: Path, kind: str, count: int) -> None:
    talk = deliver(consuming(kind), range(3))
    for entry in range(3, 3 + count):
        talk.server(delivery(entry)).server(delivery(entry)).client(ack(entry)).wait(SECOND // 10)
    row, evidence = diagnose(tmp_path, talk.close()).only(CODE)
    assert (evidence["message_id"], evidence["again"]) == ([7, 3], count)
    assert row.severity == "warning"


@pytest.mark.parametrize("again", ["asked", "all", "counted", "acknowledged", "reopened"])
def test_a_shared_consumer_gets_again_what_it_returned(tmp_path: Path, again: str) -> None:
    talk = deliver(consuming("Shared"), range(3)).server(delivery(3))
    if again in ("asked", "all"):
        talk.client(redeliver(3) if again == "asked" else redeliver())
    elif again == "acknowledged":
        talk.client(ack(3))
    elif again == "reopened":
        talk = subscribed(talk.server(close_consumer(1)), 1, "Shared").client(flow(1000))
    talk.wait(SECOND).server(delivery(3, again=1) if again == "counted" else delivery(3)).client(ack(3))
    assert CODE not in diagnose(tmp_path, talk.close()).codes
