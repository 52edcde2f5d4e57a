"""Schemas in the fields of commands."""

from __future__ import annotations

import pytest

from pulsarscope.protocols.pulsar.frame import pulsar_pb2 as pb
from pulsarscope.protocols.pulsar.values.definition import SCHEMA_TYPES, Definition, definition_of, schema_type

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
