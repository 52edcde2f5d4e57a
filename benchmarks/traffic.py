"""Makes captures of any size, in bounded memory.

    python -m benchmarks.traffic tiny|sync|batch|big OUT --megabytes 100
    python -m benchmarks.traffic connections OUT --count 5000
    python -m benchmarks.traffic replicate IN OUT --times 10
    python -m benchmarks.traffic disorder IN OUT --share 0.005

tiny: unbatched messages of 100 bytes, produced and consumed on one connection, many frames per packet. sync: three connections, one send,
receipt, delivery and acknowledgment at a time, one frame per packet. batch: LZ4 batches of 100 messages with keys and
properties. big: bodies of 64 KiB. connections: short connections, a hundred at a time. replicate: copies of another capture, each with
other clients. disorder: packets swapped and repeated. Equal arguments give equal bytes.
"""

from __future__ import annotations

import argparse
import itertools
import random
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from crc32c import crc32c

from tests.scenarios import ACK, FIN, PSH, SYN, Single, batch, command_frame, compress, ethernet, ipv4
from tests.scenarios import pulsar_pb2 as pb
from tests.scenarios.frames import CHECKSUM_MAGIC, PUBLISH_TIME_MS, sized

CLIENT, SERVER = 0, 1
MSS = 1460
START_US = 1_700_000_000_000_000
STEP_US = 20
WRITE_BYTES = 1 << 20
TOPIC = "persistent://public/default/benchmark"

FILE_HEADER = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1)
RECORD = struct.Struct("<IIII")
TCP = struct.Struct(">HHIIHHHH")

Write = tuple[int, bytes]
"""A write of an application: side and bytes."""


class Content(NamedTuple):
    """What a run must find in a capture. A message counts where it is produced and where it is delivered."""

    frames: int
    messages: int

    def times(self, number: int) -> Content:
        """Return the content of several copies."""
        return Content(self.frames * number, self.messages * number)


class Scenario(NamedTuple):
    """The beginning of a connection, its endless rounds, and the content of each round."""

    first: list[Write]
    rounds: Iterator[list[Write]]
    content: Content


class Capture:
    """The file being written, and its clock."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._parts = [FILE_HEADER]
        self._waiting = 0
        self._time_us = START_US
        self.size = len(FILE_HEADER)

    def add(self, *packet: bytes) -> None:
        """Append a packet given in pieces."""
        length = sum(map(len, packet))
        self._time_us += STEP_US
        seconds, micros = divmod(self._time_us, 1_000_000)
        self._parts.append(RECORD.pack(seconds, micros, length, length))
        self._parts.extend(packet)
        self.size += length + RECORD.size
        self._waiting += length
        if self._waiting > WRITE_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the buffered packets."""
        self._file.write(b"".join(self._parts))
        self._parts.clear()
        self._waiting = 0


