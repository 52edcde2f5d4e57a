"""Captures that lack one direction of their connections."""

from __future__ import annotations

from pathlib import Path

import pytest

import pulsarscope as ps
from pulsarscope.model.findings import ONE_SIDED
from tests.places import CAPTURES
from tests.protocols.kafka07.cases import look, talk
from tests.scenarios.capturefile import Packet, pcap
from tests.scenarios.kafka07 import fetch, fetch_response, message_set, produce
from tests.scenarios.recapture import packets_of

BROKERS = (6650, 9092)
ABSENCES = {"request-unanswered", "response-unrequested", "send-unanswered", "keepalive-lost", "consumer-starved", "permits-negative"}


def is_to_broker(packet: Packet) -> bool:
    """True for a packet of Ethernet and IPv4 without options to a broker."""
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


def test_a_server_that_does_not_answer_is_told_as_before() -> None:
    conversation = talk().client(fetch("t", 0, 0)).server(fetch_response()).client(fetch("t", 0, 0)).wait(60_000_000_000)
    codes = look(conversation.client(fetch("t", 0, 7)).close()).codes
    assert "request-unanswered" in codes
    assert ONE_SIDED not in codes
