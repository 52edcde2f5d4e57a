"""Connections that the compiled reader reads without Python, and others, compared with the Python reader."""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings

import pulsarscope as ps
from pulsarscope.dissect.contract.legs import AnchorRow
from pulsarscope.engine import timelines
from pulsarscope.engine.connection import Timeline
from pulsarscope.engine.parallel import run
from pulsarscope.model.limits import READ_BLOCK_BYTES
from pulsarscope.model.ordered_rows import others
from pulsarscope.model.platform import load_native
from pulsarscope.protocols.pulsar.frame.compiled import COMMANDS
from tests.scenarios.both_readers import BothReaders, blocks_of, installed_reader, reader
from tests.scenarios.capture_mutations import corpus_options
from tests.scenarios.capturefile import Packet, pcap, write_pcap
from tests.scenarios.chance import randoms
from tests.scenarios.command_line import execute_here
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
from tests.scenarios.conversation import MILLISECOND, SECOND, START_NS, STEP_NS, Conversation
from tests.scenarios.frames import command_frame
from tests.scenarios.options import Options
from tests.scenarios.packets import ACK, FIN, RST, SYN
from tests.scenarios.wire_mutations import damaged

IN_COLUMNS, IN_TEXT, WITH_RULES, ANSWERED = 3, 5, 2, 7
"""The options of `BothReaders` with which short connections are read without Python; `WITH_RULES` asks for all rows but messages, and for
what rules say, `ANSWERED` for exchanges."""

TOKEN = b".".join(urlsafe_b64encode(part).rstrip(b"=") for part in (b'{"alg":"HS256"}', b'{"sub":"a","exp":1800000000}', b"signature"))

ANCHORS = Options(frozenset({"frame", "exchange"}), anchors=True, columns=True)

Left = list[str]


@pytest.fixture(autouse=True)
def installed() -> None:
    pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> Left:
    """Connections that the compiled reader leaves to Python."""
    found: Left = []

    class Recorded(Timeline):
        __slots__ = ()

        def __init__(self, connection: Any, settings: Any) -> None:
            super().__init__(connection, settings)
            if load_native()[0] is not None:
                found.append(connection.name)

    monkeypatch.setattr(timelines, "Timeline", Recorded)
    return found


def whole(port: int = 40000, count: int = 3, batch: int = 3) -> Conversation:
    """A connection of a client that looks up a topic, publishes and consumes."""
    talk = connected(port).client(lookup(1)).server(lookup_response("Connect", "pulsar://broker:6650/" + "x" * 120, 1))
    talk.client(command_frame("PRODUCER", topic=TOPIC, producer_id=1, request_id=2)).server(created("named-by-broker", 2))
    for number in range(count):
        talk.client(send(1, number), send(1, number + count)).server(receipt(1, number))
        talk.server(receipt(1, number + count, entry=1))
    talk.client(subscribe(4, "c", 3), flow(9, 4)).server(success(3), delivery(0, 4), delivery(1, 4, batch=batch)).client(
        ack(0, 1, number=4)
    )
    talk.client(close_consumer(4, 5)).server(success(5)).client(close_producer(1, 6)).server(success(6))
    return talk


def positioned() -> Conversation:
    """A connection of a client that requests partitions, seeks in a subscription and unsubscribes."""
    place = {"ledgerId": 7, "entryId": 3}
    talk = connected().client(command_frame("PARTITIONED_METADATA", topic=TOPIC, request_id=1))
    talk.server(command_frame("PARTITIONED_METADATA_RESPONSE", request_id=1, partitions=3, response="Success"))
    talk.client(subscribe(4, "c", 2)).server(success(2)).client(command_frame("SEEK", consumer_id=4, request_id=3, message_id=place))
    talk.server(success(3)).client(command_frame("GET_LAST_MESSAGE_ID", consumer_id=4, request_id=4))
    talk.server(command_frame("GET_LAST_MESSAGE_ID_RESPONSE", request_id=4, last_message_id=place))
    return talk.client(command_frame("UNSUBSCRIBE", consumer_id=4, request_id=5)).server(success(5)).close()


