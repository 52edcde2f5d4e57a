"""Connections that the compiled reader reads as a whole, and those that it must not, against the Python reader."""

from __future__ import annotations

import os
import subprocess
import sys
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

import pulsarscope as ps
from pulsarscope.dissect.whole_connection import read_connection
from pulsarscope.engine import timelines
from pulsarscope.model.limits import READ_BLOCK_BYTES
from pulsarscope.model.platform import NATIVE
from pulsarscope.protocols.pulsar.frame.compiled import COMMANDS
from pulsarscope.tcp.pieces import Data, Gap
from tests.scenarios.both_readers import BothReaders, reader
from tests.scenarios.capture_mutations import corpus_options
from tests.scenarios.capturefile import pcap, write_pcap
from tests.scenarios.chance import randoms
from tests.scenarios.commands import (
    CONNECT,
    CONNECTED,
    TOPIC,
    ack,
    close_consumer,
    close_producer,
    copied,
    copied_receipt,
    created,
    delivery,
    error,
    flow,
    lookup,
    lookup_response,
    producer,
    receipt,
    send,
    subscribe,
    success,
)
from tests.scenarios.connections import connected
from tests.scenarios.conversation import Conversation
from tests.scenarios.frames import command_frame
from tests.scenarios.wire_mutations import damaged

IN_COLUMNS = 3
"""The options of `BothReaders` with which connections are read as a whole."""

TOKEN = b".".join(urlsafe_b64encode(part).rstrip(b"=") for part in (b'{"alg":"HS256"}', b'{"sub":"a","exp":1800000000}', b"signature"))

Taken = list[bool]


@pytest.fixture(autouse=True)
def installed() -> None:
    pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Taken:
    """Whether each connection that could be read as a whole was."""
    found: Taken = []

    def read(*arguments: Any) -> Any:
        frames = read_connection(*arguments)
        found.append(frames is not None)
        return frames

    monkeypatch.setattr(timelines, "read_connection", read)
    return found


def whole(port: int = 40000, count: int = 3) -> Conversation:
    """A connection of a client that looks a topic up, publishes and consumes."""
    told = connected(port).client(lookup(1)).server(lookup_response("Connect", "pulsar://broker:6650/" + "x" * 120, 1))
    told.client(command_frame("PRODUCER", topic=TOPIC, producer_id=1, request_id=2)).server(created("named-by-broker", 2))
    for number in range(count):
        told.client(send(1, number), send(1, number + count)).server(receipt(1, number))
        told.server(receipt(1, number + count, entry=1))
    told.client(subscribe(4, "c", 3), flow(9, 4)).server(success(3), delivery(0, 4), delivery(1, 4, batch=3)).client(ack(0, 1, number=4))
    told.client(close_consumer(4, 5)).server(success(5)).client(close_producer(1, 6)).server(success(6))
    return told


def positioned() -> Conversation:
    """A connection of a client that asks for partitions, seeks in a subscription and gives it up."""
    place = {"ledgerId": 7, "entryId": 3}
    talk = connected().client(command_frame("PARTITIONED_METADATA", topic=TOPIC, request_id=1))
    talk.server(command_frame("PARTITIONED_METADATA_RESPONSE", request_id=1, partitions=3, response="Success"))
    talk.client(subscribe(4, "c", 2)).server(success(2)).client(command_frame("SEEK", consumer_id=4, request_id=3, message_id=place))
    talk.server(success(3)).client(command_frame("GET_LAST_MESSAGE_ID", consumer_id=4, request_id=4))
    talk.server(command_frame("GET_LAST_MESSAGE_ID_RESPONSE", request_id=4, last_message_id=place))
    return talk.client(command_frame("UNSUBSCRIBE", consumer_id=4, request_id=5)).server(success(5)).close()


def opened_by(**fields: Any) -> Conversation:
    """A connection whose CONNECT has some more fields."""
    connect = command_frame("CONNECT", client_version="x", protocol_version=21, **fields)
    return Conversation().handshake().client(connect).server(CONNECTED).client(lookup(1)).close()


def copying() -> Conversation:
    """A connection of a replicator whose name is not the usual one: the first receipt names a place in the other cluster, or a SEND."""
    talk = connected().client(producer(1, "repl.west", 2)).server(created("repl.west", 2)).client(send(1, 7))
    return talk.client(copied(0, 9, ledger=7)).server(receipt(1, 7), receipt(1, 9)).close()


