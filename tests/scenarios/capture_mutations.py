"""Small captures made by mutating real ones at every level, from the capture file to the values in a message."""

from __future__ import annotations

import gzip
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from random import Random
from typing import NamedTuple

import cramjam
import zstandard

from pulsarscope.capture import BlockReader
from pulsarscope.dissect import Dissector
from pulsarscope.engine.local import run
from pulsarscope.engine.options import Options
from pulsarscope.model.records import FrameRow, RawFrame
from pulsarscope.protocols import make_dissectors
from pulsarscope.testing import ScriptedConnection
from tests.scenarios.capturefile import ETHERNET, Packet, pcap, pcapng
from tests.scenarios.wire_mutations import NUMBERS, PayloadFrame, damaged, joined_frame, mutated_message, split_frame

PACKETS_MAX = 40
"""Packets of one input: many small inputs find more than few large ones."""

FRAMES_MAX = 24
FRAME_MAX_BYTES = 8192

PULSAR_PORT = 6650

COMPRESSIONS: tuple[Callable[[bytes], bytes], ...] = (
    lambda data: bytes(cramjam.lz4.compress_block(data, store_size=False)),
    zlib.compress,
    lambda data: zstandard.ZstdCompressor().compress(data),
    lambda data: bytes(cramjam.snappy.compress_raw(data)),
)
"""Compressors by number of CompressionType, minus one."""


class Captured(NamedTuple):
    """The packets of one capture."""

    name: str
    link_type: int
    packets: list[Packet]


class Conversation(NamedTuple):
    """The frames of one connection."""

    dissector: str
    port: int
    frames: list[tuple[int, bytes]]
    """(0 for the client, 1 for the server; the frame)."""


class Input(NamedTuple):
    """A capture to try."""

    level: str
    data: bytes
    good_checksums_max: int | None = None
    """Number of entries with an unchanged checksum; None: unknown."""


class Corpus:
    """Captures in a folder, as packets and as frames, and inputs made of them."""

    def __init__(self, folder: Path, options: Options) -> None:
        self.captures: list[Captured] = []
        self.conversations: dict[str, list[Conversation]] = defaultdict(list)
        for path in sorted(path for path in folder.rglob("*.pcap*") if path.is_file()):
            self._read(path, options)
        self.tls = [capture for capture in self.captures if "tls" in capture.name]

    def _read(self, path: Path, options: Options) -> None:
        records = [record for block in BlockReader(str(path), 0, records=True) for record in block.records]
        packets = [Packet(record.time, record.data, record.wire_bytes) for record in records]
        self.captures.append(Captured(path.name, records[0].interface.link_type if records else ETHERNET, packets))
        frames: dict[str, Conversation] = {}
        decode = run([str(path)], options)
        for batch in decode:
            for row, raw in zip(batch.rows, batch.rows[1:], strict=False):
                if isinstance(row, FrameRow) and isinstance(raw, RawFrame) and row.status == "ok" and len(raw.data) <= FRAME_MAX_BYTES:
                    server = decode.endpoints[row.connection][1]
                    new = Conversation(decode.dissector_of[row.connection], int(server.rpartition(":")[2]), [])
                    frames.setdefault(row.connection, new).frames.append((int(row.direction == "server"), raw.data))
        for conversation in frames.values():
            self.conversations[conversation.dissector].append(conversation)

    def input(self, seed: int, number: int) -> Input:
        """Return an input; equal numbers give equal inputs."""
        random = Random(f"{seed} {number}")  # noqa: S311 - repeatable
        level = random.choice(tuple(LEVELS))
        return LEVELS[level](self, random, level)

    def window(self, random: Random, captures: list[Captured] | None = None) -> Captured:
        """Return a few consecutive packets of a capture, often the first ones."""
        capture = random.choice(captures or self.captures)
        size = random.randint(1, PACKETS_MAX)
        start = 0 if random.random() < 0.5 else random.randrange(len(capture.packets))
        return capture._replace(packets=capture.packets[start : start + size])

    def frames(self, random: Random, dissector: str) -> Conversation:
        """Return the first frames of a connection and some later ones."""
        conversation = random.choice(self.conversations[dissector])
        frames = conversation.frames
        first = frames[: random.randint(1, 8)]
        start = random.randrange(len(frames))
        return conversation._replace(frames=first + frames[start : start + random.randint(1, FRAMES_MAX - len(first))])