class Connection:
    """A connection that cuts writes into packets. The Ethernet and IP headers depend on the length alone, and are made once per length."""

    def __init__(self, capture: Capture, number: int, mss: int = MSS, server: tuple[str, int] = ("10.0.0.1", 6650)) -> None:
        self._capture = capture
        self._mss = mss
        self._addresses = (f"10.{1 + (number >> 16)}.{number >> 8 & 255}.{number & 255}", server[0])
        self._ports = (40_000 + number % 20_000, server[1])
        self._next = [1_000_000 + number * 7_919, 2_000_000 + number * 104_729]
        self._headers: dict[tuple[int, int], bytes] = {}

    def knock(self) -> None:
        """Write the first packet of the handshake."""
        self._packet(CLIENT, SYN)

    def open(self) -> None:
        """Write the handshake."""
        self.knock()
        self._next[CLIENT] += 1
        self._packet(SERVER, SYN | ACK)
        self._next[SERVER] += 1
        self._packet(CLIENT, ACK)

    def write(self, side: int, data: bytes) -> None:
        """Write bytes as an application does; every second segment and the last one are acknowledged."""
        mss = self._mss
        for count, start in enumerate(range(0, len(data), mss), 1):
            last = start + mss >= len(data)
            self._packet(side, ACK | PSH if last else ACK, data[start : start + mss])
            if last or count % 2 == 0:
                self._packet(1 - side, ACK)

    def close(self) -> None:
        """Write a FIN from either side."""
        for side in (CLIENT, SERVER):
            self._packet(side, FIN | ACK)
            self._next[side] += 1
        self._packet(CLIENT, ACK)

    def _packet(self, side: int, flags: int, payload: bytes = b"") -> None:
        length = len(payload)
        header = self._headers.get((side, length))
        if header is None:
            empty = ipv4(self._addresses[side], self._addresses[1 - side], bytes(TCP.size + length))
            header = self._headers[side, length] = ethernet(empty[:20])
        sequence, acknowledgment = self._next[side] & 0xFFFF_FFFF, self._next[1 - side] & 0xFFFF_FFFF
        tcp = TCP.pack(
            self._ports[side], self._ports[1 - side], sequence, acknowledgment if flags & ACK else 0, 0x5000 | flags, 0xFFFF, 0, 0
        )
        self._capture.add(header, tcp, payload)
        self._next[side] += length


def prelude(permits: int) -> list[Write]:
    """Return the beginning of a client with one producer and one consumer."""
    return [
        (CLIENT, command_frame("CONNECT", client_version="benchmark", protocol_version=21)),
        (SERVER, command_frame("CONNECTED", server_version="benchmark", protocol_version=21, max_message_size=5_242_880)),
        (CLIENT, command_frame("PRODUCER", topic=TOPIC, producer_id=1, request_id=1, producer_name="producer-1")),
        (SERVER, command_frame("PRODUCER_SUCCESS", request_id=1, producer_name="producer-1")),
        (
            CLIENT,
            command_frame("SUBSCRIBE", topic=TOPIC, subscription="s", subType="Shared", consumer_id=2, request_id=2),
        ),
        (SERVER, command_frame("SUCCESS", request_id=2)),
        (CLIENT, command_frame("FLOW", consumer_id=2, messagePermits=permits)),
    ]


class Frames:
    """The four frames in the life of an entry, made by setting the changing fields of protobuf messages that are kept."""

    def __init__(self, messages: int = 1, codec: str = "NONE", uncompressed: int = 0) -> None:
        self._metadata = pb.MessageMetadata(producer_name="producer-1", publish_time=PUBLISH_TIME_MS)
        if messages > 1:
            self._metadata.num_messages_in_batch = messages
        if codec != "NONE":
            self._metadata.compression = pb.CompressionType.Value(codec)
            self._metadata.uncompressed_size = uncompressed
        self._send = pb.BaseCommand(type=pb.BaseCommand.SEND, send={"producer_id": 1, "sequence_id": 0, "num_messages": messages})
        self._receipt = pb.BaseCommand(
            type=pb.BaseCommand.SEND_RECEIPT,
            send_receipt={"producer_id": 1, "sequence_id": 0, "message_id": {"ledgerId": 7, "entryId": 0}},
        )
        self._message = pb.BaseCommand(type=pb.BaseCommand.MESSAGE, message={"consumer_id": 2, "message_id": {"ledgerId": 7, "entryId": 0}})
        self._ack = pb.BaseCommand(
            type=pb.BaseCommand.ACK,
            ack={"consumer_id": 2, "ack_type": "Individual", "message_id": [{"ledgerId": 7, "entryId": 0}]},
        )

    def of(self, number: int, payload: bytes) -> tuple[bytes, bytes, bytes, bytes]:
        """Return SEND, SEND_RECEIPT, MESSAGE and ACK of the entry with this number."""
        self._metadata.sequence_id = number
        self._send.send.sequence_id = number
        self._receipt.send_receipt.sequence_id = number
        self._receipt.send_receipt.message_id.entryId = number
        self._message.message.message_id.entryId = number
        self._ack.ack.message_id[0].entryId = number
        body = sized(self._metadata.SerializeToString()) + payload
        body = CHECKSUM_MAGIC + struct.pack(">I", crc32c(body)) + body
        return (
            sized(sized(self._send.SerializeToString()) + body),
            sized(sized(self._receipt.SerializeToString())),
            sized(sized(self._message.SerializeToString()) + body),
            sized(sized(self._ack.SerializeToString())),
        )