def opened_by(**fields: Any) -> Conversation:
    """A connection whose CONNECT has additional fields."""
    connect = command_frame("CONNECT", client_version="x", protocol_version=21, **fields)
    return Conversation().handshake().client(connect).server(CONNECTED).client(lookup(1)).close()


def copying() -> Conversation:
    """A connection of a replicator with an unusual name: the first receipt names a place in the other cluster, or a SEND."""
    talk = connected().client(producer(1, "repl.west", 2)).server(created("repl.west", 2)).client(send(1, 7))
    return talk.client(copied(0, 9, ledger=7)).server(receipt(1, 7), receipt(1, 9)).close()


PLAIN: dict[str, Callable[[], Conversation]] = {
    "all that is plain": lambda: whole().close(),
    "closed by the server": lambda: whole().close("server"),
    "reset by the client": lambda: whole().reset("client"),
    "reset by the server": lambda: whole().reset(),
    "unanswered requests before a RST": lambda: whole().client(lookup(7), send(1, 90)).reset(),
    "a RST behind both ends": lambda: whole().close().reset(),
    "a RST in answer to the end": lambda: whole().end().reset(),
    "a RST behind an end": lambda: whole().end().reset("client"),
    "a RST and late data": lambda: whole().reset().client(lookup(7)),
    "in small segments": lambda: (
        whole().client(lookup(7), mss=5).server(lookup_response("Failed", "", 7, error="MetadataError"), mss=7).close()
    ),
    "unanswered requests and SENDs": lambda: whole().client(lookup(7), send(1, 90)).close(),
    "hosts that acknowledge after 0.7 s": lambda: _paced(700),
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
    "hosts that acknowledge after a second": lambda: _paced(1_000),
    "a bad checksum": lambda: whole().client(send(1, 70)[:-1] + b"?").close(),
    "half a frame": lambda: whole().client(lookup(7)[:-3]).close(),
    "half a frame before a RST": lambda: whole().client(lookup(7)[:-3]).reset(),
    "a RST far from what is next": lambda: whole().lose("server", 1).reset().client(lookup(7)),
    "missing bytes before a RST": lambda: whole().lose("client", 30).server(success(7)).reset(),
    "CONNECT in two segments": lambda: Conversation().handshake().client(CONNECT, mss=9).server(CONNECTED).close(),
    "CONNECT and more in a segment": lambda: Conversation().handshake().client(CONNECT + lookup(7)).server(CONNECTED).close(),
    "a server that speaks first": lambda: Conversation().handshake().server(CONNECTED).client(CONNECT).close(),
    "two CONNECTs": lambda: whole().client(CONNECT).client(CONNECT).server(CONNECTED).close(),
    "frames beyond an announced size": lambda: _announced(5),
    "no command at all": lambda: Conversation().handshake().client(b"GET / HTTP/1.1\r\n\r\n").server(b"HTTP/1.1 200 OK\r\n\r\n").close(),
}


def _paced(milliseconds: int) -> Conversation:
    """A connection with this time between packets, acknowledgments among them."""
    talk = Conversation(step_ns=milliseconds * MILLISECOND).handshake().client(CONNECT).server(CONNECTED)
    return talk.client(lookup(1)).server(lookup_response("Connect", "pulsar://broker:6650/", 1)).close()


def _announced(size: int) -> Conversation:
    answer = command_frame("CONNECTED", server_version="broker", max_message_size=size)
    return Conversation().handshake().client(CONNECT).server(answer).client(producer(1, "p", 2)).client(send(1, 1, bytes(11_000))).close()


def _extended(frame: bytes) -> bytes:
    """A frame with an unknown field after those of its command."""
    size = len(frame) + 3
    body = frame[8:12] + bytes([frame[12] + 3]) + frame[13:] + b"\xf8\x07\x01"
    return (size - 4).to_bytes(4, "big") + (size - 8).to_bytes(4, "big") + body


@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_connection_is_read_without_python(tmp_path: Path, left: Left, name: str) -> None:
    for block in (None, 1000, 100):
        BothReaders(tmp_path, corpus_options()).check(pcap(PLAIN[name]().packets), other=IN_COLUMNS, block=block)
    assert left == []


