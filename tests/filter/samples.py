"""Fields and rows for the tests of filters."""

from __future__ import annotations

from typing import Any

from pulsarscope.cli.commands.fields import catalogue
from pulsarscope.filter import Filter
from pulsarscope.model.records import ROWS, Checksum, Row
from tests.scenarios import rows

CATALOGUE = catalogue()

ENDPOINTS = {"0:1": ("10.0.0.1:50886", "10.0.0.2:6650"), "0:2": ("[2001:db8::7]:40000", "[2001:db8::1]:6651")}

SEND = rows.send(
    fields={"producer_id": 3, "sequence_id": 7, "highest_sequence_id": -1, "is_chunk": False},
    metadata={
        "producer_name": "orders-1",
        "sequence_id": 7,
        "publish_time": 1_777_629_600_123,
        "properties": [{"key": "color", "value": "red"}, {"key": "n", "value": "12"}, {"key": "color", "value": "blue"}],
        "replicate_to": ["east", "west"],
        "schema_version": b"\x00\x00\x00\x01",
        "compression": "LZ4",
        "unknown": {"99": [5]},
    },
    producer_name="orders-1",
)
RECEIPT = rows.receipt(latency_ns=60_000_000)
ACK = rows.frame(
    9,
    "ACK",
    fields={
        "consumer_id": 0,
        "ack_type": "Individual",
        "message_id": [{"ledgerId": 26, "entryId": 14, "ack_set": [3, 5]}, {"ledgerId": 27, "entryId": 1}],
    },
    subscription="billing",
    connection="0:2",
)
CONNECTED = rows.frame(
    5, "CONNECTED", direction="server", fields={"server_version": "Pulsar Server4.1.0", "protocol_version": 21}, connection="0:2"
)
BAD = rows.send(
    12,
    checksum=Checksum("bad", "11111111", "e3069283"),
    findings=["checksum-mismatch", "trailing-bytes"],
    topic="persistent://acme/eu/orders",
    connection="0:9",
)
SKIPPED = rows.frame(20, None, fields=None, status="skipped", size=5000, findings=["bytes-skipped"])
UNKNOWN = rows.frame(21, "UNKNOWN_99", fields={"unknown": {"3": [b"ab", b"cd"]}})
MESSAGE = rows.message(
    payload="AQIDBGhlbGxv",
    ordering_key=b"\x0a\x0b\x0c",
    encrypted=True,
    value={"amount": 12.5, "tags": ["x", "y"], "who": {"name": "Ann"}, "ok": True},
    event_time=rows.START - 5_000_000_000,
)
PLAIN = rows.message(packet=30, key=None, properties=None, encrypted=False, payload_size=5, compression="NONE", direction="produce")
EXCHANGE = rows.exchange()
FAILED = rows.exchange(packet=40, status="error", error="TopicNotFound", error_message="no such topic", response="ERROR", latency_ns=None)
CONNECTION = rows.connection(server_version="Pulsar Server4.1.0", protocol_version=21)
FINDING = rows.finding(evidence={"frames": ["0:4.1"], "count": 3})
NOTE = rows.finding(packet=50, code="stream-gap", severity="note", layer="tcp")

ALL: dict[str, Row] = {
    "send": SEND,
    "receipt": RECEIPT,
    "ack": ACK,
    "connected": CONNECTED,
    "bad": BAD,
    "skipped": SKIPPED,
    "unknown": UNKNOWN,
    "message": MESSAGE,
    "plain": PLAIN,
    "exchange": EXCHANGE,
    "failed": FAILED,
    "connection": CONNECTION,
    "finding": FINDING,
    "note": NOTE,
}
"""One row of each sort, by name."""

KINDS = tuple(ROWS)


def make(text: str, *kinds: str, **values: Any) -> Filter:
    """The filter for rows of some kinds, by default of all."""
    return Filter(text, kinds or KINDS, CATALOGUE, **values)


def chosen(text: str, *kinds: str) -> str:
    """The names of the rows above, of the given kinds, that pass."""
    made = make(text, *kinds, payload="base64")
    passed = made.select([row for row in ALL.values() if row.kind in (kinds or KINDS)], ENDPOINTS)
    return " ".join(name for name, row in ALL.items() if any(row is item for item in passed))
