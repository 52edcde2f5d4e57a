"""Schemas from any source: a type, a definition and properties."""

from __future__ import annotations

from typing import Any, NamedTuple

from pulsarscope.protocols.pulsar.values.primitives import PRIMITIVES

JSON, AVRO, PROTOBUF, PROTOBUF_NATIVE, KEY_VALUE = "JSON", "AVRO", "PROTOBUF", "PROTOBUF_NATIVE", "KEY_VALUE"

SCHEMA_TYPES = (*PRIMITIVES, JSON, AVRO, PROTOBUF, PROTOBUF_NATIVE, KEY_VALUE)
"""Schema types as Pulsar's tools name them; the protocol's names differ in case and underscores."""

_BY_LETTERS = {name.replace("_", ""): name for name in SCHEMA_TYPES} | {"BOOL": "BOOLEAN"}


class Definition(NamedTuple):
    """Definition of one schema."""

    type: str
    """Type, of SCHEMA_TYPES."""
    data: bytes = b""
    properties: tuple[tuple[str, str], ...] = ()


def schema_type(name: str) -> str | None:
    """Return a type by any of its names; None for those that define no value: NONE, AUTO_CONSUME."""
    return _BY_LETTERS.get(name.replace("_", "").upper())


def definition_of(schema: Any) -> Definition | None:
    """Return the schema in the fields of a command; None when it defines no value."""
    kind = schema_type(str(schema.get("type"))) if isinstance(schema, dict) else None
    if kind is None or kind == "BYTES":
        return None
    pairs = tuple((str(pair.get("key", "")), str(pair.get("value", ""))) for pair in schema.get("properties", ()))
    return Definition(kind, schema.get("schema_data", b""), pairs)
