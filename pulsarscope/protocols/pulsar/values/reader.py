"""Readers of values, by schema."""

from __future__ import annotations

import binascii
import re
import struct
from base64 import b64decode
from collections.abc import Callable
from itertools import accumulate
from typing import Any

import msgspec

from pulsarscope.dissect.contract.capabilities import PayloadContext
from pulsarscope.model.limits import SCHEMAS_MAX, SCHEMAS_MAX_BYTES, VALUE_DEPTH_MAX
from pulsarscope.model.text import plural
from pulsarscope.protocols.pulsar.values.definition import AVRO, JSON, KEY_VALUE, PRIMITIVES, PROTOBUF_NATIVE, Definition, schema_type
from pulsarscope.protocols.pulsar.values.json_values import Budget, UndecodableError

Reader = Callable[[bytes, PayloadContext, Budget], Any]
"""A function that returns the value of a payload, given its message and the budget. Raises UndecodableError."""

SEPARATED = "SEPARATED"
"""Encoding of a KEY_VALUE whose key is the message's key; otherwise both are in the payload."""

_TEXT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')
_DEPTH_CHANGES = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
"""Change of depth at each bracket: +1, and -1 as a signed byte."""
_NO_BRACKETS = bytes(set(range(256)).difference(b"[]{}"))

_LENGTH = struct.Struct(">i")


class _ReaderCache:
    """A cache of readers by schema; the oldest are dropped when the schemas are too many or too large."""

    def __init__(self) -> None:
        self._readers: dict[Definition, Reader | UndecodableError] = {}
        self._bytes = 0

    def get(self, definition: Definition) -> Reader | UndecodableError:
        """Return the reader of a schema, or the error of a malformed one."""
        if (reader := self._readers.get(definition)) is None:
            try:
                reader = _make(definition)
            except UndecodableError as problem:
                reader = problem
            self._readers[definition] = reader
            self._bytes += definition_bytes(definition)
            while self._bytes > SCHEMAS_MAX_BYTES or len(self._readers) > SCHEMAS_MAX:
                oldest = next(iter(self._readers))
                self._bytes -= definition_bytes(oldest)
                del self._readers[oldest]
        return reader


reader_of = _ReaderCache().get
"""Returns the reader of a schema, or the error of a malformed one. Most connections of a capture share readers."""


def definition_bytes(definition: Definition) -> int:
    """Return the size of a schema in bytes."""
    return len(definition.data) + sum(len(name) + len(value) for name, value in definition.properties)


def needs_writer(definition: Definition) -> bool:
    """Return True when only the schema that wrote a value can read it: Avro data do not describe themselves."""
    if definition.type == KEY_VALUE:
        return any(part.type == AVRO for part in _parts(definition))
    return definition.type == AVRO


def _make(definition: Definition) -> Reader:
    kind = definition.type
    if kind == KEY_VALUE:
        return _key_value(definition)
    if kind == JSON:
        return _json
    if kind in PRIMITIVES:
        primitive = PRIMITIVES[kind]
        return lambda payload, _context, _budget: primitive(payload)
    if kind == AVRO:
        from pulsarscope.protocols.pulsar.values.avro import avro_reader  # noqa: PLC0415 - most captures have none

        read = avro_reader(definition.data)
    else:
        from pulsarscope.protocols.pulsar.values.protobuf_values import described_reader, native_reader  # noqa: PLC0415 - as above

        read = native_reader(definition.data) if kind == PROTOBUF_NATIVE else described_reader(dict(definition.properties))
    return lambda payload, _context, budget: read(payload, budget)


def _json(payload: bytes, _context: PayloadContext, _budget: Budget) -> Any:
    try:
        value = msgspec.json.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UndecodableError(f"no JSON: {error}") from None
    if payload.count(b"[") + payload.count(b"{") > VALUE_DEPTH_MAX and not _is_shallow(payload):
        raise UndecodableError(f"values are nested deeper than {VALUE_DEPTH_MAX} levels")
    return value


def _is_shallow(document: bytes) -> bool:
    """Return True if the nesting depth of a JSON document is allowed. Counts brackets: a walk would take ten times as long as decoding."""
    changes = _TEXT.sub(b"", document).translate(_DEPTH_CHANGES, _NO_BRACKETS)
    return max(accumulate(memoryview(changes).cast("b")), default=0) <= VALUE_DEPTH_MAX


def _key_value(definition: Definition) -> Reader:
    key_part, value_part = _parts(definition)
    key_reader, value_reader = _make(key_part), _make(value_part)
    separated = dict(definition.properties).get("kv.encoding.type", "").upper() == SEPARATED

    def read(payload: bytes, context: PayloadContext, budget: Budget) -> dict[str, Any]:
        value: bytes | None = payload
        if separated:
            key = _key(context)
        else:
            key, rest = _sized(payload)
            value, rest = _sized(rest)
            if rest:
                raise UndecodableError(f"{plural(len(rest), 'byte')} behind key and value")
        return {
            "key": None if key is None else key_reader(key, context, budget),
            "value": None if value is None else value_reader(value, context, budget),
        }

    return read


def _key(context: PayloadContext) -> bytes | None:
    if context.key is None:
        return None
    if not context.key_is_bytes:
        return context.key.encode()
    try:
        return b64decode(context.key, validate=True)
    except (binascii.Error, ValueError):
        raise UndecodableError("the key of the message is not base64") from None


def _parts(definition: Definition) -> tuple[Definition, Definition]:
    """Return the schemas of key and value. Raises UndecodableError when they are malformed."""
    properties = dict(definition.properties)
    key, rest = _sized(definition.data)
    value, _ = _sized(rest)
    return _part("key", key or b"", properties), _part("value", value or b"", properties)


def _part(side: str, data: bytes, properties: dict[str, str]) -> Definition:
    name = properties.get(f"{side}.schema.type", "BYTES")
    if (kind := schema_type(name)) is None or kind == KEY_VALUE:
        raise UndecodableError(f"the {side} of the schema is a {name[:100]}")
    try:
        pairs = msgspec.json.decode(properties.get(f"{side}.schema.properties") or "{}", type=dict[str, str])
    except msgspec.MsgspecError:
        pairs = {}
    return Definition(kind, data, tuple(pairs.items()))


def _sized(data: bytes) -> tuple[bytes | None, bytes]:
    """Return the bytes after a length (None for the length −1), and the rest."""
    if len(data) < _LENGTH.size:
        raise UndecodableError(f"{plural(len(data), 'byte')} left for a length and what it counts")
    size: int = _LENGTH.unpack_from(data)[0]
    start = _LENGTH.size
    if size > len(data) - start or size < -1:
        raise UndecodableError(f"a length of {size} is claimed, {plural(len(data) - start, 'byte')} left")
    return (None, data[start:]) if size < 0 else (data[start : start + size], data[start + size :])
