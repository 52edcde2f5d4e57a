"""The output contract: names, order and types of all columns."""

from __future__ import annotations

import pickle
from typing import Any

import msgspec
import pytest

from pulsarscope.model.findings import Finding
from pulsarscope.model.records import (
    ALL,
    ROWS,
    Checksum,
    Column,
    ConnectionRow,
    ExchangeRow,
    FindingRow,
    FrameRow,
    MessageRow,
    RawFrame,
    Row,
    columns,
    finding_row,
    row_type,
)

WHERE = ["source", "file", "packet", "sub", "time", "connection", "dissector"]
SIDES = [f"{side}_{what}" for side in ("client", "server") for what in ("bytes", "frames", "missing", "skipped", "tail")]
CONTRACT: dict[str, list[str]] = {
    "frame": [
        "direction",
        "offset",
        "size",
        "command",
        "fields",
        "broker_entry_metadata",
        "checksum",
        "metadata",
        "payload_size",
        "num_messages",
        "topic",
        "producer_name",
        "subscription",
        "request",
        "latency_ns",
        "status",
        "findings",
        "extra",
        "topics",
    ],
    "message": [
        "direction",
        "topic",
        "subscription",
        "producer_id",
        "consumer_id",
        "producer_name",
        "sequence_id",
        "ledger",
        "entry",
        "partition",
        "batch_index",
        "batch_size",
        "key",
        "key_is_bytes",
        "ordering_key",
        "properties",
        "publish_time",
        "event_time",
        "deliver_at",
        "broker_time",
        "index",
        "redelivery_count",
        "acknowledged",
        "schema_version",
        "compression",
        "encrypted",
        "chunks",
        "txn",
        "trace_id",
        "span_id",
        "null_value",
        "marker",
        "payload_size",
        "payload_sha256",
        "payload",
        "value",
        "status",
        "extra",
    ],
    "exchange": [
        "request",
        "response",
        "key",
        "topic",
        "producer_name",
        "subscription",
        "response_file",
        "response_packet",
        "response_sub",
        "latency_ns",
        "status",
        "error",
        "error_message",
    ],
    "connection": [
        *["client", "server", "start", "end", "packets"],
        *SIDES,
        *[
            "retransmitted",
            "out_of_order",
            "opened",
            "closed",
            "closed_by",
            "tls",
            "client_version",
            "server_version",
            "protocol_version",
            "auth_method",
            "proxy_source",
            "client_dropped",
            "server_dropped",
            "process",
            "pod",
        ],
    ],
    "finding": ["code", "severity", "layer", "text", "evidence", "hint"],
    "journey": [
        "topic",
        "subscription",
        "producer_name",
        "sequence_id",
        "ledger",
        "entry",
        "partition",
        "batch_index",
        "batch_size",
        "trace_id",
        "span_id",
        "send_frame",
        "send_time",
        "receipt_frame",
        "receipt_time",
        "receipt_ns",
        "storage_frame",
        "storage_time",
        "storage_ns",
        "storage_writes",
        "storage_bookies",
        "writes",
        "delivery_frame",
        "delivery_time",
        "delivery_ns",
        "deliveries",
        "ack_frame",
        "ack_time",
        "ack_ns",
        "replicated_from",
        "origin",
        "replications",
    ],
}
TYPES = {"int64", "string", "bool", "time", "bytes", "json", "strings", "checksum"}


def test_there_are_six_kinds_and_journeys_come_only_when_they_are_named() -> None:
    assert list(ROWS) == ["frame", "message", "exchange", "connection", "finding", "journey"]
    assert [*ALL, "journey"] == list(ROWS)
    assert [row.kind for row in ROWS.values()] == list(ROWS)
    assert set(CONTRACT) == set(ROWS)


@pytest.mark.parametrize("kind", CONTRACT)
def test_the_columns_of_the_contract_are_there_in_their_order(kind: str) -> None:
    assert [column.name for column in columns(kind)] == WHERE + CONTRACT[kind]
    assert list(ROWS[kind].__struct_fields__) == WHERE + CONTRACT[kind]


@pytest.mark.parametrize("kind", CONTRACT)
def test_every_column_has_a_type_and_a_meaning(kind: str) -> None:
    for column in columns(kind):
        assert column.type in TYPES, column
        assert column.text.endswith("."), column