def scene(frames: Frames, payloads: list[bytes], burst: int, messages: int = 1) -> Scenario:
    """Return rounds of `burst` entries: sent, confirmed, delivered and acknowledged, with permits for the next."""
    return Scenario(
        prelude(burst * messages), rounds(frames, payloads, burst, messages), Content(frames=4 * burst + 1, messages=2 * burst * messages)
    )


def rounds(frames: Frames, payloads: list[bytes], burst: int, messages: int) -> Iterator[list[Write]]:
    """Yield rounds without end; an entry has `messages` messages."""
    flow = command_frame("FLOW", consumer_id=2, messagePermits=burst * messages)
    number = 0
    while True:
        entries = [frames.of(number + i, payloads[(number + i) % len(payloads)]) for i in range(burst)]
        number += burst
        sends, receipts, deliveries, acks = (b"".join(column) for column in zip(*entries, strict=True))
        yield [(CLIENT, sends), (SERVER, receipts), (SERVER, deliveries), (CLIENT, acks + flow)]


def batched(source: random.Random, number: int) -> Single:
    """Return a message of a batch; all have the same size."""
    properties = [{"key": "number", "value": f"{number:02}"}]
    return Single(source.randbytes(8) * 8, {"partition_key": f"key-{source.randrange(1000):03}", "properties": properties})


def scenario(name: str, seed: int) -> Scenario:
    """Return the scenario tiny, sync, batch or big."""
    source = random.Random(seed)  # noqa: S311 - no secret
    if name == "tiny":
        return scene(Frames(), [source.randbytes(100) for _ in range(1000)], 500)
    if name == "sync":
        return scene(Frames(), [source.randbytes(100) for _ in range(1000)], 1)
    if name == "batch":
        plain = [batch([batched(source, i) for i in range(100)]) for _ in range(64)]
        return scene(Frames(100, "LZ4", len(plain[0])), [compress("LZ4", data) for data in plain], 50, 100)
    return scene(Frames(), [source.randbytes(64 << 10) for _ in range(16)], 8)


def steady(out: Path, name: str, megabytes: float, seed: int) -> Content:
    """Write the scenario tiny, sync, batch or big until the file has this size."""
    with out.open("wb") as file:
        capture = Capture(file)
        connections = [Connection(capture, number) for number in range(3 if name == "sync" else 1)]
        scenarios = [scenario(name, seed) for _ in connections]
        frames = messages = 0
        for connection, (first, _, _) in zip(connections, scenarios, strict=True):
            connection.open()
            for write in first:
                connection.write(*write)
            frames += len(first)
        while capture.size < megabytes * 1e6:
            for connection, (_, source, content) in zip(connections, scenarios, strict=True):
                for write in next(source):
                    connection.write(*write)
                frames += content.frames
                messages += content.messages
        for connection in connections:
            connection.close()
        capture.flush()
    return Content(frames, messages)


def short_connections(out: Path, count: int, seed: int) -> Content:
    """Write `count` connections of two messages each; a hundred are open at a time."""
    first, source, content = scenario("sync", seed)
    script = [*first, *next(source), *next(source)]
    with out.open("wb") as file:
        capture = Capture(file)
        for start in range(0, count, 100):
            group = [Connection(capture, number) for number in range(start, min(start + 100, count))]
            for connection in group:
                connection.open()
            for write in script:
                for connection in group:
                    connection.write(*write)
            for connection in group:
                connection.close()
        capture.flush()
    return Content(len(first) + 2 * content.frames, 2 * content.messages).times(count)


