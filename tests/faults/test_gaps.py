"""Answers that may be missing in the capture: a packet was not captured, or a direction begins later."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.faults.consumers import publishing
from tests.scenarios.commands import (
    BY_BROKER,
    PING,
    PONG,
    ack,
    close_consumer,
    created,
    delivery,
    error,
    flow,
    producer,
    receipt,
    send,
    subscribe,
    success,
)
from tests.scenarios.connections import connected, subscribed, wait_until
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.evaluation import findings_of, only, problem_codes, with_code
from tests.scenarios.frames import command_frame
from tests.scenarios.packets import ACK, FIN

UNANSWERED = {"request-unanswered", "send-unanswered"}


def asking(talk: Conversation, kind: str, number: int) -> Conversation:
    if kind == "SEND":
        return talk.client(send(1, number))
    return talk.client(command_frame("LOOKUP", topic="persistent://public/default/t", request_id=100 + number))


def answer(kind: str, number: int) -> bytes:
    if kind == "SEND":
        return receipt(1, number, entry=number)
    fields = {"brokerServiceUrl": "pulsar://10.0.0.2:6650", "response": "Connect", "authoritative": True}
    return command_frame("LOOKUP_RESPONSE", request_id=100 + number, **fields)


def talked(kind: str, asked: int, lost: range, size: int, *, before: bool = False) -> Conversation:
    """Requests with answers, except some: there, or at the start, the capture lacks `size` bytes of the server."""
    talk = connected().client(producer()).server(created())
    if before:
        talk.lose("server", size).server(PONG)
    for number in range(asked):
        asking(talk, kind, number).wait(5 * MILLISECOND)
        if number not in lost:
            talk.server(answer(kind, number))
        elif size and not before and number == lost[-1]:
            talk.lose("server", size)
        talk.wait(50 * MILLISECOND)
    return talk.server(PING).client(PONG).wait(8 * SECOND).client(PING).server(PONG)


@pytest.mark.parametrize(("kind", "lost", "asked"), [*product(("SEND", "LOOKUP"), (range(3, 4), range(2), range(5, 9)), (12, 30))])
def test_answers_that_fit_into_what_the_capture_lacks_are_not_missed(kind: str, lost: range, asked: int, tmp_path: Path) -> None:
    size = sum(len(answer(kind, number)) for number in lost)
    assert not UNANSWERED & set(problem_codes(findings_of(tmp_path, talked(kind, asked, lost, size).close())))


@pytest.mark.parametrize(("kind", "size", "before"), [*product(("SEND", "LOOKUP"), (0, 30, 60), (False, True))])
def test_more_than_fit_or_what_was_asked_later_is(kind: str, size: int, before: bool, tmp_path: Path) -> None:
    lost = range(2, 20)
    rows = findings_of(tmp_path, talked(kind, 30, lost, size, before=before).close())
    assert UNANSWERED & set(problem_codes(rows))
    if kind == "SEND":
        assert only(rows, "send-unanswered")[1]["count"] == len(lost) - (0 if before else -(-size // 14))


@pytest.mark.parametrize(("kind", "count", "closed"), [*product(("SEND", "LOOKUP"), (1, 5, 40), (False, True))])
def test_a_direction_that_begins_later_is_no_lack_of_answers(kind: str, count: int, closed: bool, tmp_path: Path) -> None:
    talk = Conversation(acknowledge=False)
    for number in range(count):
        asking(talk, kind, number).wait(10 * MILLISECOND)
    for number in range(count, count + 5):
        asking(talk, kind, number).wait(10 * MILLISECOND).server(answer(kind, number))
    talk.wait(8 * SECOND).client(PING).server(PONG)
    assert not UNANSWERED & set(problem_codes(findings_of(tmp_path, talk.close() if closed else talk)))


@pytest.mark.parametrize(("pause", "count", "producers"), [*product((1, 5, 20), (3, 8), (1, 2))])
def test_answers_that_come_before_a_held_up_producer_are_its_own(pause: int, count: int, producers: int, tmp_path: Path) -> None:
    talk = Conversation().handshake().lose("client", 40).server(command_frame("CONNECTED", server_version="x", protocol_version=20))
    for number in range(1, producers + 1):
        talk.wait(pause * MILLISECOND).client(producer(number, f"p{number}", number)).wait(MILLISECOND)
        talk.server(created(f"p{number}", number))
    for sequence, number in product(range(count), range(1, producers + 1)):
        talk.client(send(number, sequence)).wait(pause * MILLISECOND).server(receipt(number, sequence, entry=sequence))
    rows = findings_of(tmp_path, talk.wait(8 * SECOND).client(PING).server(PONG).close())
    assert not UNANSWERED & set(problem_codes(rows))


@pytest.mark.parametrize(("lost", "size", "end"), [*product(("ACK", "FLOW", "SUBSCRIBE"), (40, 90), ("open", "fin"))])
def test_a_consumer_whose_own_frames_the_capture_may_lack_is_not_accused(lost: str, size: int, end: str, tmp_path: Path) -> None:
    """It gets more than its visible permits, or acknowledges everything at its end."""
    talk = subscribed(connected()).client(flow(20)).server(*[delivery(entry) for entry in range(20)]).wait(200 * MILLISECOND)
    if lost == "SUBSCRIBE":
        talk = Conversation(("10.0.0.1", 40000), ("10.0.0.2", 6650)).handshake().server(delivery(0))
    talk.lose("client", size).server(*[delivery(entry) for entry in range(20, 30)] if lost == "FLOW" else [PONG])
    wait_until(talk, 6 * SECOND).server(PING).client(PONG)
    codes = problem_codes(
        findings_of(tmp_path, talk if end == "open" else talk.close(), publishing(70, 50 * MILLISECOND, until=6 * SECOND))
    )
    assert not {"consumer-not-acking", "consumer-starved"} & set(codes)


@pytest.mark.parametrize(("size", "got", "leaves"), [*product((40, 90), (3, 20), ("CLOSE_CONSUMER", "UNSUBSCRIBE"))])
def test_messages_that_come_before_a_held_up_subscribe_are_its_own(size: int, got: int, leaves: str, tmp_path: Path) -> None:
    """A consumer that leaves has got them, although the capture shows it only after them."""
    talk = connected().lose("client", size).client(subscribe(durable=False)).server(success(2)).client(flow(20))
    talk.server(*[delivery(entry) for entry in range(got)]).wait(8 * SECOND)
    talk.client(command_frame(leaves, consumer_id=1, request_id=900)).server(success(900))
    rows = findings_of(tmp_path, talk.close(), publishing(70, 50 * MILLISECOND, until=9 * SECOND))
    assert with_code(rows, "broker-silent") == []


@pytest.mark.parametrize(("length", "got", "before"), [*product((4, 8), (10, 60), (False, True))])
def test_one_that_acknowledges_nothing_behind_a_hole_is_named(length: int, got: int, before: bool, tmp_path: Path) -> None:
    """A hole before its messages, or in what the broker sent, hides no ACK."""
    talk = connected()
    if before:
        talk.lose("client", 60)
    talk = subscribed(talk).client(flow(1000)).server(*[delivery(entry) for entry in range(got)])
    if not before:
        talk.lose("server", 300)
    wait_until(talk, length * SECOND).server(delivery(got))
    codes = problem_codes(findings_of(tmp_path, talk, publishing(got, MILLISECOND, until=length * SECOND)))
    assert "consumer-not-acking" in codes


@pytest.mark.parametrize(("early", "late"), [*product((1, 3, 10), (1, 4))])
def test_each_hole_excuses_what_was_asked_before_it(early: int, late: int, tmp_path: Path) -> None:
    """Holes for earlier answers leave no room for later ones, which have their own holes."""
    talk = connected().client(producer()).server(created())
    number = 0
    for _ in range(early + late):
        talk.client(send(1, number)).wait(5 * MILLISECOND).lose("server", 33).wait(50 * MILLISECOND)
        talk.client(send(1, number + 1)).wait(5 * MILLISECOND).server(receipt(1, number + 1, entry=number + 1)).wait(50 * MILLISECOND)
        number += 2
    talk.wait(3 * SECOND).client(PING).server(PONG)
    assert not UNANSWERED & set(problem_codes(findings_of(tmp_path, talk)))


def behind_a_loss(acks: list[bytes], *, before: bool = False, close: bool = False, kind: str = "Shared") -> Conversation:
    """A consumer whose ACKs and close are read before its ten messages, which follow lost bytes.

    `before`: the ACKs came long before the messages.
    """
    talk = subscribed(connected(), kind=kind).client(flow(1000)).wait(10 * MILLISECOND)
    talk.server(delivery(0)).client(ack(0)).wait(MILLISECOND)
    if before:
        talk.client(*acks).wait(100 * MILLISECOND)
    talk.lose("server", 34).server(*[delivery(entry) for entry in range(1, 11)]).wait(20 * MILLISECOND)
    if not before:
        talk.client(*acks)
    for _ in range(0 if close else 2):
        talk.wait(10 * SECOND).client(PING).server(PONG)
    talk.wait(10 * SECOND)
    return talk.client(close_consumer()).close()


@pytest.mark.parametrize("acks", [[ack(*range(1, 11))], [ack(entry) for entry in range(10, 0, -1)], [ack(10, kind="Cumulative")]])
@pytest.mark.parametrize("close", [False, True])
def test_acks_of_messages_behind_a_loss_count(acks: list[bytes], close: bool, tmp_path: Path) -> None:
    assert problem_codes(findings_of(tmp_path, behind_a_loss(acks, close=close, kind="Exclusive"))) == ["stream-gap"]


@pytest.mark.parametrize(("acks", "before"), [([], False), ([ack(*range(1, 4))], False), ([ack(*range(1, 11))], True)])
def test_messages_behind_a_loss_without_acks_after_them_are_not_acknowledged(acks: list[bytes], before: bool, tmp_path: Path) -> None:
    assert "consumer-not-acking" in problem_codes(findings_of(tmp_path, behind_a_loss(acks, before=before)))


def test_a_client_seen_from_one_side_until_its_reset_lacks_no_answers(tmp_path: Path) -> None:
    talk = Conversation(acknowledge=False)
    for number in range(50):
        asking(talk, "SEND", number).wait(100 * MILLISECOND)
    codes = {row.code for row in findings_of(tmp_path, talk.reset("client"))}
    assert "one-sided-capture" in codes
    assert not UNANSWERED & codes


@pytest.mark.parametrize(("length", "got", "unloaded"), [*product((61, 130), (10, 200), (False, True))])
def test_the_broker_side_alone_shows_no_consumer_that_acknowledges_nothing(length: int, got: int, unloaded: bool, tmp_path: Path) -> None:
    talk = Conversation(acknowledge=False)
    for entry in range(got):
        talk.server(delivery(entry)).wait(length * SECOND // got)
    if unloaded:
        talk.server(close_consumer(request=BY_BROKER))
    codes = {row.code for row in findings_of(tmp_path, talk.server(PING))}
    assert "one-sided-capture" in codes
    assert "consumer-not-acking" not in codes


@pytest.mark.parametrize("alone", [False, True], ids=["both sides", "broker alone"])
def test_the_broker_side_alone_shows_no_consumer_without_permits(alone: bool, tmp_path: Path) -> None:
    """Its client may have granted permits, acknowledged, and closed: the capture has nothing of it."""
    talk, other = Conversation(acknowledge=not alone), Conversation(("10.0.0.1", 40001), acknowledge=not alone)
    for entry in range(200):
        other.server(receipt(1, entry, entry=entry)).wait(50 * MILLISECOND)
        if entry < 100:
            talk.server(delivery(entry)).wait(50 * MILLISECOND)
    codes = {row.code for row in findings_of(tmp_path, talk, other)}
    assert ("one-sided-capture" in codes) == alone
    assert ("consumer-starved" in codes) != alone


@pytest.mark.parametrize("before", [False, True])
def test_keys_whose_acks_are_read_before_their_messages_may_move(before: bool, tmp_path: Path) -> None:
    """The messages follow lost bytes; with `before`, the ACKs are of an earlier delivery."""
    meta: dict[str, Any] = {"keySharedMeta": {"keySharedMode": "AUTO_SPLIT"}}
    talk = subscribed(connected(), kind="Key_Shared", **meta).client(flow(100)).wait(10 * MILLISECOND)
    if before:
        talk.client(ack(1, 2)).wait(200 * MILLISECOND)
    talk.lose("server", 34).server(*[delivery(entry, partition_key="k") for entry in (1, 2)]).wait(20 * MILLISECOND)
    if not before:
        talk.client(ack(1, 2))
    talk.wait(10 * SECOND).client(PING).server(PONG)
    other = subscribed(connected(40001, start=4 * SECOND), 2, kind="Key_Shared", **meta).client(flow(100, 2))
    other.server(delivery(3, 2, partition_key="k")).client(ack(3, number=2)).close()
    codes = problem_codes(findings_of(tmp_path, talk.close(), other))
    assert ("key-on-two-consumers" in codes) == before


@pytest.mark.parametrize(("kind", "end", "ping"), [*product(("SEND", "LOOKUP"), ("open", "client", "rst"), (False, True))])
def test_a_last_answer_that_only_its_acknowledgment_proves_is_not_missed(kind: str, end: str, ping: bool, tmp_path: Path) -> None:
    """The capture lacks it, and no later segment of the broker shows that."""
    talk = asking(connected().client(producer()).server(created()), kind, 0).lose("server", len(answer(kind, 0)))
    talk = talk.wait(4 * SECOND).client(*[PING] * ping).wait(4 * SECOND).client(PING)
    if end == "client":
        talk._add(0, flags=FIN | ACK)
    rows = findings_of(tmp_path, talk.reset("client") if end == "rst" else talk)
    assert not UNANSWERED & set(problem_codes(rows))
    (gap,) = with_code(rows, "stream-gap")
    assert (gap.evidence or {})["size"] == len(answer(kind, 0))


@pytest.mark.parametrize(("kind", "more"), [*product(("SEND", "LOOKUP"), (0, 1))])
def test_a_fin_that_was_not_captured_hides_no_answer(kind: str, more: int, tmp_path: Path) -> None:
    talk = asking(connected().client(producer()).server(created()), kind, 0).wait(8 * SECOND).lose("server", more).client(PING, PONG)
    rows = findings_of(tmp_path, talk)
    assert UNANSWERED & set(problem_codes(rows))
    assert with_code(rows, "stream-gap") == []


LOOKUPS = {"LOOKUP": {"topic": "persistent://public/default/t"}, "PARTITIONED_METADATA": {"topic": "persistent://public/default/t"}}


@pytest.mark.parametrize(
    ("asks", "before", "how", "pause", "end"),
    [*product(LOOKUPS, (0, 3), ("lost", "cut", "late", "whole"), (1, 900), ("open", "fin", "rst"))],
)
def test_a_refusal_is_not_of_a_lookup_with_the_same_id_whose_answer_is_missing(
    tmp_path: Path, asks: str, before: int, how: str, pause: int, end: str
) -> None:
    """The C++ client numbers lookups separately. The answer is lost, cut off by the snapshot length, or late."""
    talk = connected()
    for number in range(before + 1):
        response = command_frame(f"{asks}_RESPONSE", request_id=number, response="Success" if asks != "LOOKUP" else "Connect")
        talk.client(command_frame(asks, request_id=number, **LOOKUPS[asks])).wait(pause * MILLISECOND)
        if how == "lost" and number == before:
            talk.lose("server", len(response))
        elif how == "cut" and number == before:
            talk.server(response[:10]).lose("server", len(response) - 10)
        elif how == "whole" or number < before:
            talk.server(response)
    talk.client(producer(1, "p", before)).wait(pause * MILLISECOND).server(error(before, "ProducerBusy", "taken"))
    if how == "late":
        talk.server(response)
    if end != "open":
        talk.reset("client") if end == "rst" else talk.close()
    rows = findings_of(tmp_path, talk)
    _, evidence = only(rows, "producer-busy")
    assert evidence["count"] == 1
    assert [row.code for row in rows if row.code in ("lookup-failed", "lookup-refused", "request-failed")] == []