PLAIN: dict[str, Callable[[], Conversation]] = {
    "all that is plain": lambda: whole().close(),
    "closed by the server": lambda: whole().close("server"),
    "in small segments": lambda: (
        whole().client(lookup(7), mss=5).server(lookup_response("Failed", "", 7, error="MetadataError"), mss=7).close()
    ),
    "unanswered requests and SENDs": lambda: whole().client(lookup(7), send(1, 90)).close(),
    "a name of the client": lambda: connected().client(producer(1, "mine", 2)).server(created("mine", 2)).client(send(1, 1)).close(),
    "an announced size": lambda: _announced(5 << 20),
    "requests of a consumer": positioned,
    "a credential": lambda: opened_by(auth_method_name="token", auth_data=b"secret"),
    "an empty credential": lambda: opened_by(auth_method_name="token", auth_data=b"", original_auth_data=""),
    "a credential of another": lambda: opened_by(original_auth_data="secret", original_auth_method="token"),
    "a token": lambda: opened_by(auth_method_name="token", auth_data=TOKEN, original_auth_data=TOKEN.decode()),
    "no text": lambda: opened_by(auth_method_name="token", auth_data=bytes(range(256))),
    "a method of authentication": lambda: opened_by(auth_method_name="none", feature_flags={"supports_auth_refresh": True}),
}

OTHER: dict[str, Callable[[], Conversation]] = {
    "a response without a request": lambda: whole().server(success(77)).close(),
    "a response before its request": lambda: whole().server(success(8)).client(close_consumer(4, 8)).close(),
    "a refused request": lambda: whole().client(lookup(7)).server(error(7, "ServiceNotReady")).close(),
    "a request id twice": lambda: whole().client(lookup(7), lookup(7)).server(lookup_response("Redirect", "", 7)).close(),
    "a producer id twice": lambda: whole().client(producer(1, "again", 8, topic="other")).server(created("again", 8)).close(),
    "a broker that closes": lambda: whole().server(close_producer(1), close_consumer(4)).close(),
    "a receipt of another SEND": lambda: whole().client(send(1, 70), send(1, 71)).server(receipt(1, 71)).close(),
    "an unknown producer": lambda: whole().client(send(9, 1)).server(receipt(9, 1)).close(),
    "an unknown consumer": lambda: whole().server(delivery(3, 9)).client(ack(3, number=9)).close(),
    "an ack_set": lambda: whole().client(ack(1, number=4, ack_set=[5])).close(),
    "an ACK with a request id": lambda: whole().client(ack(1, number=4, request_id=11)).close(),
    "keep-alives": lambda: whole().client(command_frame("PING")).server(command_frame("PONG")).close(),
    "a producer that waits": lambda: (
        whole().client(producer(2, "w", 8)).server(created("w", 8, producer_ready=False), created("w", 8)).close()
    ),
    "a replicator": lambda: (
        connected()
        .client(producer(1, "pulsar.repl.west", 2))
        .server(created("pulsar.repl.west", 2))
        .client(copied(5, 0))
        .server(copied_receipt(5, 0))
        .close()
    ),
    "a replicator of another name": copying,
    "a credential in a URL": lambda: opened_by(proxy_to_broker_url="user:secret@broker:6650"),
    "a credential in metadata": lambda: (
        connected().client(subscribe(4, "c", 3, metadata=[{"key": "password", "value": "secret"}])).server(success(3)).close()
    ),
    "an unknown field": lambda: whole().client(_extended(lookup(7))).close(),
    "a bad checksum": lambda: whole().client(send(1, 70)[:-1] + b"?").close(),
    "half a frame": lambda: whole().client(lookup(7)[:-3]).close(),
    "CONNECT in two segments": lambda: Conversation().handshake().client(CONNECT, mss=9).server(CONNECTED).close(),
    "CONNECT and more in a segment": lambda: Conversation().handshake().client(CONNECT + lookup(7)).server(CONNECTED).close(),
    "a server that speaks first": lambda: Conversation().handshake().server(CONNECTED).client(CONNECT).close(),
    "two CONNECTs": lambda: whole().client(CONNECT).client(CONNECT).server(CONNECTED).close(),
    "frames beyond an announced size": lambda: _announced(5),
    "no command at all": lambda: Conversation().handshake().client(b"GET / HTTP/1.1\r\n\r\n").server(b"HTTP/1.1 200 OK\r\n\r\n").close(),
}


def _announced(size: int) -> Conversation:
    answer = command_frame("CONNECTED", server_version="broker", max_message_size=size)
    return Conversation().handshake().client(CONNECT).server(answer).client(producer(1, "p", 2)).client(send(1, 1, bytes(11_000))).close()


def _extended(frame: bytes) -> bytes:
    """A frame with an unknown field behind those of its command."""
    size = len(frame) + 3
    body = frame[8:12] + bytes([frame[12] + 3]) + frame[13:] + b"\xf8\x07\x01"
    return (size - 4).to_bytes(4, "big") + (size - 8).to_bytes(4, "big") + body


