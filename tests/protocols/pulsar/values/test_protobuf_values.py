"""Messages compared with the protobuf runtime's own JSON, and hostile descriptors."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, json_format, struct_pb2, timestamp_pb2, type_pb2, wrappers_pb2
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.model.limits import VALUES_MAX_BYTES
from pulsarscope.protocols.pulsar.values.json_values import Budget, UndecodableError
from pulsarscope.protocols.pulsar.values.protobuf_values import described_reader, descriptors_reader, file_set, native_reader
from tests.scenarios import pulsar_pb2 as pb
from tests.scenarios.chance import damaged, message_of, randoms
from tests.scenarios.samples import varint


def files_of(descriptor: Any) -> list[Any]:
    """The file of a message and all its imports, importing files first."""
    files = [descriptor]
    for file in files:
        files += [other for other in file.dependencies if other not in files]
    return files


def files_with(*descriptors: Any) -> bytes:
    found = descriptor_pb2.FileDescriptorSet()
    for file in descriptors:
        file.CopyToProto(found.file.add())
    return found.SerializeToString()


def read(message: Message, data: bytes | None = None, budget: int = VALUES_MAX_BYTES) -> Any:
    descriptor = message.DESCRIPTOR
    reader = descriptors_reader(files_with(*files_of(descriptor.file)), descriptor.full_name)
    return reader(message.SerializePartialToString() if data is None else data, Budget(budget))


def as_json(message: Message) -> Any:
    """A value as written by the runtime, which turns 64-bit numbers into text."""
    return json_format.MessageToDict(message, preserving_proto_field_name=True)


@pytest.mark.slow
@given(randoms, st.sampled_from([pb.CommandSend, pb.MessageMetadata, pb.CommandSubscribe, pb.BaseCommand]))
def test_any_message_is_what_the_runtime_says(random: Any, kind: Any) -> None:
    message = message_of(kind.DESCRIPTOR, random)
    value = read(message)
    value.pop("unknown", None)
    assert texts(value) == texts(as_json(message))


def texts(value: Any) -> Any:
    """Numbers as text, like large ones in the runtime's JSON."""
    if isinstance(value, dict):
        return {key: texts(item) for key, item in value.items() if key != "unknown"}
    if isinstance(value, list):
        return [texts(item) for item in value]
    return str(value) if type(value) in (int, float) else value


def test_types_without_a_json_of_their_own() -> None:
    struct = struct_pb2.Struct()
    struct.update({"a": 1, "b": [True, None, "x"]})
    listed = {"list_value": {"values": [{"bool_value": True}, {"null_value": "NULL_VALUE"}, {"string_value": "x"}]}}
    assert read(struct) == {"fields": {"a": {"number_value": 1.0}, "b": listed}}
    assert read(timestamp_pb2.Timestamp(seconds=1 << 62, nanos=-1)) == {"seconds": 1 << 62, "nanos": -1}
    assert read(wrappers_pb2.FloatValue(value=0.1)) == {"value": 0.1}
    assert read(wrappers_pb2.DoubleValue(value=float("nan"))) == {"value": "NaN"}
    assert read(wrappers_pb2.UInt64Value(value=(1 << 64) - 1)) == {"value": (1 << 64) - 1}
    assert read(wrappers_pb2.BytesValue(value=b"\xff")) == {"value": "/w=="}
    assert read(type_pb2.Field(kind=7, cardinality=99)) == {"kind": "TYPE_FIXED32", "cardinality": 99}  # type: ignore[arg-type]


def test_fields_that_the_schema_lacks_are_given_by_number() -> None:
    value = read(timestamp_pb2.Timestamp(seconds=1), b"\x08\x01\x38\x05\x38\x06\x42\x01a\x4b\x08\x01\x4c")
    assert value == {"seconds": 1, "unknown": {"7": [5, 6], "8": ["YQ=="], "9": ["a group"]}}


@given(randoms)
def test_damaged_messages_are_a_value_or_a_problem(random: Any) -> None:
    message = message_of(pb.MessageMetadata.DESCRIPTOR, random, complete=True)
    try:
        json.dumps(read(message, damaged(message.SerializeToString(), random)), allow_nan=False)
    except UndecodableError:
        return


def test_a_schema_of_the_wire_names_its_message() -> None:
    parts = {
        "fileDescriptorSet": b64encode(files_with(timestamp_pb2.DESCRIPTOR)).decode(),
        "rootMessageTypeName": "google.protobuf.Timestamp",
        "rootFileDescriptorName": "google/protobuf/timestamp.proto",
    }
    assert native_reader(json.dumps(parts).encode())(b"\x08\x05", Budget(100)) == {"seconds": 5}
    for broken in (
        b"",
        b"[]",
        b"{}",
        json.dumps(parts | {"fileDescriptorSet": "?"}).encode(),
        json.dumps(parts | {"fileDescriptorSet": 7}).encode(),
    ):
        with pytest.raises(UndecodableError):
            native_reader(broken)