def _container(corpus: Corpus, random: Random, level: str) -> Input:
    capture = corpus.window(random)
    if capture.link_type == ETHERNET and random.random() < 0.4:
        data = pcapng((random.choice(("", "eth0", "lo")), packet) for packet in capture.packets)
    else:
        nanoseconds, byte_order = random.random() < 0.5, random.choice("<>")
        data = pcap(capture.packets, link_type=capture.link_type, nanoseconds=nanoseconds, byte_order=byte_order)
    untouched = random.choice((0, 0, 24))
    data = data[:untouched] + damaged(random, data[untouched:])
    if random.random() < 0.2:
        data = random.choice((lambda plain: gzip.compress(plain, 1), zstandard.ZstdCompressor(1).compress))(data)
        if random.random() < 0.7:
            data = damaged(random, data)
    return Input(level, data)


def _headers(corpus: Corpus, random: Random, level: str) -> Input:
    capture = corpus.window(random)
    packets = list(capture.packets)
    for _ in range(random.randint(1, 6)):
        at = random.randrange(len(packets))
        time, data, wire_bytes = packets[at]
        head = random.choice((20, 40, 60, 120))
        packets[at] = Packet(time, damaged(random, data[:head], 1) + data[head:], wire_bytes)
    link_type = capture.link_type if random.random() < 0.9 else random.choice((0, 1, 12, 101, 113, 228, 229, 276, 147))
    return Input(level, pcap(packets, link_type=link_type))


def _segments(corpus: Corpus, random: Random, level: str) -> Input:
    """Lose, swap, repeat, cut and delay packets; reset connections and reuse ports."""
    capture = corpus.window(random)
    packets = list(capture.packets)
    for _ in range(random.randint(1, 8)):
        if not packets:
            break
        at, other = random.randrange(len(packets)), random.randrange(len(packets))
        time, data, _ = packets[at]
        match random.randint(0, 7):
            case 0:
                del packets[at]
            case 1:
                packets[at], packets[other] = packets[other], packets[at]
            case 2:
                packets.insert(other, packets[at])
            case 3:
                packets[at] = Packet(time, data[: random.randint(0, len(data))], len(data))
            case 4:
                packets = packets[at:] + packets[:at]
            case 5:
                packets[at] = Packet(max(0, time + random.choice((-1, 1)) * random.choice((1, 10**6, 10**9, 10**13))), data)
            case 6 if len(data) > 54:  # TCP flags of a plain packet
                packets.insert(other, Packet(time, data[:47] + bytes([random.choice((1, 2, 4, 17, 18, 20, 63))]) + data[48:]))
            case _ if len(data) > 54:  # its sequence number
                moved = int.from_bytes(data[38:42], "big") + random.choice((-1460, -1, 1, 1460, 1 << 16, 1 << 24, 1 << 31))
                packets[at] = Packet(time, data[:38] + (moved % (1 << 32)).to_bytes(4, "big") + data[42:])
            case _:
                pass
    return Input(level, pcap(packets, link_type=capture.link_type))


def _tls(corpus: Corpus, random: Random, level: str) -> Input:
    capture = corpus.window(random, corpus.tls)
    packets = list(capture.packets)
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(packets))
        time, data, wire_bytes = packets[at]
        packets[at] = Packet(time, data[:66] + damaged(random, data[66:], 1), wire_bytes)
    return Input(level, pcap(packets, link_type=capture.link_type))


def _frames(corpus: Corpus, random: Random, level: str) -> Input:
    dissector = random.choice(tuple(corpus.conversations))
    port, frames = _port(random, corpus.frames(random, dissector))
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(frames))
        side, frame = frames[at]
        match random.randint(0, 4):
            case 0:
                frames[at] = side, damaged(random, frame)
            case 1:
                frames[at] = side, random.choice(NUMBERS).to_bytes(8, "big")[4:] + frame[4:]
            case 2:
                frames.insert(random.randrange(len(frames)), frames.pop(at))
            case 3:
                frames[at] = 1 - side, frame
            case _:
                frames[at:at] = [frames[at]] * random.choice((1, 2, 30))
    return Input(level, conversation_pcap(random, port, frames))


def _kafka(corpus: Corpus, random: Random, level: str) -> Input:
    others = [name for name in corpus.conversations if name != "pulsar"]
    port, frames = _port(random, corpus.frames(random, random.choice(others)))
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(frames))
        side, frame = frames[at]
        body = damaged(random, frame[4:])
        frames[at] = side, len(body).to_bytes(4, "big") + body
    return Input(level, conversation_pcap(random, port, frames))


