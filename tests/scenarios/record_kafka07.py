"""Records captures/kafka07.pcap and captures/mixed-pulsar-kafka.pcap with their truth, from real sockets on loopback, sniffed with
AF_PACKET.

sudo python -m tests.scenarios.record_kafka07 captures
"""

from __future__ import annotations

import hashlib
import json
import struct
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from socket import AF_PACKET, SOCK_RAW, SOL_SOCKET, create_connection, create_server, htons, socket
from typing import Any

from tests.scenarios import kafka07
from tests.scenarios.capturefile import Packet, pcap
from tests.scenarios.frames import command_frame, message_metadata, payload_frame
from tests.scenarios.kafka07 import GZIP, SNAPPY, message, message_set
from tests.scenarios.kafka07_broker import Broker, receive

ADDRESS = "127.7.0.1"
"""A loopback address that nothing else here uses."""

KAFKA, LATER_KAFKA, PULSAR = (ADDRESS, 9092), ("127.7.0.2", 9092), (ADDRESS, 6650)
OUTGOING = 4
"""PACKET_OUTGOING of linux/if_packet.h: on loopback, every packet is seen twice."""

TIMESTAMPS = 35
"""SO_TIMESTAMPNS of Linux: seconds and nanoseconds at which the kernel saw a packet."""

IPV4 = 0x0800
ADDRESS_AT = 14 + 12
"""Position of source and destination address in an Ethernet frame with IPv4."""

PAUSE_SECONDS = 0.002


class Sniffer:
    """A capture of loopback traffic from and to our addresses."""

    def __init__(self) -> None:
        self.packets: list[Packet] = []
        self._socket = socket(AF_PACKET, SOCK_RAW, htons(IPV4))
        self._socket.setsockopt(SOL_SOCKET, TIMESTAMPS, 1)
        self._socket.bind(("lo", IPV4))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                data, [(_, _, stamp)], _, (_, _, kind, *_) = self._socket.recvmsg(1 << 17, 64)
            except OSError:
                return
            ends = (data[ADDRESS_AT : ADDRESS_AT + 4], data[ADDRESS_AT + 4 : ADDRESS_AT + 8])
            if kind != OUTGOING and any(end.startswith(b"\x7f\x07\x00") for end in ends):
                seconds, nanoseconds = struct.unpack("@ll", stamp)
                self.packets.append(Packet(seconds * 1_000_000_000 + nanoseconds, data))

    def write(self, path: Path) -> None:
        """Write the capture so far, and begin a new one."""
        time.sleep(0.1)
        path.write_bytes(pcap(self.packets))
        self.packets = []


class Truth:
    """The clients' own account of their messages."""

    def __init__(self, scenario: str) -> None:
        self._said: dict[str, Any] = {"scenario": scenario, "produced": [], "consumed": [], "events": []}

    def message(self, direction: str, topic: str, partition: int, payload: bytes, **more: Any) -> None:
        """Note a message; `more`: codec, magic, offset of its entry."""
        row = {"topic": topic, "partition": partition, "size": len(payload), "sha256": hashlib.sha256(payload).hexdigest(), **more}
        self._said[direction].append(row)

    def event(self, text: str) -> None:
        """Note what the client did or saw apart from messages."""
        self._said["events"].append(text)

    def write(self, path: Path) -> None:
        """Write the account as JSON."""
        path.write_text(json.dumps(self._said, indent=1) + "\n")


