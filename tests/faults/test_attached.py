"""Captures that begin within connections: their topics, and who is stuck, without any command that names them."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

import pulsarscope as ps
from pulsarscope.protocols.pulsar.topics import named_topic
from tests.scenarios.capturefile import write_pcap
from tests.scenarios.commands import (
    BY_BROKER,
    PING,
    PONG,
    ack,
    close_consumer,
    close_producer,
    created,
    delivery,
    flow,
    producer,
    receipt,
    send,
    subscribe,
    success,
)  # fmt: skip
from tests.scenarios.connections import connected, subscribed
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.evaluation import diagnose

NOT_ACKING = "consumer-not-acking"
UNREQUESTED = "response-unrequested"


def serving(seconds: int, *, stuck: int = 3, acks: int = 0, beside: bool = True, every: int = 100, start: int = 0) -> Conversation:
    """Two consumers on one connection: the second acknowledges what it gets; from `start` s on, so does the first."""
    talk = Conversation()
    for number in range(seconds * 1000 // every):
        talk.wait(every * MILLISECOND).server(delivery(number, stuck), delivery(number, 5))
        if beside:
            talk.client(ack(number, number=5))
        if number < acks or (start and number * every >= start * 1000):
            talk.client(ack(number, number=stuck))
    return talk


@pytest.mark.parametrize(("seconds", "every", "stuck"), [*product((22, 30, 45), (50, 400, 2000), (3, 9))])
def test_who_acknowledges_nothing_is_named_while_its_neighbour_does(tmp_path: Path, seconds: int, every: int, stuck: int) -> None:
    """Reported before any PING, and before the connection ends: it is a finding of the ACKs."""
    talk = serving(seconds, every=every, stuck=stuck)
    diagnosis = diagnose(tmp_path, talk)
    row, evidence = diagnosis.only(NOT_ACKING)
    assert evidence["threshold"] == {"consumer-not-acking-beside-seconds": 20, "consumer-not-acking-messages": 5}
    assert f"Consumer {stuck} of connection 0:1 on topic of ledger 7 has " in (row.text or "")
    assert "while consumer 5 of its connection acknowledges" in (row.text or "")
    assert diagnosis.commands(row) == ["MESSAGE"]


@pytest.mark.parametrize(("acks", "every", "beside"), [*product((10, 40), (50, 100, 200), (False, True))])
def test_who_stopped_within_the_capture_is_named(tmp_path: Path, acks: int, every: int, beside: bool) -> None:
    diagnosis = diagnose(tmp_path, serving(25, acks=acks, every=every, beside=beside))
    row, evidence = next((row, row.evidence or {}) for row in diagnosis.of(NOT_ACKING) if (row.evidence or {})["consumer_id"] == 3)
    assert "latest ACK was" in (row.text or "")
    assert evidence["unacknowledged"] == 25_000 // every - acks


@pytest.mark.parametrize(
    ("acks", "start", "every"), [*product((1, 40), (10,), (100, 500)), *product((0, 1), (5, 15), (100, 500)), (1, 0, 100)]
)
def test_who_acknowledges_now_and_then_is_not(tmp_path: Path, acks: int, start: int, every: int) -> None:
    assert NOT_ACKING not in diagnose(tmp_path, serving(25, acks=acks, start=start, every=every)).codes


@pytest.mark.parametrize(("kind", "asking"), [*product(("both", "whole", "cut"), ("client", "server"))])
def test_a_pong_belongs_to_the_ping_before_it_on_an_idle_connection(tmp_path: Path, kind: str, asking: str) -> None:
    """Neither direction is proven by one frame in half a minute."""
    talk = Conversation()
    for number in range(4):
        for side in (asking, "server" if asking == "client" else "client") if kind == "both" else (asking,):
            ask, answer = (talk.client, talk.server) if side == "client" else (talk.server, talk.client)
            ask(PING)
            talk.wait(700_000)
            answer(PONG)
            talk.wait((30 + number) * SECOND)
    if kind == "cut":
        del talk.packets[:2]
    capture = ps.open(write_pcap(tmp_path / "idle.pcap", talk.packets))
    answered = [row.latency_ns for row in capture.exchanges() if row.request is not None]
    assert answered == [900_000] * (8 if kind == "both" else 4 if kind == "whole" else 3)
    assert [row.packet for row in capture.frames()] == sorted(row.packet or 0 for row in capture.frames())
    assert not {UNREQUESTED, "capture-order"} & {row.code for row in capture.findings()}


def test_what_was_asked_before_the_capture_is_no_finding_but_what_was_asked_in_it_is(tmp_path: Path) -> None:
    late = Conversation().server(receipt(), PONG).client(PING).wait(40 * SECOND).server(PONG, created(request=9)).client(PING)
    assert UNREQUESTED not in diagnose(tmp_path, Conversation().server(receipt(), created(request=9)).client(PING, PING)).codes
    assert UNREQUESTED in diagnose(tmp_path, late).codes


def test_a_ledger_joins_producer_and_consumer_until_a_reconnect_names_the_topic(tmp_path: Path) -> None:
    publishing = Conversation(("10.0.0.1", 40001))
    consuming = Conversation(("10.0.0.1", 40002), start_ns=publishing.time_ns + 50_000)
    for number in range(40):
        publishing.client(send(1, number)).server(receipt(1, number, entry=number)).wait(MILLISECOND)
        consuming.server(delivery(number)).wait(MILLISECOND).client(ack(number))
    back = Conversation(("10.0.0.1", 40003), start_ns=publishing.time_ns + SECOND)
    back.handshake().client(producer()).server(created()).client(send()).server(receipt())
    packets = sorted([*publishing.packets, *consuming.packets, *back.packets], key=lambda packet: packet.time_ns)
    rows = list(ps.open(write_pcap(tmp_path / "attached.pcap", packets)).messages())
    assert [row.topic for row in rows if named_topic(row.topic)] == ["persistent://public/default/t"]
    assert {row.topic for row in rows if not named_topic(row.topic)} == {"topic of ledger 7"}
    assert len(rows) == 81


def unloaded(kinds: str, *, back: bool, other: bool) -> Conversation:
    """The broker closes a consumer or producer from before the capture; it returns on this connection, with `other` under another id."""
    talk = Conversation().client(send(1, 4)).server(receipt(1, 4, entry=4), delivery(4)).wait(100 * MILLISECOND)
    if "p" in kinds:
        talk.server(close_producer(1, 0))
    if "c" in kinds:
        talk.server(close_consumer(1, 0))
    talk.wait(200 * MILLISECOND)
    number = 2 if other else 1
    if back and "p" in kinds:
        talk.client(producer(number, "p", 31)).server(created(request=31))
    if back and "c" in kinds:
        talk.client(subscribe(number, "c", 32)).server(success(32))
    return talk.wait(SECOND).client(PING).server(PONG)


@pytest.mark.parametrize("kinds", ["p", "pc"])
def test_what_a_broker_closes_before_its_name_is_known_is_reported_when_it_comes_back(tmp_path: Path, kinds: str) -> None:
    diagnosis = diagnose(tmp_path, unloaded(kinds, back=True, other=False))
    row, evidence = diagnosis.only("topic-unloaded")
    assert diagnosis.commands(row)[: len(kinds)] == ["CLOSE_PRODUCER", "CLOSE_CONSUMER"][: len(kinds)]
    assert named_topic(evidence["topic"]) is not None
    assert "came back" in (row.text or "")


@pytest.mark.parametrize(
    ("kinds", "back", "other"), [("", False, False), ("c", True, False), *product(("p", "pc"), (True,), (True,)), ("pc", False, False)]
)
def test_what_may_be_another_thing_or_comes_back_elsewhere_is_not_called_an_unload(
    tmp_path: Path, kinds: str, back: bool, other: bool
) -> None:
    """The broker also closes consumers to reset their cursor; clients that return with another id use the topic's own name."""
    codes = diagnose(tmp_path, unloaded(kinds, back=back, other=other)).codes
    assert not {"topic-unloaded", "cursor-reset"} & set(codes)


