"""The forms in which users provide schemas, one file each."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2, type_pb2

from pulsarscope.dissect.contract.capabilities import PayloadContext
from pulsarscope.model.limits import SCHEMA_MAX_BYTES, VALUES_MAX_BYTES
from pulsarscope.protocols.pulsar.values.definition import Definition
from pulsarscope.protocols.pulsar.values.json_values import Budget, UndecodableError
from pulsarscope.protocols.pulsar.values.reader import reader_of
from pulsarscope.protocols.pulsar.values.schema_forms import schema_in

ITEM = {"type": "record", "name": "Item", "fields": [{"name": "id", "type": "int"}]}
ID_3 = b"\x06"
KEY_VALUE = {"key.schema.type": "STRING", "value.schema.type": "AVRO", "kv.encoding.type": "INLINE"}
PAIR = b"\0\0\0\x01k\0\0\0\x01" + ID_3


def files(*modules: Any) -> bytes:
    found = descriptor_pb2.FileDescriptorSet()
    for module in modules:
        module.DESCRIPTOR.CopyToProto(found.file.add())
    return found.SerializeToString()


def value(payload: bytes, data: bytes | str | dict[str, Any] | None, name: str = "file", message_name: str = "") -> Any:
    raw = json.dumps(data).encode() if isinstance(data, dict) else data.encode() if isinstance(data, str) else data
    given = schema_in("orders", name, raw, message_name)
    reader = reader_of(Definition(given.type, given.definition, given.properties))
    assert not isinstance(reader, UndecodableError)
    return reader(payload, PayloadContext("t", None, False, {}, None), Budget(VALUES_MAX_BYTES))


@pytest.mark.parametrize(
    ("data", "payload", "expected"),
    [
        (ITEM, ID_3, {"id": 3}),
        ('["null", "int"]', b"\x02\x06", 3),
        ('"string"', b"\x02x", "x"),
        ({"name": "t", "type": "AVRO", "schema": ITEM, "properties": {}}, ID_3, {"id": 3}),
        ({"type": "AVRO", "schema": json.dumps(ITEM), "properties": {"__alwaysAllowNull": "true"}}, ID_3, {"id": 3}),
        ({"version": 0, "type": "AVRO", "timestamp": 0, "data": json.dumps(ITEM), "properties": None}, ID_3, {"id": 3}),
        ({"version": 1, "schemaInfo": {"name": "t", "schema": ITEM, "type": "AVRO", "properties": {}}}, ID_3, {"id": 3}),
        ({"type": "JSON", "schema": ITEM}, b'{"id":3}', {"id": 3}),
        ({"type": "STRING", "schema": ""}, b"x", "x"),
        ({"type": "local_date", "schema": None}, bytes(8), "1970-01-01"),
        ({"type": "KEY_VALUE", "schema": {"key": "", "value": ITEM}, "properties": KEY_VALUE}, PAIR, {"key": "k", "value": {"id": 3}}),
        (
            {"type": "KEY_VALUE", "data": json.dumps({"key": "", "value": json.dumps(ITEM)}), "properties": KEY_VALUE},
            PAIR,
            {"key": "k", "value": {"id": 3}},
        ),
        (
            {
                "type": "PROTOBUF",
                "schema": ITEM,
                "properties": {"__PARSING_INFO__": [{"number": 1, "name": "id", "type": "INT32", "label": ""}]},
            },
            b"\x08\x03",
            {"id": 3},
        ),
    ],
    ids=str,
)
def test_each_form_is_read(data: Any, payload: bytes, expected: Any) -> None:
    assert value(payload, data) == expected


def test_descriptors_may_have_one_message_or_name_theirs() -> None:
    assert value(b"\x08\x05", files(timestamp_pb2)) == {"seconds": 5}
    parts = files(
        __import__("google.protobuf.any_pb2", fromlist=["x"]), __import__("google.protobuf.source_context_pb2", fromlist=["x"]), type_pb2
    )
    assert value(b"\x0a\x01x", parts, message_name="google.protobuf.Enum") == {"name": "x"}
    with pytest.raises(UndecodableError, match=r"name the message behind the file, as in item.desc#google.protobuf.Type$"):
        value(b"", parts, "item.desc")
    with pytest.raises(UndecodableError, match="do not have the message Nothing"):
        value(b"", parts, message_name="Nothing")


@pytest.mark.parametrize(
    ("name", "payload", "expected"),
    [
        ("int32", b"\0\0\0\x07", 7),
        ("LOCAL_DATE", bytes(8), "1970-01-01"),
        ("json", b"7", 7),
        ("bool", b"\1", True),
        ("bytes", b"\xff", "/w=="),
    ],
)
def test_a_type_without_a_definition_needs_no_file(name: str, payload: bytes, expected: Any) -> None:
    assert value(payload, None, name) == expected


@pytest.mark.parametrize(("version", "packed"), [(3, bytes(7) + b"\x03"), (None, None), ("3", None), (-1, None), (1 << 70, None)])
def test_a_file_that_names_its_version_is_for_that_version(version: Any, packed: bytes | None) -> None:
    stated = {"type": "STRING", "data": "", "version": version}
    assert schema_in("orders", "f", json.dumps(stated).encode()).version == packed
    assert schema_in("orders", "f", b'"string"').version is None


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"hello",
        b"{",
        b"[" * 100_000,
        b"{}",
        b"7",
        b'{"type": "record"}',
        b'{"type": "NOTHING", "schema": ""}',
        b'{"type": "AVRO", "schema": "{"}',
        b'{"type": "AVRO", "schema": "", "properties": 7}',
        b'{"type": "KEY_VALUE", "schema": "x", "properties": {}}',
        b'{"type": "PROTOBUF", "schema": ""}',
        b'{"schemaInfo": {}}',
        b'"' + b"x" * SCHEMA_MAX_BYTES + b'"',
    ],
    ids=lambda data: str(data)[:30],
)
def test_what_is_no_schema_is_a_problem(data: bytes | None) -> None:
    with pytest.raises(UndecodableError):
        schema_in("orders", "avro", data)
