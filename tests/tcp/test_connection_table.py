"""Captures that lack one direction of their connections; ended connections, packed while they have no packets."""

from __future__ import annotations

from pathlib import Path

import pytest

import pulsarscope as ps
from pulsarscope.model.findings import ONE_SIDED
from pulsarscope.tcp import Assembler
from pulsarscope.tcp.connection import ClosedConnection, Connection
from tests.places import CAPTURES
from tests.protocols.kafka07.cases import look, talk
from tests.scenarios.capturefile import Packet, pcap
from tests.scenarios.kafka07 import fetch, fetch_response, message_set, produce
from tests.scenarios.recapture import packets_of
from tests.tcp.tape import ACK, CLIENT, FIN, SECOND, SERVER, Tape, flow_key

BROKERS = (6650, 9092)
ABSENCES = {"request-unanswered", "response-unrequested", "send-unanswered", "keepalive-lost", "consumer-starved", "permits-negative"}


def is_to_broker(packet: Packet) -> bool:
    """Return True for a packet of Ethernet and IPv4 without options to a broker."""
    return int.from_bytes(packet.data[36:38], "big") in BROKERS


@pytest.mark.parametrize("name", ["seek-reader.pcap", "shared-nack-dlq.pcap", "unload-terminate.pcap", "errors.pcap", "kafka07.pcap"])
@pytest.mark.parametrize("client", [True, False])
@pytest.mark.parametrize("skipped", [0, 8])
def test_one_direction_alone_is_said_and_nothing_is_missed_of_the_other(name: str, client: bool, skipped: int, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(pcap([packet for packet in packets_of(CAPTURES / name) if is_to_broker(packet) == client][skipped:]))
    connections = {row.connection for row in ps.open(str(path)).connections() if row.dissector is not None}
    findings = list(ps.open(str(path)).findings())
    assert {row.connection for row in findings if row.code == ONE_SIDED} == connections
    assert not {row.code for row in findings if row.connection in connections} & {*ABSENCES, "stream-gap"}


@pytest.mark.parametrize("opened", [True, False])
def test_a_side_that_only_acknowledges_is_in_the_capture(opened: bool) -> None:
    conversation = talk(opened=opened)
    for number in range(5):
        conversation.client(produce("t", 0, message_set(b"%d" % number)))
    assert ONE_SIDED not in look(conversation.close()).codes


def test_a_server_that_does_not_answer_is_reported_as_before() -> None:
    conversation = talk().client(fetch("t", 0, 0)).server(fetch_response()).client(fetch("t", 0, 0)).wait(60_000_000_000)
    codes = look(conversation.client(fetch("t", 0, 7)).close()).codes
    assert "request-unanswered" in codes
    assert ONE_SIDED not in codes


def closed(*, again: bytes = b"", options: bytes = b"") -> Tape:
    """A connection from SYN to both FINs, possibly with repeated bytes."""
    tape = Tape()
    tape.open()
    tape.send(CLIENT, 0, b"ask", options=options)
    if again:
        tape.send(CLIENT, 0, again)
    tape.send(SERVER, 0, b"answer", FIN | ACK, ack=1_003)
    tape.send(CLIENT, 3, flags=FIN | ACK, ack=5_007)
    return tape


def kept(tape: Tape) -> Connection | ClosedConnection:
    """What is kept of the only connection."""
    assembler = Assembler()
    for block in tape.blocks():
        assembler.feed(block)
    (only,) = set(assembler._table.values())
    return only


@pytest.mark.parametrize("again", [b"", b"ask"])
def test_it_is_packed_and_nothing_of_it_is_lost(again: bytes) -> None:
    tape = closed(again=again)
    packed = kept(tape)
    assert isinstance(packed, ClosedConnection)
    assert len(packed.state) < 300
    connection = packed.connection()
    assert (connection.key, connection.end, connection.packets) == (flow_key(CLIENT), tape.time, len(tape.packets))
    assert [stream.key for stream in connection.streams] == [flow_key(CLIENT), flow_key(SERVER)]
    assert connection.streams[CLIENT].retransmitted == bool(again)
    assert (packed.counts(), packed.last_at) == (connection.counts(), connection.last_at)
    assert packed.counts().retransmitted == bool(again)


@pytest.mark.parametrize("how", ["different bytes of a gap", "time beyond 64 bits", "without data"])
def test_it_stays_whole_where_there_is_more_than_numbers(how: str) -> None:
    tape = Tape()
    if how == "time beyond 64 bits":
        tape.time = 1 << 64
    tape.open()
    if how != "without data":
        tape.send(CLIENT, 10 * how.startswith("different"), b"ask")
    tape.send(SERVER, 0, b"", FIN | ACK)
    tape.send(CLIENT, 13 if how.startswith("different") else 3 * (how != "without data"), flags=FIN | ACK)
    assert isinstance(kept(tape), Connection)


def test_late_packets_are_counted_in_blocks_of_their_own() -> None:
    tape = closed()
    tape.send(CLIENT, 0, b"ask")
    tape.send(CLIENT, 3, b"more")
    (outcome,) = tape.run_apart()
    assert outcome.connection.packets == len(tape.packets)
    assert [stream.retransmitted for stream in outcome.connection.streams] == [1, 0]
    assert outcome.codes() == ["data-after-close"]


@pytest.mark.parametrize("late", [False, True])
def test_it_is_finished_a_minute_after_its_last_packet(late: bool) -> None:
    tape = closed()
    if late:
        tape.send(SERVER, 0, b"answer", after=30 * SECOND)
    last = len(tape.packets)
    tape.open(1)
    tape.send(CLIENT, 0, connection=1, after=(100 if late else 110) * SECOND)
    tape.send(CLIENT, 0, connection=1, after=30 * SECOND)
    assembler = Assembler()
    finished = [event.name for block in tape.blocks([last, last + 4]) for event in assembler.feed(block) if event.finished]
    assert finished == ["0:1"]
    assert {event.name for event in assembler.finish() if event.finished} == {f"0:{last + 1}"}


def test_the_last_events_are_those_of_a_list_however_they_are_asked_for() -> None:
    assembler, again = Assembler(), Assembler()
    tape = closed()
    tape.open(1)
    for each in (assembler, again):
        for block in tape.blocks():
            each.feed(block)
    events, expected = assembler.finished(), again.finish()
    assert [(event.name, event.finished) for event in events] == [(event.name, event.finished) for event in expected]
    assert [event.name for event in events[:]] == [events[index].name for index in range(len(events))] == ["0:1", "0:7"]
    assert [event.connection.packets for event in events] == [event.connection.packets for event in expected] == [len(tape.packets) - 3, 3]


def test_connections_that_come_back_wait_in_the_order_in_which_all_were_closed() -> None:
    tape = Tape()
    for number in range(3):
        tape.open(number)
        tape.send(CLIENT, 0, b"ask", connection=number)
    for number in range(3):
        tape.send(CLIENT, 3, flags=FIN | ACK, connection=number)
        tape.send(SERVER, 0, flags=FIN | ACK, connection=number)
    other, assembler = Assembler(), Assembler()
    for block in tape.blocks():
        other.feed(block)
    first, second, last = other.take_closed(1, 0)
    assembler.put_back([last])
    assembler.put_back([first])
    for block in tape.blocks():
        block.flows = {key: flow for key, flow in block.flows.items() if key in second.keys}
        assembler.feed(block)
    assert [each.closed_at for each in assembler.take_closed(1, 0)] == [first.closed_at, second.closed_at, last.closed_at]
