"""Schemas from any source: a type, a definition and properties."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from pulsarscope.model.text import plural
from pulsarscope.protocols.pulsar.values.json_values import (
    UndecodableError,
    base64_text,
    day,
    double,
    local_moment,
    moment,
    single,
    time_of_day,
    utf8_text,
)

MILLIS, NANOS = 1_000, 1_000_000_000
"""Parts of a second."""


def _fixed(name: str, form: str, make: Callable[..., Any]) -> Callable[[bytes], Any]:
    packed = struct.Struct(f">{form}")

    def read(payload: bytes) -> Any:
        if len(payload) != packed.size:
            raise UndecodableError(f"{plural(len(payload), 'byte')}, where {name} has {packed.size:,}")
        return make(*packed.unpack(payload))

    return read


PRIMITIVES: dict[str, Callable[[bytes], Any]] = {
    "BYTES": base64_text,
    "STRING": utf8_text,
    "BOOLEAN": _fixed("BOOLEAN", "B", bool),
    "INT8": _fixed("INT8", "b", int),
    "INT16": _fixed("INT16", "h", int),
    "INT32": _fixed("INT32", "i", int),
    "INT64": _fixed("INT64", "q", int),
    "FLOAT": _fixed("FLOAT", "f", single),
    "DOUBLE": _fixed("DOUBLE", "d", double),
    "DATE": _fixed("DATE", "q", lambda count: moment(count, MILLIS)),
    "TIME": _fixed("TIME", "q", lambda count: moment(count, MILLIS)),
    "TIMESTAMP": _fixed("TIMESTAMP", "q", lambda count: moment(count, MILLIS)),
    "INSTANT": _fixed("INSTANT", "qi", lambda seconds, nanos: moment(seconds * NANOS + nanos, NANOS)),
    "LOCAL_DATE": _fixed("LOCAL_DATE", "q", day),
    "LOCAL_TIME": _fixed("LOCAL_TIME", "q", lambda count: time_of_day(count, NANOS)),
    "LOCAL_DATE_TIME": _fixed("LOCAL_DATE_TIME", "qq", local_moment),
}
"""Readers by type. DATE, TIME and TIMESTAMP are the Java types: all hold milliseconds since the epoch."""


JSON, AVRO, PROTOBUF, PROTOBUF_NATIVE, KEY_VALUE = "JSON", "AVRO", "PROTOBUF", "PROTOBUF_NATIVE", "KEY_VALUE"

SCHEMA_TYPES = (*PRIMITIVES, JSON, AVRO, PROTOBUF, PROTOBUF_NATIVE, KEY_VALUE)
"""Schema types as Pulsar's tools name them; the protocol's names differ in case and underscores."""

_BY_LETTERS = {name.replace("_", ""): name for name in SCHEMA_TYPES} | {"BOOL": "BOOLEAN"}


class Definition(NamedTuple):
    """The definition of one schema."""

    type: str
    """One of SCHEMA_TYPES."""
    data: bytes = b""
    properties: tuple[tuple[str, str], ...] = ()


def schema_type(name: str) -> str | None:
    """Return a type by any of its names; None for types that define no value: NONE, AUTO_CONSUME."""
    return _BY_LETTERS.get(name.replace("_", "").upper())


def definition_of(schema: Any) -> Definition | None:
    """Return the schema in the fields of a command; None if it defines no value."""
    kind = schema_type(str(schema.get("type"))) if isinstance(schema, dict) else None
    if kind is None or kind == "BYTES":
        return None
    pairs = tuple((str(pair.get("key", "")), str(pair.get("value", ""))) for pair in schema.get("properties", ()))
    return Definition(kind, schema.get("schema_data", b""), pairs)
