"""A schema → what reads its values."""

from __future__ import annotations

import binascii
import re
import struct
from base64 import b64decode
from collections.abc import Callable
from itertools import accumulate
from typing import Any

import msgspec

from pulsarscope.dissect.capabilities import PayloadContext
from pulsarscope.model.limits import SCHEMAS_MAX, SCHEMAS_MAX_BYTES, VALUE_DEPTH_MAX
from pulsarscope.protocols.pulsar.values.definition import AVRO, JSON, KEY_VALUE, PROTOBUF_NATIVE, Definition, schema_type
from pulsarscope.protocols.pulsar.values.json_values import Budget, ValueProblem
from pulsarscope.protocols.pulsar.values.primitives import PRIMITIVES

Reader = Callable[[bytes, PayloadContext, Budget], Any]
"""Payload, what is known of its message, and what its value may take → value. Raises ValueProblem."""

SEPARATED = "SEPARATED"
"""The key of a KEY_VALUE is the message's key; else both are in the payload."""

_TEXT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
"""Brackets as what they do to the depth: +1, and -1 as a signed byte."""
_NO_BRACKETS = bytes(set(range(256)).difference(b"[]{}"))

_LENGTH = struct.Struct(">i")


class _Readers:
    """Readers by their schemas; the oldest are forgotten when the schemas are too many or take too many bytes."""

    def __init__(self) -> None:
        self._known: dict[Definition, Reader | ValueProblem] = {}
        self._bytes = 0

    def of(self, definition: Definition) -> Reader | ValueProblem:
        """The reader, or why there is none."""
        found = self._known.get(definition)
        if found is None:
            try:
                found = _make(definition)
            except ValueProblem as problem:
                found = problem
            self._known[definition] = found
            self._bytes += definition_bytes(definition)
            while self._bytes > SCHEMAS_MAX_BYTES or len(self._known) > SCHEMAS_MAX:
                oldest = next(iter(self._known))
                self._bytes -= definition_bytes(oldest)
                del self._known[oldest]
        return found


reader_of = _Readers().of
"""The reader of a schema, or why there is none. Most connections of a capture share theirs."""


def definition_bytes(definition: Definition) -> int:
    """What a schema takes."""
    return len(definition.data) + sum(len(name) + len(value) for name, value in definition.properties)


def needs_writer(definition: Definition) -> bool:
    """Whether only the very schema that a value was written by reads it: Avro's data do not say what they are."""
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
        from pulsarscope.protocols.pulsar.values.protobuf import described_reader, native_reader  # noqa: PLC0415 - as above

        read = native_reader(definition.data) if kind == PROTOBUF_NATIVE else described_reader(dict(definition.properties))
    return lambda payload, _context, budget: read(payload, budget)


def _json(payload: bytes, _context: PayloadContext, _budget: Budget) -> Any:
    try:
        value = msgspec.json.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        message = f"no JSON: {error}"
        raise ValueProblem(message) from None
    if payload.count(b"[") + payload.count(b"{") > VALUE_DEPTH_MAX and not _is_flat(payload):
        message = f"values are nested deeper than {VALUE_DEPTH_MAX} levels"
        raise ValueProblem(message)
    return value


def _is_flat(document: bytes) -> bool:
    """Whether lists and objects of a document that is JSON are within each other no deeper than is allowed.

    By its brackets: to walk through the values takes ten times as long as to decode them.
    """
    steps = _TEXT.sub(b"", document).translate(_STEPS, _NO_BRACKETS)
    return max(accumulate(memoryview(steps).cast("b")), default=0) <= VALUE_DEPTH_MAX


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
                message = f"{len(rest)} bytes follow key and value"
                raise ValueProblem(message)
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
        message = "the key of the message is not base64"
        raise ValueProblem(message) from None


def _parts(definition: Definition) -> tuple[Definition, Definition]:
    """The schemas of key and value. Raises ValueProblem when there are none."""
    properties = dict(definition.properties)
    key, rest = _sized(definition.data)
    value, _ = _sized(rest)
    return _part("key", key or b"", properties), _part("value", value or b"", properties)


def _part(side: str, data: bytes, properties: dict[str, str]) -> Definition:
    named = properties.get(f"{side}.schema.type", "BYTES")
    kind = schema_type(named)
    if kind is None or kind == KEY_VALUE:
        message = f"the {side} of the schema is a {named[:100]}"
        raise ValueProblem(message)
    try:
        own = msgspec.json.decode(properties.get(f"{side}.schema.properties") or "{}", type=dict[str, str])
    except msgspec.MsgspecError:
        own = {}
    return Definition(kind, data, tuple(own.items()))


def _sized(data: bytes) -> tuple[bytes | None, bytes]:
    """What follows a length, None for the length −1; and the rest."""
    if len(data) < _LENGTH.size:
        message = f"{len(data)} bytes are left for a length and what it counts"
        raise ValueProblem(message)
    size: int = _LENGTH.unpack_from(data)[0]
    start = _LENGTH.size
    if size > len(data) - start or size < -1:
        message = f"a length of {size} is claimed, {len(data) - start} bytes are left"
        raise ValueProblem(message)
    return (None, data[start:]) if size < 0 else (data[start : start + size], data[start + size :])