INFO = [
    {"number": 1, "name": "seconds", "type": "INT64", "label": "LABEL_OPTIONAL", "definition": None},
    {"number": 2, "name": "many", "type": "SINT32", "label": "LABEL_REPEATED", "definition": None},
    {"number": 3, "name": "inner", "type": "MESSAGE", "label": "LABEL_OPTIONAL", "definition": None},
    {"number": 4, "name": "color", "type": "ENUM", "label": "LABEL_OPTIONAL", "definition": None},
    {"number": 5, "name": "old", "type": "GROUP", "label": "LABEL_OPTIONAL", "definition": None},
    {"number": 6, "name": "text", "type": "STRING", "label": "LABEL_OPTIONAL", "definition": None},
]


def test_a_schema_that_only_describes_its_fields_reads_those_of_the_outermost_message() -> None:
    reader = described_reader({"__PARSING_INFO__": json.dumps(INFO)})
    data = b"\x08\x05\x10\x01\x12\x02\x02\x04\x1a\x02\x08\x01\x20\x07\x2b\x2c\x32\x01x"
    value = {"seconds": 5, "many": [-1, 1, 2], "inner": "CAE=", "color": 7, "text": "x", "unknown": {"5": ["a group"]}}
    assert reader(data, Budget(1000)) == value


@pytest.mark.parametrize(
    "info",
    [
        "",
        "7",
        "[7]",
        "[{}]",
        '[{"number": 1}]',
        '[{"number": "x", "name": "a", "type": "INT64", "label": ""}]',
        '[{"number": 0, "name": "a", "type": "INT64", "label": ""}]',
    ],
)
def test_a_property_that_does_not_describe_them_is_a_problem(info: str) -> None:
    with pytest.raises(UndecodableError):
        described_reader({"__PARSING_INFO__": info})


def test_descriptors_that_do_not_fit_together_are_a_problem() -> None:
    timestamp = files_with(timestamp_pb2.DESCRIPTOR)
    circle = descriptor_pb2.FileDescriptorSet()
    circle.file.add(name="a", dependency=["b"])
    circle.file.add(name="b", dependency=["a"])
    lonely = descriptor_pb2.FileDescriptorSet()
    lonely.file.add(name="a", dependency=["elsewhere"])
    for files, name in (
        (timestamp, "google.protobuf.Nothing"),
        (timestamp, ""),
        (circle.SerializeToString(), "a"),
        (lonely.SerializeToString(), "a"),
    ):
        with pytest.raises(UndecodableError):
            descriptors_reader(files, name)
    for nothing in (b"", b"\xff", b"hello"):
        with pytest.raises(UndecodableError, match="no file descriptors"):
            file_set(nothing)


def test_what_takes_few_bytes_and_much_memory_is_counted() -> None:
    struct = struct_pb2.ListValue()
    struct.values.extend([struct_pb2.Value() for _ in range(1000)])
    with pytest.raises(UndecodableError, match="too large"):
        read(struct, budget=5_000)


def test_bytes_that_are_no_message_are_a_problem() -> None:
    for data in (b"\x08", b"\xff" * 20, b"\x0a\x00\x07"):
        with pytest.raises(UndecodableError, match=r"are not a google\.protobuf\.Timestamp"):
            read(timestamp_pb2.Timestamp(), data)


def test_files_may_stand_in_any_order() -> None:
    files = descriptor_pb2.FileDescriptorSet.FromString(files_with(*files_of(pb.DESCRIPTOR), *files_of(type_pb2.Type.DESCRIPTOR.file)))
    for given_files in (files.file, reversed(files.file)):
        one_way = descriptor_pb2.FileDescriptorSet(file=given_files).SerializeToString()
        read_type = descriptors_reader(one_way, "google.protobuf.Type")
        assert read_type(type_pb2.Type(name="x").SerializeToString(), Budget(100)) == {"name": "x"}


@pytest.mark.parametrize("number", [1, 15, 16, 2047, 100_000])
@pytest.mark.parametrize("kind", ["TYPE_MESSAGE", "TYPE_GROUP"])
def test_messages_of_two_bytes_that_take_much_memory_are_not_made(number: int, kind: Any) -> None:
    files = descriptor_pb2.FileDescriptorSet()
    wide = files.file.add(name="wide.proto", syntax="proto2").message_type.add(name="Wide")
    wide.field.add(name="wide", number=number, type=kind, type_name=".Wide", label="LABEL_REPEATED")
    for field in range(4_000):
        wide.field.add(name=f"f{field}", number=200_000 + field, type="TYPE_STRING", label="LABEL_OPTIONAL")
    reader = descriptors_reader(files.SerializeToString(), "Wide")
    tag = varint(number << 3 | (3 if kind == "TYPE_GROUP" else 2))
    item = tag + (varint(number << 3 | 4) if kind == "TYPE_GROUP" else b"\0")
    assert len(reader(item * 100, Budget(VALUES_MAX_BYTES))["wide"]) == 100
    with pytest.raises(UndecodableError, match="of memory"):
        reader(item * 5_000, Budget(VALUES_MAX_BYTES))


def test_large_messages_of_few_fields_are_read() -> None:
    points = struct_pb2.ListValue(values=[struct_pb2.Value(number_value=number) for number in range(20_000)])
    assert len(read(points)["values"]) == 20_000
