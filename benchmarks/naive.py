"""Parts that the peers share: streams, frames and rows, as one would write them in an afternoon. Writes one JSON line per frame.

A peer reads packets with its own library and hands the TCP segments to `write_frames`. The result is correct on data in and out of order,
retransmitted or overlapping; gaps, captures that start midstream and sessions are not supported. The generated protobuf module is that of
the tests; it is loaded on its own, so that a peer does not pay for importing their package.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from socket import AF_INET, AF_INET6, inet_ntop
from typing import Any, NamedTuple

from crc32c import crc32c
from google.protobuf.message import DecodeError, Message

GENERATED = Path(__file__).resolve().parent.parent / "tests" / "scenarios" / "pulsar_pb2.py"
LOADER = SourceFileLoader("pulsar_pb2", str(GENERATED))
SPEC = spec_from_loader("pulsar_pb2", LOADER)
assert SPEC is not None  # noqa: S101 - for the type checker: a loader was given
pb: Any = module_from_spec(SPEC)
LOADER.exec_module(pb)

Key = tuple[bytes, int, bytes, int]
"""Source address and port, destination address and port."""

COMMAND_NAMES = {value.number: value.name for value in pb.BaseCommand.Type.DESCRIPTOR.values}
BODY_NAMES = {field.number: field.name for field in pb.BaseCommand.DESCRIPTOR.fields}


class Segment(NamedTuple):
    """A TCP segment as read by a peer; time in seconds since the epoch."""

    packet: int
    time: float
    key: Key
    sequence: int
    syn: bool
    payload: bytes


def fields_of(message: Message) -> dict[str, Any]:
    """Return the present fields, nested messages as dicts."""
    out: dict[str, Any] = {}
    for field, value in message.ListFields():
        if field.is_repeated:
            out[field.name] = [fields_of(item) if isinstance(item, Message) else plain(item) for item in value]
        else:
            out[field.name] = fields_of(value) if isinstance(value, Message) else plain(value)
    return out


def plain(value: object) -> object:
    """Return bytes as hex, other values unchanged."""
    return value.hex() if isinstance(value, bytes) else value


class Stream:
    """One direction of a connection: puts segments in order and cuts frames."""

    def __init__(self, key: Key, first: int) -> None:
        family = AF_INET if len(key[0]) == 4 else AF_INET6
        self.source = f"{inet_ntop(family, key[0])}:{key[1]}"
        self.destination = f"{inet_ntop(family, key[2])}:{key[3]}"
        self.next = first
        """Sequence number of the next byte."""
        self.waiting: dict[int, bytes] = {}
        self.buffer = bytearray()

    def add(self, sequence: int, payload: bytes) -> None:
        """Take a segment, and append the bytes that are in order to the buffer."""
        ahead = (sequence - self.next + 0x8000_0000 & 0xFFFF_FFFF) - 0x8000_0000
        if ahead > 0:
            if len(payload) > len(self.waiting.get(sequence, b"")):
                self.waiting[sequence] = payload
            return
        self._take(payload, -ahead)
        while self.waiting:
            ready = [at for at in self.waiting if (at - self.next + 0x8000_0000 & 0xFFFF_FFFF) <= 0x8000_0000]
            if not ready:
                return
            for at in ready:
                self._take(self.waiting.pop(at), self.next - at & 0xFFFF_FFFF)

    def _take(self, payload: bytes, known: int) -> None:
        if known < len(payload):
            fresh = payload[known:]
            self.buffer += fresh
            self.next = self.next + len(fresh) & 0xFFFF_FFFF

    def frames(self) -> Iterator[bytes]:
        """Remove and yield the complete frames in the buffer, without their length fields."""
        position = 0
        while len(self.buffer) - position >= 4:
            (size,) = struct.unpack_from(">I", self.buffer, position)
            if len(self.buffer) - position - 4 < size:
                break
            yield bytes(self.buffer[position + 4 : position + 4 + size])
            position += 4 + size
        del self.buffer[:position]


def decode(frame: bytes) -> dict[str, Any]:
    """Decode a frame into a dict."""
    (command_size,) = struct.unpack_from(">I", frame)
    end = 4 + command_size
    command = pb.BaseCommand.FromString(frame[4:end])
    row: dict[str, Any] = {"size": len(frame) + 4, "command": COMMAND_NAMES[command.type]}
    row["fields"] = fields_of(getattr(command, BODY_NAMES[command.type]))
    if end < len(frame):
        position = end
        if frame[position : position + 2] == b"\x0e\x02":
            (size,) = struct.unpack_from(">I", frame, position + 2)
            row["broker_entry_metadata"] = fields_of(pb.BrokerEntryMetadata.FromString(frame[position + 6 : position + 6 + size]))
            position += 6 + size
        if frame[position : position + 2] == b"\x0e\x01":
            (stored,) = struct.unpack_from(">I", frame, position + 2)
            position += 6
            row["checksum"] = "good" if crc32c(frame[position:]) == stored else "bad"
        (size,) = struct.unpack_from(">I", frame, position)
        position += 4
        metadata = pb.MessageMetadata.FromString(frame[position : position + size])
        row["metadata"] = fields_of(metadata)
        row["payload_size"] = len(frame) - position - size
    return row


def write_frames(segments: Iterable[Segment]) -> None:
    """Write a line for each frame to stdout."""
    streams: dict[Key, Stream] = {}
    write = sys.stdout.write
    for number, time, key, sequence, syn, payload in segments:
        if syn:
            streams[key] = Stream(key, sequence + 1 & 0xFFFF_FFFF)
        if not payload:
            continue
        stream = streams.get(key)
        if stream is None:
            stream = streams[key] = Stream(key, sequence)
        stream.add(sequence, payload)
        for frame in stream.frames():
            where = {"packet": number, "time": time, "source": stream.source, "destination": stream.destination}
            try:
                row = where | decode(frame)
            except (DecodeError, struct.error, KeyError) as problem:
                row = where | {"error": str(problem)}
            write(json.dumps(row) + "\n")
