"""Rows, a run and a sink made by hand, for the tests of all outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from pulsarscope.model.records import Checksum, ConnectionRow, ExchangeRow, FindingRow, FrameRow, MessageRow
from pulsarscope.output.export.sink import Sink
from pulsarscope.output.registry import OutputOptions, output
from pulsarscope.protocols.pulsar.dissector import PulsarDissector

START = 1_777_629_600_123_456_789
"""2026-05-01T10:00:00.123456789Z."""

TOPIC = "persistent://public/default/orders"


def frame(packet: int = 4, command: str | None = "SEND", **values: Any) -> FrameRow:
    """A frame of the client on the first connection, unless the arguments differ."""
    given: dict[str, Any] = {
        "file": 0,
        "packet": packet,
        "sub": 1,
        "time": START + packet * 1_000_000,
        "connection": "0:1",
        "direction": "client",
        "offset": 0,
        "size": 100,
        "command": command,
        "fields": {},
        "status": "ok",
    }
    return FrameRow(**given | values)


def send(packet: int = 4, **values: Any) -> FrameRow:
    """A SEND with its metadata."""
    given: dict[str, Any] = {
        "fields": {"producer_id": 0, "sequence_id": 7},
        "metadata": {"producer_name": "standalone-0-1", "sequence_id": 7, "publish_time": 1_777_629_600_123},
        "checksum": Checksum("good", "e3069283", "e3069283"),
        "payload_size": 1234,
        "num_messages": 1,
        "topic": TOPIC,
    }
    return frame(packet, "SEND", **given | values)


def receipt(packet: int = 6, **values: Any) -> FrameRow:
    """The answer to `send()`."""
    given: dict[str, Any] = {
        "fields": {"producer_id": 0, "sequence_id": 7, "message_id": {"ledgerId": 26, "entryId": 14}},
        "direction": "server",
        "topic": TOPIC,
        "request": "0:4.1",
        "latency_ns": 1_320_000,
    }
    return frame(packet, "SEND_RECEIPT", **given | values)


def message(**values: Any) -> MessageRow:
    """A delivered message."""
    given: dict[str, Any] = {
        "file": 0,
        "packet": 9,
        "sub": 1,
        "time": START,
        "connection": "0:1",
        "direction": "deliver",
        "topic": TOPIC,
        "subscription": "billing",
        "ledger": 26,
        "entry": 14,
        "batch_index": 3,
        "key": "k1",
        "sequence_id": 7,
        "properties": {"a": "1"},
        "publish_time": START - 1,
        "compression": "LZ4",
        "payload_size": 1234,
        "redelivery_count": 2,
        "status": "ok",
    }
    return MessageRow(**given | values)


def connection(**values: Any) -> ConnectionRow:
    """The row of the first connection."""
    given: dict[str, Any] = {
        "file": 0,
        "packet": 1,
        "time": START,
        "connection": "0:1",
        "client": "10.0.0.1:50886",
        "server": "10.0.0.2:6650",
        "start": START,
        "end": START + 5_000_000_000,
        "packets": 20,
        "client_bytes": 3000,
        "client_frames": 9,
        "client_missing": 0,
        "server_bytes": 900,
        "server_frames": 8,
        "server_missing": 12,
        "retransmitted": 0,
        "out_of_order": 0,
        "opened": "syn",
        "closed": "fin",
        "closed_by": "client",
        "dissector": "pulsar",
    }
    return ConnectionRow(**given | values)


def exchange(**values: Any) -> ExchangeRow:
    """A lookup and its answer."""
    given: dict[str, Any] = {
        "file": 0,
        "packet": 4,
        "sub": 1,
        "time": START,
        "connection": "0:1",
        "request": "LOOKUP",
        "response": "LOOKUP_RESPONSE",
        "key": "5",
        "topic": TOPIC,
        "response_file": 0,
        "response_packet": 6,
        "response_sub": 1,
        "latency_ns": 850_000,
        "status": "ok",
    }
    return ExchangeRow(**given | values)


def finding(**values: Any) -> FindingRow:
    """A finding about the frame of `send()`."""
    given: dict[str, Any] = {
        "file": 0,
        "packet": 4,
        "sub": 1,
        "time": START,
        "connection": "0:1",
        "code": "checksum-mismatch",
        "severity": "error",
        "layer": "frame",
        "text": "CRC32-C is 11111111, computed e3069283.",
        "hint": "Look at the sender's network card.",
    }
    return FindingRow(**given | values)


class Run:
    """The part of a run that outputs use."""

    def __init__(self, severities: Mapping[str, int] | None = None, endpoints: Mapping[str, tuple[str, str]] | None = None) -> None:
        self.start: int | None = None
        self.packets = self.connections = 0
        self.severities = Counter(severities or {})
        self.endpoints = {"0:1": ("10.0.0.1:50886", "10.0.0.2:6650")} if endpoints is None else dict(endpoints)
        self.dissectors = {"pulsar": PulsarDissector()}
        self.evaluates_rules = self.complete = True
        self.damaged = False
        self.dissector_of = dict.fromkeys(self.endpoints, "pulsar")


class Memory(Sink):
    """A sink that keeps its data."""

    def __init__(self) -> None:
        super().__init__(None, "memory")
        self.data = b""

    def write(self, data: bytes) -> None:
        self.data += data


def options(*kinds: str, **values: Any) -> OutputOptions:
    """Options for these kinds, by default for frames."""
    return OutputOptions(kinds=kinds or ("frame",), run=values.pop("run", None) or Run(), **values)


def put_out(name: str, rows: list[Any], given: OutputOptions) -> bytes:
    """The output made from some rows."""
    sink = Memory()
    made = output(name)(sink, given)
    made.write(rows)
    made.close()
    return sink.data


def text_of(name: str, rows: list[Any], given: OutputOptions) -> str:
    """The output made from some rows, as text."""
    return put_out(name, rows, given).decode(given.encoding)
