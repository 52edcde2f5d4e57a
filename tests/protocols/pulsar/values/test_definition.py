"""Schemas in the fields of commands."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.protocols.pulsar.values.definition import PRIMITIVES, SCHEMA_TYPES, Definition, definition_of, schema_type
from pulsarscope.protocols.pulsar.values.json_values import UndecodableError
from tests.scenarios import pulsar_pb2 as pb

WITHOUT_A_VALUE = {"None", "AutoConsume", "External"}


def test_every_type_of_the_protocol_is_known() -> None:
    named = {value.name: schema_type(value.name) for value in pb.Schema.Type.DESCRIPTOR.values}
    assert {name for name, kind in named.items() if kind is None} == WITHOUT_A_VALUE
    assert set(named.values()) - {None} == set(SCHEMA_TYPES) - {"BYTES"}


@pytest.mark.parametrize("name", SCHEMA_TYPES)
def test_the_names_of_tools_are_known_too(name: str) -> None:
    assert schema_type(name) == schema_type(name.lower()) == schema_type(name.replace("_", "")) == name


def test_a_command_brings_one_or_none() -> None:
    pairs = [{"key": "b", "value": "1"}, {"key": "a"}]
    assert definition_of({"type": "Avro", "schema_data": b"x", "properties": pairs}) == Definition("AVRO", b"x", (("b", "1"), ("a", "")))
    assert definition_of({"type": "Bool"}) == Definition("BOOLEAN")
    for nothing in (None, {}, "x", {"type": "None"}, {"type": "AutoConsume"}, {"type": "Unknown(99)"}, {"type": "Bytes"}):
        assert definition_of(nothing) is None


CASES = [
    ("BYTES", "00ff", "AP8="),
    ("BYTES", "", ""),
    ("STRING", "68c3a9", "hé"),
    ("STRING", "", ""),
    ("BOOLEAN", "01", True),
    ("BOOLEAN", "00", False),
    ("INT8", "fe", -2),
    ("INT16", "fffe", -2),
    ("INT32", "fffffffb", -5),
    ("INT64", "0000010000000000", 1 << 40),
    ("INT64", "7fffffffffffffff", (1 << 63) - 1),
    ("FLOAT", "3dcccccd", 0.1),
    ("FLOAT", "7f800000", "Infinity"),
    ("DOUBLE", "3fd5555555555555", 1 / 3),
    ("DOUBLE", "7ff8000000000000", "NaN"),
    ("DATE", "00000174876e8003", "2020-09-13T12:26:40.003Z"),
    ("TIME", "0000000000000001", "1970-01-01T00:00:00.001Z"),
    ("TIMESTAMP", "ffffffffffffffff", "1969-12-31T23:59:59.999Z"),
    ("INSTANT", "000000005f5e100000000005", "2020-09-13T12:26:40.000000005Z"),
    ("LOCAL_DATE", "0000000000000001", "1970-01-02"),
    ("LOCAL_TIME", "0000000000000001", "00:00:00.000000001"),
    ("LOCAL_DATE_TIME", "00000000000000010000000000000001", "1970-01-02T00:00:00.000000001"),
]


@pytest.mark.parametrize(("name", "data", "value"), CASES)
def test_each_type_reads_its_bytes(name: str, data: str, value: object) -> None:
    read = PRIMITIVES[name](bytes.fromhex(data))
    assert read == value
    assert type(read) is type(value)


def test_each_type_has_a_case() -> None:
    assert {name for name, _, _ in CASES} == set(PRIMITIVES)


@pytest.mark.parametrize("name", sorted(set(PRIMITIVES) - {"BYTES", "STRING"}))
def test_other_sizes_do_not_fit(name: str) -> None:
    for size in (0, 3, 5, 17):
        with pytest.raises(UndecodableError, match=f"{size} bytes?, where"):
            PRIMITIVES[name](bytes(size))


@given(st.sampled_from(sorted(PRIMITIVES)), st.binary(max_size=20))
def test_any_bytes_are_a_value_or_a_problem(name: str, data: bytes) -> None:
    try:
        value: Any = PRIMITIVES[name](data)
    except UndecodableError:
        return
    assert isinstance(value, (str, int, float, list))