class Client:
    """A client of Kafka 0.7 that waits for each response."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self.connection = create_connection(KAFKA)

    def produce(self, topic: str, partition: int, payloads: list[bytes], codec: str = "NONE", magic: int = 1) -> bytes:
        """Return a message set, noted as produced."""
        for payload in payloads:
            self._truth.message("produced", topic, partition, payload, codec=codec, magic=magic)
        plain = message_set(*payloads, magic=magic)
        if codec == "NONE":
            return plain
        return kafka07.compressed(GZIP if codec == "GZIP" else SNAPPY, plain, framed=codec != "SNAPPY raw")

    def send(self, request: bytes) -> None:
        """Send a request without a response."""
        self.connection.sendall(request)
        time.sleep(PAUSE_SECONDS)

    def ask(self, request: bytes) -> bytes:
        """Send a request, and return its response."""
        self.connection.sendall(request)
        return receive(self.connection)

    def consume(self, topic: str, partition: int, offset: int, messages: bytes) -> int:
        """Note the whole messages of a set as consumed; return the offset after them."""
        at = 0
        while len(messages) - at >= 4:
            (size,) = struct.unpack_from(">i", messages, at)
            if at + 4 + size > len(messages):
                break
            for payload in _payloads(messages[at : at + 4 + size]):
                self._truth.message("consumed", topic, partition, payload, offset=offset + at)
            at += 4 + size
        return offset + at

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()
        time.sleep(PAUSE_SECONDS)


def _payloads(entry: bytes) -> list[bytes]:
    """Return the payloads in one entry, with the standard library and cramjam alone."""
    import gzip  # noqa: PLC0415

    import cramjam  # noqa: PLC0415

    magic = entry[4]
    codec = entry[5] & 3 if magic else 0
    payload = entry[10:] if magic else entry[9:]
    if not codec:
        return [payload]
    if codec == GZIP:
        inner = gzip.decompress(payload)
    elif payload.startswith(kafka07.XERIAL_HEAD):
        at, inner = len(kafka07.XERIAL_HEAD), b""
        while at < len(payload):
            (size,) = struct.unpack_from(">i", payload, at)
            inner += bytes(cramjam.snappy.decompress_raw(payload[at + 4 : at + 4 + size]))
            at += 4 + size
    else:
        inner = bytes(cramjam.snappy.decompress_raw(payload))
    found, at = [], 0
    while at < len(inner):
        (size,) = struct.unpack_from(">i", inner, at)
        found += _payloads(inner[at : at + 4 + size])
        at += 4 + size
    return found


def text(number: int) -> bytes:
    """Return a unique payload."""
    return f"order {number:04} of customer {number * 7919 % 1000:03}".encode()


def produce_all(truth: Truth) -> None:
    """Produce in every way."""
    client = Client(truth)
    for number in range(5):
        client.send(kafka07.produce("orders", 0, client.produce("orders", 0, [text(number)])))
    client.send(kafka07.produce("orders", 0, client.produce("orders", 0, [text(number) for number in range(5, 15)])))
    client.send(kafka07.produce("orders", 0, client.produce("orders", 0, [text(number) for number in range(15, 40)], "GZIP")))
    client.send(kafka07.produce("orders", 0, client.produce("orders", 0, [text(number) * 30 for number in range(40, 80)], "SNAPPY")))
    client.send(kafka07.produce("orders", 0, client.produce("orders", 0, [text(number) for number in range(80, 90)], "SNAPPY raw")))
    client.send(kafka07.produce("orders", -1, client.produce("orders", -1, [b"any partition"])))
    old = client.produce("clicks", 1, [b"written by a client of 2011", b""], magic=0)
    new = client.produce("clicks", 2, [bytes(range(256))])
    client.send(kafka07.multiproduce(("clicks", 1, old), ("clicks", 2, new)))
    client.close()


def consume_all(truth: Truth) -> None:
    """Consume in every way, and provoke the refusals."""
    client = Client(truth)
    client.ask(kafka07.offsets("orders", 0, -2, 1))
    client.ask(kafka07.offsets("orders", 0, -1, 10))
    offset = 0
    while messages := client.ask(kafka07.fetch("orders", 0, offset, 2500))[2:]:
        offset = client.consume("orders", 0, offset, messages)
    answer = client.ask(kafka07.multifetch(("clicks", 1, 0, 1000), ("clicks", 2, 0, 1000), ("nothing", 0, 0, 1000)))
    at = 2
    for topic, partition in (("clicks", 1), ("clicks", 2), ("nothing", 0)):
        (size,) = struct.unpack_from(">i", answer, at)
        client.consume(topic, partition, 0, answer[at + 6 : at + 4 + size])
        at += 4 + size
    client.ask(kafka07.fetch("orders", 0, 1 << 40, 2500))
    truth.event("a fetch at offset 2^40 is refused with OffsetOutOfRange")
    client.ask(kafka07.fetch("orders", 99, 0, 2500))
    truth.event("a fetch of partition 99 is refused with WrongPartition")
    client.ask(kafka07.fetch("clicks", 2, 0, 100))
    truth.event("a fetch of 100 bytes of clicks-2 brings only a piece of its message")
    client.close()


def lose_some(truth: Truth, broker: Broker) -> None:
    """Produce to a broker that goes down before it responds, and to one that refuses to store."""
    client = Client(truth)
    end = len(broker.logs["orders", 0])
    broker.drop_next = True
    assert client.ask(kafka07.fetch("orders", 0, end, 2500)) == b""
    client.close()
    again = Client(truth)
    again.ask(kafka07.fetch("orders", 0, end, 2500))
    again.close()
    truth.event("a fetch is not answered, and sent again on a new connection")
    refused = Client(truth)
    refused.send(kafka07.produce("orders", 77, message(b"to a partition that there is not")))
    assert refused.connection.recv(1) == b""
    refused.close()
    truth.event("a message to partition 77 is produced, and the broker closes the connection")


def speak_pulsar(truth: Truth) -> None:
    """Exchange a few frames of Pulsar, with both sides written by hand."""
    topic = "persistent://public/default/orders"
    metadata = [message_metadata(producer_name="standalone-0-1", sequence_id=number) for number in range(3)]
    steps = [
        (command_frame("CONNECT", client_version="by hand", protocol_version=21), command_frame("CONNECTED", server_version="by hand")),
        (
            command_frame("PRODUCER", topic=topic, producer_id=0, request_id=1),
            command_frame("PRODUCER_SUCCESS", request_id=1, producer_name="standalone-0-1"),
        ),
    ]
    for number, one in enumerate(metadata):
        payload = text(number)
        ident = {"ledgerId": 5, "entryId": number}
        steps.append(
            (
                payload_frame("SEND", one, payload, producer_id=0, sequence_id=number),
                command_frame("SEND_RECEIPT", producer_id=0, sequence_id=number, message_id=ident),
            )
        )
        stored = {"ledger": 5, "entry": number, "partition": -1}
        truth.message("produced", topic, -1, payload, id=stored, producer="standalone-0-1", sequence_id=number)
    _converse(PULSAR, steps)


def speak_later_kafka() -> None:
    """Exchange ApiVersions, Metadata, Produce and Fetch of Kafka 0.9, which resemble 0.7."""
    set_ = kafka07.later_message(b"of a later version", 3)
    topic = kafka07.short_string("orders")
    one_partition = struct.pack(">ii", 1, 0)
    produce = struct.pack(">hii", 1, 1000, 1) + topic + one_partition + kafka07.sized(set_)
    fetch = struct.pack(">iiii", -1, 100, 1, 1) + topic + one_partition + struct.pack(">qi", 3, 1 << 20)
    fetched = struct.pack(">i", 1) + topic + struct.pack(">iihq", 1, 0, 0, 4) + kafka07.sized(set_)
    produced = struct.pack(">i", 1) + topic + struct.pack(">iihq", 1, 0, 0, 3)
    request, response = kafka07.later_request, kafka07.later_response
    steps = [
        (request(3, 0, 1, "console", struct.pack(">i", 1) + topic), response(1, struct.pack(">ii", 0, 0))),
        (request(0, 0, 2, "console", produce), response(2, produced)),
        (request(1, 0, 3, "console", fetch), response(3, fetched)),
        (request(1, 0, 4, "console", fetch), response(4, fetched)),
    ]
    _converse(LATER_KAFKA, steps)


def _converse(address: tuple[str, int], steps: list[tuple[bytes, bytes]]) -> None:
    """Send requests and responses in turn, on a separate connection."""
    with create_server(address, reuse_port=True) as listening:
        client = create_connection(address)
        server, _ = listening.accept()
        for asked, answered in steps:
            client.sendall(asked)
            receive(server)
            server.sendall(answered)
            receive(client)
            time.sleep(PAUSE_SECONDS)
        client.close()
        time.sleep(PAUSE_SECONDS)
        server.close()


def record(folder: Path, name: str, scenario: str, play: Callable[[Truth, Broker], None]) -> None:
    """Record one capture and its truth."""
    sniffer, truth = Sniffer(), Truth(scenario)
    with create_server(KAFKA, reuse_port=True) as listening:
        play(truth, Broker(listening))
        time.sleep(PAUSE_SECONDS)
    sniffer.write(folder / f"{name}.pcap")
    truth.write(folder / f"{name}.truth.json")


def play_kafka(truth: Truth, broker: Broker) -> None:
    """Play all of Kafka 0.7."""
    produce_all(truth)
    consume_all(truth)
    lose_some(truth, broker)


def play_mixed(truth: Truth, broker: Broker) -> None:
    """Play Pulsar, Kafka 0.7 and a later Kafka."""
    del broker
    speak_pulsar(truth)
    client = Client(truth)
    client.send(kafka07.produce("orders", 0, client.produce("orders", 0, [text(number) for number in range(10)], "GZIP")))
    client.consume("orders", 0, 0, client.ask(kafka07.fetch("orders", 0, 0))[2:])
    speak_later_kafka()
    client.close()


if __name__ == "__main__":
    target = Path(sys.argv[1])
    record(target, "kafka07", "Kafka 0.7: every request and response, both magics, both codecs, refusals, lost messages", play_kafka)
    record(target, "mixed-pulsar-kafka", "Pulsar, Kafka 0.7 and Kafka 0.9 side by side", play_mixed)