@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_connection_is_read_as_a_whole(tmp_path: Path, taken: Taken, name: str) -> None:
    BothReaders(tmp_path, corpus_options()).check(pcap(PLAIN[name]().packets), other=IN_COLUMNS)
    assert taken == [True]


@pytest.mark.parametrize("name", ["a credential", "a credential of another", "a token"])
def test_credentials_are_shown_only_when_asked_for(tmp_path: Path, name: str) -> None:
    capture = str(write_pcap(tmp_path / "secret.pcap", PLAIN[name]().packets))
    lines = {}
    for choice in ("off", "require"):
        for more in ((), ("--show-secrets",)):
            command = [sys.executable, "-m", "pulsarscope", "decode", "--format", "ndjson", *more, capture]
            environment = {**os.environ, NATIVE: choice}
            lines[choice, more] = subprocess.run(command, env=environment, capture_output=True, check=True, timeout=60).stdout
    assert lines["off", ()] == lines["require", ()]
    assert lines["off", ("--show-secrets",)] == lines["require", ("--show-secrets",)]
    shown = [secret for secret in (b"secret", b64encode(b"secret"), TOKEN, b64encode(TOKEN)) if secret in lines["require", ()]]
    assert shown == []
    assert b"redacted (" in lines["require", ()]
    assert b"redacted (" not in lines["require", ("--show-secrets",)]


def test_each_command_that_is_read_is_in_a_plain_connection(tmp_path: Path) -> None:
    found = {
        row.command
        for number, talk in enumerate(PLAIN.values())
        for row in ps.open(write_pcap(tmp_path / f"{number}.pcap", talk().packets)).frames()
    }
    assert found == COMMANDS


@pytest.mark.parametrize("name", OTHER)
def test_python_reads_what_is_not_plain(tmp_path: Path, taken: Taken, name: str) -> None:
    BothReaders(tmp_path, corpus_options()).check(pcap(OTHER[name]().packets), other=IN_COLUMNS)
    assert taken == [False]


@pytest.mark.parametrize(
    "told", [whole().reset(), whole(), whole().lose("client", 5).client(lookup(7)).close()], ids=["reset", "open", "with a gap"]
)
def test_what_does_not_end_in_order_is_not_asked_for(tmp_path: Path, taken: Taken, told: Conversation) -> None:
    BothReaders(tmp_path, corpus_options()).check(pcap(told.packets), other=IN_COLUMNS)
    assert taken == []


def test_packets_behind_the_end_count_as_ever(tmp_path: Path, taken: Taken) -> None:
    told = whole().close()
    others = connected(50000).client(send(1, 0, bytes(READ_BLOCK_BYTES))).packets  # what follows is in another block
    again = whole().close().packets  # on the same ports
    late = [packet._replace(time_ns=told.time_ns + 10**7) for packet in [*others, *told.packets[4:12]]]
    later = [packet._replace(time_ns=packet.time_ns + 10**9) for packet in again]
    for other in range(5):
        BothReaders(tmp_path, corpus_options()).check(pcap([*told.packets, *late, *later]), other=other)
    assert taken[0]


@pytest.mark.slow
@given(randoms)
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_disturbed_connections_read_as_by_the_reference(tmp_path: Path, random: Random) -> None:
    packets = [
        packet
        for port in range(40000, 40003)
        for packet in whole(port, random.randrange(3)).close(random.choice(("client", "server"))).packets
    ]
    if random.random() < 0.5:
        packets.sort(key=lambda packet: packet.time_ns)
    for _ in range(random.randrange(4)):
        place = random.randrange(len(packets))
        kind = random.randrange(4)
        if kind == 0:
            packets[place] = packets[place]._replace(data=packets[place].data[:14] + damaged(random, packets[place].data[14:], 1))
        elif kind == 1:
            del packets[place]
        elif kind == 2:
            packets.insert(random.randrange(len(packets)), packets[place])
        else:
            packets[place] = packets[place]._replace(time_ns=packets[place].time_ns + random.choice((-1, 1)) * random.randrange(10**6))
    data = pcap(packets)
    both = BothReaders(tmp_path, corpus_options())
    for other in (0, IN_COLUMNS):
        both.check(data, other=other)


def test_gaps_and_lists_of_python_are_not_taken() -> None:
    with reader("require"):
        dissector = corpus_options().dissectors(show_secrets=False)[0]
    data = [Data(0, 0, [(CONNECT, 1, 0, 1)])]
    assert read_connection(dissector, (data, data), 0, None, "0:1") is None
    assert read_connection(dissector, (data, []), 0, None, "0:1") is None
    assert read_connection(dissector, ([Gap(0, 1, 1, "hole")], data), 0, None, "0:1") is None