UNBATCHED: dict[str, Callable[[], Conversation]] = {
    "single messages": lambda: whole(batch=0).close(),
    "closed by the server": lambda: whole(batch=0).close("server"),
    "reset": lambda: whole(batch=0).reset(),
    "reset behind an end": lambda: whole(batch=0).end("server").reset("client"),
    "unanswered requests and SENDs": lambda: whole(batch=0).client(lookup(7), send(1, 90)).close(),
    "versions of schemas": lambda: connected().client(producer(1, "p", 2)).server(created("p", 2, schema_version=b"1")).close(),
    **{name: PLAIN[name] for name in ("a name of the client", "an announced size", "requests of a consumer", "a token")},
}

JSON_SCHEMA = {"name": "s", "type": "Json", "schema_data": b'{"type":"record","name":"r","fields":[]}'}

TO_OPEN: dict[str, Callable[[], Conversation]] = {
    "a batch": lambda: whole().close(),
    "a compressed message": lambda: whole(batch=0).client(send(1, 70, b"no LZ4", {"compression": "LZ4", "uncompressed_size": 9})).close(),
    "a producer with a schema": lambda: whole(batch=0).client(producer(7, "p", 8, schema=JSON_SCHEMA), send(7, 1, b"{")).close(),
    "a consumer with a schema": lambda: whole(batch=0).client(subscribe(5, "c", 8, schema=JSON_SCHEMA)).close(),
}


@pytest.mark.parametrize("name", UNBATCHED)
def test_for_text_plain_connections_without_anything_to_open_are_read_without_python(tmp_path: Path, left: Left, name: str) -> None:
    for block in (None, 1000, 100):
        BothReaders(tmp_path, corpus_options()).check(pcap(UNBATCHED[name]().packets), other=IN_TEXT, block=block)
    assert left == []


@pytest.mark.parametrize("name", PLAIN)
def test_exchanges_of_plain_connections_are_those_of_the_reference(tmp_path: Path, name: str) -> None:
    for block in (None, 1000, 100):
        packets = PLAIN[name]().packets
        BothReaders(tmp_path, corpus_options()).check(pcap(packets), other=ANSWERED, block=block)
        BothReaders(tmp_path, corpus_options()).check(pcap(packets[:-3]), other=ANSWERED, block=block)


def test_what_waits_for_an_answer_when_the_capture_ends_is_an_exchange(tmp_path: Path) -> None:
    for asked in (lookup(7), send(1, 90)):
        path = write_pcap(tmp_path / "open.pcap", whole().client(asked).packets)
        with reader("require"):
            assert [row.status for row in ps.open(path).exchanges()][-1] == "unanswered"
        BothReaders(tmp_path, corpus_options()).check(path.read_bytes(), other=ANSWERED)


@pytest.mark.parametrize("name", TO_OPEN)
def test_for_text_python_opens_payloads(tmp_path: Path, left: Left, name: str) -> None:
    for block in (None, 1000, 100):
        BothReaders(tmp_path, corpus_options()).check(pcap(TO_OPEN[name]().packets), other=IN_TEXT, block=block)
    assert left == ["0:1"] * 3


UNANSWERED = {"reset", "reset behind an end", "unanswered requests and SENDs", "a name of the client", "an announced size", "a token"}
"""Connections for which Python gives more rows if exchanges and connections are requested."""


@pytest.mark.parametrize("name", UNBATCHED)
def test_rows_of_plain_connections_and_what_rules_say_of_them_are_those_of_the_reference(tmp_path: Path, left: Left, name: str) -> None:
    for block in (None, 1000, 100):
        BothReaders(tmp_path, corpus_options()).check(pcap(UNBATCHED[name]().packets), other=WITH_RULES, block=block)
    assert left == ["0:1"] * 3 * (name in UNANSWERED)


ALL: dict[str, Callable[[], Conversation]] = PLAIN | OTHER | TO_OPEN


@pytest.mark.parametrize("name", ALL)
def test_rows_of_all_other_connections_are_those_of_the_reference(tmp_path: Path, name: str) -> None:
    for block in (None, 1000, 100):
        BothReaders(tmp_path, corpus_options()).check(pcap(ALL[name]().packets), other=WITH_RULES, block=block)