@pytest.mark.parametrize(("got", "acked", "hole"), [*product((6, 20), (0, 6), ("server", "both", ""))])
def test_acks_that_are_read_before_their_messages_count(tmp_path: Path, got: int, acked: int, hole: str) -> None:
    """The SUBSCRIBE and the beginning of the broker's stream are missing: its messages are read once that is known."""
    talk = Conversation().handshake()
    for side in {"both": ("client", "server"), "": ()}.get(hole, (hole,)):
        talk.lose(side, 90)
    talk.client(flow(1000))
    for entry in range(got):
        talk.server(delivery(entry)).wait(MILLISECOND)
    if acked:
        talk.client(*[ack(entry) for entry in range(got)])
    talk.wait(30 * MILLISECOND)
    for _ in range(4):
        talk.wait(2 * SECOND).server(PING).client(PONG)
    assert (NOT_ACKING in diagnose(tmp_path, talk).codes) == (not acked)


@pytest.mark.parametrize(("by", "late", "count"), [*product(("client", "broker"), (5, 150), (1, 60))])
def test_messages_on_their_way_to_a_closed_consumer_make_none(tmp_path: Path, by: str, late: int, count: int) -> None:
    """No consumer acknowledges them, and the broker sends them to another one again."""
    talk = subscribed(connected()).client(flow(1000)).server(delivery(0)).client(ack(0)).wait(SECOND)
    talk.client(close_consumer()) if by == "client" else talk.server(close_consumer(1, BY_BROKER))
    talk.wait(late * MILLISECOND).server(*[delivery(entry) for entry in range(1, 1 + count)])
    for _ in range(5):
        talk.wait(2 * SECOND).client(PING).server(PONG)
    assert NOT_ACKING not in diagnose(tmp_path, talk).codes