def _parts(change: Callable[[Random, PayloadFrame], PayloadFrame], kinds: Callable[[PayloadFrame], bool]) -> Level:
    """Return a level that changes the parts of some frames and corrects lengths and checksums."""

    def level(corpus: Corpus, random: Random, name: str) -> Input:
        port, frames = _port(random, corpus.frames(random, "pulsar"))
        fitting = [(at, parts) for at, (_, frame) in enumerate(frames) if (parts := split_frame(frame)) and kinds(parts)]
        for at, parts in random.sample(fitting, min(len(fitting), random.randint(1, 4))):
            frames[at] = frames[at][0], joined_frame(change(random, parts))
        return Input(name, conversation_pcap(random, port, frames))

    return level


def _change_command(random: Random, parts: PayloadFrame) -> PayloadFrame:
    return parts._replace(command=mutated_message(random, parts.command))


def _change_metadata(random: Random, parts: PayloadFrame) -> PayloadFrame:
    if parts.broker_entry is not None and random.random() < 0.3:
        return parts._replace(broker_entry=mutated_message(random, parts.broker_entry))
    return parts._replace(metadata=mutated_message(random, parts.metadata or b""))


def _change_payload(random: Random, parts: PayloadFrame) -> PayloadFrame:
    payload = damaged(random, parts.payload)
    if random.random() < 0.4:
        number = random.randrange(len(COMPRESSIONS))
        payload = COMPRESSIONS[number](random.choice((payload, parts.payload, payload * 50, bytes(200_000))))
        # compression and uncompressed_size come last, and the last value of a field counts
        size = random.choice((len(parts.payload), 0, 1, 200_000, 0xFFFF_FFFF))
        metadata = (parts.metadata or b"") + b"\x40" + bytes([number + 1]) + b"\x48" + _varint32(size)
        parts = parts._replace(metadata=metadata)
        payload = damaged(random, payload) if random.random() < 0.6 else payload
    return parts._replace(payload=payload)


def _checksums(corpus: Corpus, random: Random, level: str) -> Input:
    """Change the bytes of entries, but not their checksums and lengths."""
    port, frames = _port(random, corpus.frames(random, "pulsar"))
    good = 0
    for at, (side, frame) in enumerate(frames):
        parts = split_frame(frame)
        if parts is None or parts.checksum is None:
            continue
        if not parts.payload or random.random() < 0.4:
            good += 1
            continue
        payload = bytearray(parts.payload)
        payload[random.randrange(len(payload))] ^= random.randint(1, 255)
        frames[at] = side, joined_frame(parts._replace(payload=bytes(payload)), checksum=False)
    return Input(level, conversation_pcap(random, port, frames, whole=True), good)


Level = Callable[[Corpus, Random, str], Input]

LEVELS: dict[str, Level] = {
    "container": _container,
    "headers": _headers,
    "segments": _segments,
    "tls": _tls,
    "frames": _frames,
    "commands": _parts(_change_command, lambda _: True),
    "metadata": _parts(_change_metadata, lambda parts: parts.metadata is not None),
    "payload": _parts(_change_payload, lambda parts: parts.metadata is not None),
    "schemas": _parts(_change_command, lambda parts: b"{" in parts.command),
    "checksums": _checksums,
    "kafka": _kafka,
}
"""Makers of inputs by what they change. Captures of tunnels and fragments are among those of `headers` and `segments`."""


def conversation_pcap(random: Random, port: int, frames: Iterable[tuple[int, bytes]], *, whole: bool = False) -> bytes:
    """Return a capture of a conversation; if not `whole`, some lose bytes, their handshake or their end."""
    scripted = ScriptedConnection(port)
    for side, frame in frames:
        if not whole and random.random() < 0.02:
            scripted.lose(side, random.choice((1, 100, 1 << 20)))
        (scripted.server if side else scripted.client)(frame)
    if random.random() < 0.7:
        scripted.close()
    packets = scripted.packets if whole or random.random() < 0.8 else scripted.packets[3:]
    return pcap(Packet(time, data) for time, data in packets)


def _port(random: Random, conversation: Conversation) -> tuple[int, list[tuple[int, bytes]]]:
    port = conversation.port if random.random() < 0.8 else random.choice((PULSAR_PORT, 9092, 6651, 80))
    return port, list(conversation.frames)


def _varint32(value: int) -> bytes:
    return bytes((value >> shift & 127) | 128 for shift in (0, 7, 14, 21)) + bytes([value >> 28])


@cache
def dissectors(*, show_secrets: bool = False) -> tuple[Dissector, ...]:
    """Return the dissectors, always the same objects: making them takes longer than an input."""
    return make_dissectors(show_secrets=show_secrets)


def corpus_options() -> Options:
    """Return the options with which a corpus is read."""
    return Options(frozenset({"frame"}), raw=True, dissectors=dissectors)