def test_the_types_are_those_of_the_contract() -> None:
    types = {(kind, column.name): column.type for kind in ROWS for column in columns(kind)}
    objects = {("frame", name) for name in ("fields", "metadata", "broker_entry_metadata")}
    objects |= {
        ("finding", "evidence"),
        ("message", "value"),
        ("message", "properties"),
        ("frame", "extra"),
        ("message", "extra"),
        ("frame", "topics"),
        ("journey", "deliveries"),
        ("journey", "writes"),
        ("journey", "replications"),
    }
    assert {place for place, type_ in types.items() if type_ == "json"} == objects
    times = {(kind, "time") for kind in ROWS} | {("connection", "start"), ("connection", "end")}
    times |= {("journey", f"{step}_time") for step in ("send", "receipt", "storage", "delivery", "ack")}
    times |= {("message", name) for name in ("publish_time", "event_time", "deliver_at", "broker_time")}
    assert {place for place, type_ in types.items() if type_ == "time"} == times
    assert {place for place, type_ in types.items() if type_ == "bytes"} == {("message", "ordering_key"), ("message", "schema_version")}
    assert [place for place, type_ in types.items() if type_ in ("strings", "checksum")] == [
        ("frame", "checksum"),
        ("frame", "findings"),
        ("journey", "storage_bookies"),
    ]
    assert [place for place, type_ in types.items() if type_ == "bool"] == [
        ("message", name) for name in ("key_is_bytes", "acknowledged", "encrypted", "null_value")
    ]


def test_an_unknown_kind_has_no_columns() -> None:
    with pytest.raises(KeyError):
        columns("packet")


def test_columns_are_made_once() -> None:
    assert columns("frame") is columns("frame")
    assert isinstance(columns("frame")[0], Column)


@pytest.mark.parametrize("row", [FrameRow, MessageRow, ExchangeRow, ConnectionRow, FindingRow])
def test_a_row_says_its_kind_and_leaves_out_what_is_absent(row: type[Row]) -> None:
    assert msgspec.json.encode(row()) == b'{"record":"%s"}' % row.kind.encode()
    assert msgspec.json.encode(row(packet=3)) == b'{"record":"%s","packet":3}' % row.kind.encode()


def test_zero_and_false_are_not_absent() -> None:
    row: Any = msgspec.json.decode(msgspec.json.encode(MessageRow(file=0, payload_size=0, encrypted=False, key="")))
    assert row == {"record": "message", "file": 0, "payload_size": 0, "encrypted": False, "key": ""}


def test_a_checksum_is_an_object() -> None:
    assert msgspec.json.encode(Checksum("absent")) == b'{"status":"absent"}'
    assert msgspec.json.encode(Checksum("bad", "00000001", "ffffffff")) == b'{"status":"bad","stored":"00000001","computed":"ffffffff"}'


def test_a_finding_becomes_a_row() -> None:
    finding = Finding("stream-gap", "error", "tcp", "5 bytes.", {"bytes": 5}, "Look.", 1, 2, 3, 4, "0:1")
    row = finding_row(finding, "a source", "x")
    assert row == FindingRow("a source", 1, 2, 3, 4, "0:1", "x", "stream-gap", "error", "tcp", "5 bytes.", {"bytes": 5}, "Look.")
    assert finding_row(Finding("a", "note", "tcp", "b"), None) == FindingRow(code="a", severity="note", layer="tcp", text="b")


def test_a_raw_frame_is_no_row() -> None:
    assert not issubclass(RawFrame, Row)


def test_rows_of_some_columns_have_these_in_their_order_and_are_encoded_like_whole_ones() -> None:
    some = row_type("message", ("payload_size", "topic", "properties"))
    assert some.__struct_fields__ == ("payload_size", "topic", "properties")
    assert some.kind == MessageRow.kind
    assert msgspec.json.encode(some(3, None, {"a": "b"})) == b'{"record":"message","payload_size":3,"properties":{"a":"b"}}'
    assert row_type("message", ("payload_size", "topic", "properties")) is some
    row = some(3, None, {"a": "b"})
    assert pickle.loads(pickle.dumps(row)) == row  # noqa: S301 - our own