def records(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield time (in the file's smaller unit) and packet of each record of a little-endian pcap file.

    Raises:
        ValueError: another kind of file.
    """
    with path.open("rb", buffering=WRITE_BYTES) as file:
        magic = file.read(24)[:4]
        if magic not in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1"):
            message = f"{path}: not a little-endian pcap file"
            raise ValueError(message)
        unit = 1_000_000 if magic[0] == 0xD4 else 1_000_000_000
        while len(header := file.read(16)) == 16:
            seconds, fraction, length, _ = RECORD.unpack(header)
            yield seconds * unit + fraction, file.read(length)


def write_records(source: Path, out: Path, packets: Iterable[tuple[int, bytes]]) -> None:
    """Write packets after the file header of `source`."""
    with source.open("rb") as file:
        header = file.read(24)
    unit = 1_000_000 if header[0] == 0xD4 else 1_000_000_000
    with out.open("wb", buffering=WRITE_BYTES) as file:
        file.write(header)
        for time, packet in packets:
            seconds, fraction = divmod(time, unit)
            file.write(RECORD.pack(seconds, fraction, len(packet), len(packet)) + packet)


def copies(path: Path, times: int, port: int) -> Iterator[tuple[int, bytes]]:
    """Yield the IPv4 packets of an Ethernet capture `times` times in sequence, each time with other client addresses.

    The lower half of an address decreases by what the upper half gains, so that checksums stay valid.
    """
    first = last = None
    for time, _ in records(path):
        first, last = time if first is None else first, time
    length = 0 if first is None or last is None else last - first + 1
    server = port.to_bytes(2, "big")
    for number in range(times):
        for time, packet in records(path):
            if packet[12:15] == b"\x08\x00\x45":
                at = 30 if packet[34:36] == server else 26
                high, low = struct.unpack_from(">HH", packet, at)
                address = struct.pack(">HH", (high + number) % 0xFFFF, (low - number) % 0xFFFF)
                yield time + number * length, packet[:at] + address + packet[at + 4 :]


def disordered(path: Path, share: float, seed: int) -> Iterator[tuple[int, bytes]]:
    """Yield the packets of a capture with ordered times, a `share` of them two packets late and a `share` twice."""
    source = random.Random(seed)  # noqa: S311 - no secret
    packets = records(path)
    for time, packet in packets:
        draw = source.random()
        if draw < share:
            later = list(itertools.islice(packets, 2))
            times = [time, *(moment for moment, _ in later)]
            yield from zip(times, [*(other for _, other in reversed(later)), packet], strict=True)
        else:
            yield time, packet
            if draw < 2 * share:
                yield time, packet


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    commands = parser.add_subparsers(dest="name", required=True)
    for name in ("tiny", "sync", "batch", "big"):
        command = commands.add_parser(name)
        command.add_argument("out", type=Path)
        command.add_argument("--megabytes", type=float, default=100)
    command = commands.add_parser("connections")
    command.add_argument("out", type=Path)
    command.add_argument("--count", type=int, default=5000)
    command = commands.add_parser("replicate")
    command.add_argument("source", type=Path)
    command.add_argument("out", type=Path)
    command.add_argument("--times", type=int, default=10)
    command.add_argument("--port", type=int, default=6650, help="of the server")
    command = commands.add_parser("disorder")
    command.add_argument("source", type=Path)
    command.add_argument("out", type=Path)
    command.add_argument("--share", type=float, default=0.005)
    options = parser.parse_args(arguments)
    content: Content | None = None
    if options.name == "connections":
        content = short_connections(options.out, options.count, options.seed)
    elif options.name == "replicate":
        write_records(options.source, options.out, copies(options.source, options.times, options.port))
    elif options.name == "disorder":
        write_records(options.source, options.out, disordered(options.source, options.share, options.seed))
    else:
        content = steady(options.out, options.name, options.megabytes, options.seed)
    contents = f", {content.frames:,} frames, {content.messages:,} messages produced or delivered" if content else ""
    print(f"{options.out}: {options.out.stat().st_size:,} bytes{contents}")


if __name__ == "__main__":
    main()