def on_port(talk: Conversation, port: int) -> list[Packet]:
    """Packets of a connection from another client port."""
    changed = {talk.packets[0].data[34:36]: port.to_bytes(2, "big")}
    ports = ((packet, packet.data[34:36], packet.data[36:38]) for packet in talk.packets)
    return [
        packet._replace(data=packet.data[:34] + changed.get(source, source) + changed.get(target, target) + packet.data[38:])
        for packet, source, target in ports
    ]


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A capture of connections that Python reads and others."""
    talks = [talk() for talk in chain(PLAIN.values(), OTHER.values(), UNBATCHED.values(), TO_OPEN.values())]
    talks += [whole(batch=0).close()] * 300
    found = [packet for number, talk in enumerate(talks) for packet in on_port(talk, 41000 + number)]
    return str(write_pcap(tmp_path_factory.mktemp("many") / "many.pcap", found))


def by_both(*arguments: str) -> list[tuple[int, bytes, bytes]]:
    """The exit code, the output and the messages of a command, by the Python reader and by the compiled one."""
    results = []
    for choice in ("off", "require"):
        with installed_reader(choice):
            result = execute_here(*arguments)
        results.append((result.returncode, result.stdout, result.stderr))
    return results


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--quiet",), ("--time", "utc"), ("twice",)])
def test_text_of_connections_that_python_reads_and_others_is_that_of_the_reference(many: str, more: tuple[str, ...]) -> None:
    expected, found = by_both("decode", many, *((many,) if more == ("twice",) else more))
    assert found == expected
    assert expected[0] == 0
    assert expected[1].count(b"CONNECTED") > 300


SELECTIONS = (
    ("decode", "-Y", "command == SEND"),
    ("decode", "-Y", "server.port == 6650 and lookup and time < 10s", "--format", "ndjson"),
    ("decode", "-Y", "topic == 'none' or connection == '0:1'", "--format", "csv"),
    ("follow", "--topic", TOPIC.rpartition("/")[2]),
    ("follow", "--topic", TOPIC, "--format", "ndjson", "-Y", "sub == 1"),
    ("follow", "--topic", "other"),
    ("follow", "--connection", "1"),
    ("follow", "--connection", "7"),
    ("extract", "-Y", "command == SEND", "-o", "-"),
    ("extract", "-Y", "size > 100 or send_receipt", "-o", "-"),
    ("extract", "-Y", "connect", "-o", "-", "--context"),
)
"""Commands that select frames, on captures with connections that are read without Python, and others."""


@pytest.mark.slow
@pytest.mark.parametrize("arguments", SELECTIONS)
def test_what_commands_select_is_that_of_the_reference(many: str, arguments: tuple[str, ...]) -> None:
    expected, found = by_both(*arguments, many)
    assert found == expected
    assert expected[0] == 0


@pytest.mark.parametrize("name", ["a credential", "a credential of another", "a token"])
def test_credentials_are_shown_only_when_asked_for(tmp_path: Path, name: str) -> None:
    capture = str(write_pcap(tmp_path / "secret.pcap", PLAIN[name]().packets))
    (_, expected, _), (_, hidden, _) = by_both("decode", "--format", "ndjson", capture)
    assert hidden == expected
    (_, expected, _), (_, shown, _) = by_both("decode", "--format", "ndjson", "--show-secrets", capture)
    assert shown == expected
    assert [secret for secret in (b"secret", b64encode(b"secret"), TOKEN, b64encode(TOKEN)) if secret in hidden] == []
    assert b"redacted (" in hidden
    assert b"redacted (" not in shown


def test_each_command_that_is_read_is_in_a_plain_connection(tmp_path: Path) -> None:
    found = {
        row.command
        for number, talk in enumerate(PLAIN.values())
        for row in ps.open(write_pcap(tmp_path / f"{number}.pcap", talk().packets)).frames()
    }
    assert found == COMMANDS


@pytest.mark.parametrize("name", OTHER)
def test_python_reads_what_is_not_plain(tmp_path: Path, left: Left, name: str) -> None:
    for block in (None, 1000, 100):
        BothReaders(tmp_path, corpus_options()).check(pcap(OTHER[name]().packets), other=IN_COLUMNS, block=block)
    assert left == ["0:1"] * 3


def test_packets_behind_the_end_count_as_ever(tmp_path: Path, left: Left) -> None:
    talk = whole().close()
    others = connected(50000).client(send(1, 0, bytes(READ_BLOCK_BYTES))).packets  # later packets are in another block
    again = whole().close().packets  # on the same ports
    late = [packet._replace(time_ns=talk.time_ns + 10**7) for packet in [*others, *talk.packets[4:12]]]
    later = [packet._replace(time_ns=packet.time_ns + 10**9) for packet in again]
    for other in range(5):
        left.clear()
        BothReaders(tmp_path, corpus_options()).check(pcap([*talk.packets, *late, *later]), other=other)
        assert ("0:1" in left) == (other != IN_COLUMNS)  # a batch, and late data


class Stamped(Conversation):
    """A connection with timestamps in its segments, and further options in those of the server."""

    def _add(self, side: int, payload: bytes = b"", *, flags: int = ACK, sequence: int | None = None, options: bytes = b"") -> None:
        stamp = b"\x08\x0a" + (self.time_ns // 10**6 & 0xFFFF_FFFF).to_bytes(4, "big") + bytes(4)
        super()._add(side, payload, flags=flags, sequence=sequence, options=options or b"\x01" * (2 + 4 * side) + stamp)


def short(number: int, start: int = 0, *, answered: bool = False) -> list[Packet]:
    """Packets of a connection that begins `start` ns after the capture; the eighth is the last with data, unless it is `answered`."""
    talk = Stamped(("10.0.0.1", 10_000 + number), acknowledge=False, start_ns=START_NS + start).handshake()
    talk.client(CONNECT).server(CONNECTED).client(lookup(1)).server(lookup_response("Connect", "pulsar://broker:6650", 1))
    talk.client(lookup(2))
    return (talk.server(lookup_response("Connect", "pulsar://broker:6650", 2)) if answered else talk).close().packets


def later(packet: Packet, time: int) -> Packet:
    return packet._replace(time_ns=packet.time_ns + time)


def in_order(packets: Iterable[Packet]) -> list[Packet]:
    return sorted(packets, key=lambda packet: packet.time_ns)


@pytest.mark.parametrize("other", [IN_COLUMNS, WITH_RULES])
@pytest.mark.parametrize(("block", "data"), [(3000, True), (60_000, False)])
def test_closed_connections_wait_for_late_packets_as_long_as_by_the_reference(
    tmp_path: Path, left: Left, block: int, data: bool, other: int
) -> None:
    step = SECOND // 3
    connections = [short(number, number * step, answered=other == WITH_RULES) for number in range(800)]  # two minutes are 360
    found = [*chain.from_iterable(connections)]
    for number, packets in enumerate(connections[:500]):
        if number % 3 == 0:
            found += [later(packets[-1], 30 * step), later(packets[-1], 31 * step)]
        if number % 7 == 0 and data:
            found.append(later(packets[7], 40 * step))
        if number % 33 == 11:
            found.append(later(packets[-1], 225 * step))  # a minute is 180 of them
        if number % 13 == 0:
            found += [later(packet, (230, 400)[number % 2] * step) for packet in packets]  # on the same ports
    BothReaders(tmp_path, corpus_options()).check(pcap(in_order(found)), other=other, block=block)
    assert len(left) < 250


@pytest.mark.parametrize("other", [IN_COLUMNS, WITH_RULES])
@pytest.mark.parametrize("block", [1000, 60_000])
@pytest.mark.parametrize("lossy", [False, True])
def test_closed_connections_finish_in_the_order_in_which_they_were_closed(
    tmp_path: Path, left: Left, block: int, lossy: bool, other: int
) -> None:
    step = SECOND // 3
    found = []
    for number in range(700):  # two minutes are 360
        packets = short(number, number * step, answered=other == WITH_RULES)
        found += packets[:5] + packets[6:] if lossy and number % 10 == 1 else packets  # read by Python
        if number < 300 and number % 3:
            wait = (30, 20)[number % 3 - 1] * step + number % 2 * 5 * step  # data of the later one may come first
            found += [later(packet, wait) for packet in packets[3:8]]
    BothReaders(tmp_path, corpus_options()).check(pcap(in_order(found)), other=other, block=block)
    assert len(left) < 350
    twice = [row.connection for row in ps.open(tmp_path / "in.pcap").findings() if row.code == "captured-twice"]
    assert len(twice) == 200


@pytest.mark.parametrize("block", [1000, 8000, 60_000])
@pytest.mark.parametrize("most", [5, 40])
@pytest.mark.parametrize("other", [IN_COLUMNS, WITH_RULES])
def test_of_too_many_closed_connections_the_same_wait_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int, most: int, other: int
) -> None:
    monkeypatch.setattr("pulsarscope.tcp.connection_table.CLOSED_CONNECTIONS_MAX", most)
    monkeypatch.setattr("pulsarscope.engine.short_connections.AT_A_TIME", 4)
    step = SECOND // 100
    connections = [short(number, number * step, answered=other == WITH_RULES) for number in range(120)]
    packets = in_order(chain.from_iterable(connections))
    BothReaders(tmp_path, corpus_options()).check(pcap(packets), other=other, block=block)


@pytest.mark.parametrize("block", [1000, 60_000])
@pytest.mark.parametrize("other", [IN_COLUMNS, WITH_RULES])
@pytest.mark.parametrize("together", [3, 1_024])
def test_connections_that_wait_when_the_capture_ends_stand_in_the_order_of_their_last_packets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int, other: int, together: int
) -> None:
    monkeypatch.setattr("pulsarscope.engine.short_connections.AT_A_TIME", together)
    monkeypatch.setattr("pulsarscope.engine.engine.STEPS_TOGETHER", together)
    found = []
    for number in range(40):
        packets = short(number, number * SECOND // 100, answered=other == WITH_RULES)
        found += packets[:5] + packets[6:] if number % 10 == 1 else packets  # read by Python
        if number % 3 == 0:
            found.append(later(packets[-1], (50 - number) * SECOND // 10))
    BothReaders(tmp_path, corpus_options()).check(pcap(in_order(found)), other=other, block=block)
    last = [(row.end, row.connection) for row in ps.open(tmp_path / "in.pcap").connections()]
    assert len(last) == 40
    assert last == sorted(last)
    assert last != sorted(last, key=lambda each: int(str(each[1]).partition(":")[2]))


@pytest.mark.parametrize("block", [1000, None])
def test_anchors_are_those_of_the_reference(tmp_path: Path, left: Left, block: int | None) -> None:
    path, asked = write_pcap(tmp_path / "a.pcap", [*whole(batch=0).close().packets, *short(7, SECOND, answered=True)]), ANCHORS
    rows = []
    for choice in ("off", "require"):
        with reader(choice), blocks_of(block):
            rows.append([row for batch in run([str(path)], asked, 1) for row in others(batch.rows) if isinstance(row, AnchorRow)])
    assert len(rows[0]) > 5
    assert rows[0] == rows[1]
    assert not left


@pytest.mark.parametrize("block", [1000, None])
@pytest.mark.parametrize("other", [IN_COLUMNS, WITH_RULES])
def test_a_late_packet_of_the_next_file_stands_behind_all_of_the_first(tmp_path: Path, block: int | None, other: int) -> None:
    stays_open, closed = short(0, 0, answered=True)[:-3], short(1, SECOND, answered=True)
    both = BothReaders(tmp_path, corpus_options())
    both.check(pcap(stays_open + closed[:-1]), other=other, block=block, following=pcap(closed[-1:]))
    rows = ps.open(tmp_path / "in.pcap", tmp_path / "next.pcap").connections()
    assert [(row.connection, row.closed) for row in rows] == [("0:1", "open"), (f"0:{len(stays_open) + 1}", "fin")]


@pytest.mark.parametrize("most", [5, 40])
@pytest.mark.parametrize("block", [1000, 8000])
def test_of_too_many_closed_connections_with_late_packets_of_the_next_file_the_same_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int, most: int
) -> None:
    monkeypatch.setattr("pulsarscope.tcp.connection_table.CLOSED_CONNECTIONS_MAX", most)
    found = [short(number, number * SECOND // 100, answered=True) for number in range(60)]
    first, late = [packets[:-1] for packets in found[:30]], [packets[-1] for packets in found[:30]]
    ended = chain.from_iterable([found[59][:-3], *first])  # one stays open
    following = chain((later(packet, SECOND) for packet in late), *([later(packet, SECOND) for packet in each] for each in found[30:59]))
    both = BothReaders(tmp_path, corpus_options())
    both.check(pcap([*ended]), other=WITH_RULES, block=block, following=pcap([*following]))


Change = Callable[[Random, list[Packet], int], None]


def _again(random: Random, packets: list[Packet], place: int) -> None:
    """Insert a copy, some packets later."""
    at = min(place + 1 + random.randrange(6), len(packets))
    packets.insert(at, packets[place]._replace(time_ns=packets[at - 1].time_ns))


def _late(random: Random, packets: list[Packet], place: int) -> None:
    """Move a packet behind some others."""
    packet = packets.pop(place)
    at = min(place + 1 + random.randrange(3), len(packets))
    packets.insert(at, packet._replace(time_ns=packets[at - 1].time_ns))


def _of(change: Callable[[Random, bytearray], None]) -> Change:
    """Return a change of the TCP header of a packet."""

    def changed(random: Random, packets: list[Packet], place: int) -> None:
        data = bytearray(packets[place].data)
        change(random, data)
        packets[place] = packets[place]._replace(data=bytes(data))

    return changed


def _flags(random: Random, data: bytearray) -> None:
    data[47] = random.choice((FIN | ACK, RST, RST | ACK, SYN, SYN | ACK, ACK, 0))


def _window(_: Random, data: bytearray) -> None:
    data[48:50] = bytes(2)


def _sequence(random: Random, data: bytearray) -> None:
    moved = int.from_bytes(data[38:42], "big") + random.choice((-1, 1, -100, 5000, 1 << 31))
    data[38:42] = (moved & 0xFFFF_FFFF).to_bytes(4, "big")


def _acknowledged(random: Random, data: bytearray) -> None:
    moved = int.from_bytes(data[42:46], "big") + random.choice((-1, 1, 100, 1 << 24, 1 << 31))
    data[42:46] = (moved & 0xFFFF_FFFF).to_bytes(4, "big")


def _keep_alive(random: Random, packets: list[Packet], place: int) -> None:
    """Insert a keep-alive: a packet without data, or with one byte, one sequence number back."""
    data = bytearray(packets[place].data[:54])
    size = random.randrange(2)
    data[38:42] = (int.from_bytes(data[38:42], "big") - 1 & 0xFFFF_FFFF).to_bytes(4, "big")
    data[16:18] = (40 + size).to_bytes(2, "big")
    data[46] = 0x50
    packets.insert(place, packets[place]._replace(data=bytes(data) + bytes(size)))


def _pause(random: Random, packets: list[Packet], place: int) -> None:
    """Let time pass: seconds, the minute of late packets, an hour."""
    pause = random.choice((3, 59, 61, 125, 3_599, 3_700)) * SECOND
    packets[place:] = [packet._replace(time_ns=packet.time_ns + pause) for packet in packets[place:]]


def _lost(_: Random, packets: list[Packet], place: int) -> None:
    del packets[place]


def _damage(random: Random, packets: list[Packet], place: int) -> None:
    """Any bytes behind those of Ethernet."""
    data = packets[place].data
    packets[place] = packets[place]._replace(data=data[:14] + damaged(random, data[14:], 1))


def _moved(random: Random, packets: list[Packet], place: int) -> None:
    """Another time, maybe before that of the packet in front, or behind that of the next one."""
    packets[place] = packets[place]._replace(time_ns=packets[place].time_ns + random.choice((-1, 1)) * random.randrange(10**6))


CHANGES: tuple[Change, ...] = (
    _again, _late, _lost, _keep_alive, _pause, _damage, _damage, _moved, _of(_flags), _of(_window), _of(_sequence), _of(_acknowledged),
)  # fmt: skip


def _ending(random: Random, talk: Conversation) -> Conversation:
    """End a connection, or cut it off."""
    kind = random.randrange(5)
    if kind == 0:
        return talk
    if kind == 1:
        return talk.reset(random.choice(("client", "server")))
    talk = talk.close(random.choice(("client", "server")))
    return talk.reset("client") if kind == 2 else talk


def _many_at_a_time(random: Random) -> list[Packet]:
    """Packets of some connections in random order, some of them changed."""
    streams = []
    for port in range(40000, 40002 + random.randrange(8)):
        of_table = random.choice((*PLAIN.values(), *OTHER.values()))
        talk = of_table() if random.random() < 0.3 else _ending(random, whole(port, random.randrange(3), random.choice((0, 3))))
        streams.append(talk.packets[random.choice((0, 0, 0, 0, 1, 2, 3, 9)) :])
    if random.random() < 0.2:
        streams.append([*streams[0], *(packet._replace(time_ns=packet.time_ns + SECOND) for packet in streams[0])])  # on the same ports
    packets: list[Packet] = []
    while any(streams):
        stream = random.choice([stream for stream in streams if stream])
        packets.append(stream.pop(0)._replace(time_ns=START_NS + len(packets) * STEP_NS))
    for _ in range(random.choice((0, 1, 1, 2, 5))):
        random.choice(CHANGES)(random, packets, random.randrange(len(packets)))
    return packets


@pytest.mark.slow
@given(randoms)
@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_many_connections_at_a_time_read_as_by_the_reference_wherever_blocks_end(tmp_path: Path, random: Random) -> None:
    packets = _many_at_a_time(random)
    other = random.choice((0, IN_COLUMNS, IN_COLUMNS, IN_TEXT, WITH_RULES, WITH_RULES))
    with patch("pulsarscope.engine.short_connections.AT_A_TIME", random.choice((1, 3, 256))):
        BothReaders(tmp_path, corpus_options()).check(pcap(packets), other=other, block=random.choice((200, 1000, 3000, 8000, None)))


@pytest.mark.parametrize("count", [2, 3])
def test_processes_share_connections_that_python_reads_and_others(many: str, tmp_path: Path, count: int) -> None:
    for block in (None, 8000):
        BothReaders(tmp_path, corpus_options()).check_jobs(Path(many).read_bytes(), count=count, block=block)


@pytest.mark.slow
@given(randoms)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_processes_share_many_connections_at_a_time_wherever_blocks_end(tmp_path: Path, random: Random) -> None:
    packets = _many_at_a_time(random)
    end = random.choice((len(packets), random.randrange(1, max(2, len(packets)))))
    with (
        patch("pulsarscope.engine.short_connections.AT_A_TIME", random.choice((1, 3, 256))),
        patch("pulsarscope.tcp.connection_table.CLOSED_CONNECTIONS_MAX", random.choice((1, 5, 10_000))),
        patch("pulsarscope.engine.short_connections.OPEN_CONNECTIONS_MAX", random.choice((2, 5, 10_000))),
    ):
        BothReaders(tmp_path, corpus_options()).check_jobs(
            pcap(packets[:end]),
            count=random.choice((2, 3)),
            block=random.choice((200, 1000, 3000, None)),
            following=pcap(packets[end:]) if end < len(packets) else None,
        )


@pytest.mark.slow
@given(randoms)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_many_connections_in_two_files_read_as_by_the_reference(tmp_path: Path, random: Random) -> None:
    packets = _many_at_a_time(random)
    end = random.randrange(1, max(2, len(packets)))
    other, block = random.choice((IN_COLUMNS, IN_TEXT, WITH_RULES, WITH_RULES)), random.choice((200, 1000, 3000, None))
    with patch("pulsarscope.engine.short_connections.AT_A_TIME", random.choice((1, 3, 256))):
        BothReaders(tmp_path, corpus_options()).check(pcap(packets[:end]), other=other, block=block, following=pcap(packets[end:]))
