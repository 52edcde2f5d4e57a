"""The forms in which schemas lie about: Avro's, Pulsar's own JSON, protobuf's descriptors, and a bare name of a type."""

from __future__ import annotations

import struct
from base64 import b64encode
from typing import Any

import msgspec

from pulsarscope.dissect.capabilities import GivenSchema
from pulsarscope.model.limits import SCHEMA_MAX_BYTES
from pulsarscope.protocols.pulsar.values.definition import AVRO, JSON, KEY_VALUE, PROTOBUF_NATIVE, Definition, schema_type
from pulsarscope.protocols.pulsar.values.json_values import ValueProblem
from pulsarscope.protocols.pulsar.values.primitives import PRIMITIVES
from pulsarscope.protocols.pulsar.values.protobuf import file_set
from pulsarscope.protocols.pulsar.values.reader import definition_bytes, reader_of

UNDEFINED = (*PRIMITIVES, JSON)
"""Types that need no definition."""

_VERSION = struct.Struct(">q")


def schema_in(topics: str, name: str, data: bytes | None, message_name: str = "") -> GivenSchema:
    """The schema that a file of this name holds; without `data` the name is that of a type.

    `message_name`: of the message that protobuf descriptors are for; not needed when there is only one in their last file.

    Raises:
        ValueProblem: there is none.
    """
    version = None
    if data is None:
        definition = _by_name(name)
    else:
        written = _json(data)
        if isinstance(written, dict) and isinstance(written.get("schemaInfo"), dict):
            version, written = written.get("version"), written["schemaInfo"]
        if written is None:
            definition = _descriptors(name, data, message_name)
        elif isinstance(written, dict) and ("schema" in written or "data" in written):
            version = written.get("version", version)
            definition = _pulsar(written)
        else:
            definition = Definition(AVRO, data)
    if definition_bytes(definition) > SCHEMA_MAX_BYTES:
        message = f"the schema is larger than {SCHEMA_MAX_BYTES:,} bytes"
        raise ValueProblem(message)
    reader = reader_of(definition)
    if isinstance(reader, ValueProblem):
        raise ValueProblem(str(reader))
    packed = _VERSION.pack(version) if type(version) is int and 0 <= version < 1 << 63 else None
    return GivenSchema(topics, definition.type, definition.data, definition.properties, packed)


def _by_name(name: str) -> Definition:
    kind = schema_type(name)
    if kind not in UNDEFINED:
        message = f"types that need no file are {', '.join(map(str.lower, UNDEFINED))}"
        raise ValueProblem(message)
    return Definition(kind)


def _json(data: bytes) -> Any:
    """What JSON text says; None when it is none."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _descriptors(name: str, data: bytes, message_name: str) -> Definition:
    """A serialized FileDescriptorSet (`protoc --include_imports --descriptor_set_out`), as Pulsar writes one into a schema."""
    try:
        last = file_set(data).file[-1]
    except ValueProblem:
        message = "it is neither JSON nor protobuf descriptors"
        raise ValueProblem(message) from None
    names = [f"{last.package}.{one.name}".removeprefix(".") for one in last.message_type]
    if not message_name and len(names) != 1:
        message = f"name the message behind the file, as in {name}#{(names or ['package.Message'])[0]}"
        raise ValueProblem(message)
    parts = {
        "fileDescriptorSet": b64encode(data).decode(),
        "rootMessageTypeName": message_name or names[0],
        "rootFileDescriptorName": last.name,
    }
    return Definition(PROTOBUF_NATIVE, msgspec.json.encode(parts))


def _pulsar(written: dict[str, Any]) -> Definition:
    """What `pulsar-admin schemas get` prints and `schemas upload` takes, and what the broker's REST interface answers."""
    kind = schema_type(str(written.get("type")))
    if kind is None:
        message = f"no schema type is named {str(written.get('type'))[:100]}"
        raise ValueProblem(message)
    stated = written.get("schema", written.get("data"))
    properties = written.get("properties") or {}
    if not isinstance(properties, dict):
        message = "the properties of the schema are no object"
        raise ValueProblem(message)
    pairs = tuple((str(name), value if isinstance(value, str) else _text(value)) for name, value in properties.items())
    return Definition(kind, _key_and_value(stated) if kind == KEY_VALUE else _definition(stated), pairs)


def _definition(stated: Any) -> bytes:
    """A definition, which tools give as text or as the object that the text says."""
    return (stated if isinstance(stated, str) else "" if stated is None else _text(stated)).encode()


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _key_and_value(stated: Any) -> bytes:
    """The two definitions of a KEY_VALUE as they are on the wire, each behind its length."""
    parts = _json(stated.encode()) if isinstance(stated, str) else stated
    if not isinstance(parts, dict):
        message = "a KEY_VALUE schema has an object with key and value"
        raise ValueProblem(message)
    sides = [_definition(parts.get(side)) for side in ("key", "value")]
    return b"".join(len(side).to_bytes(4, "big") + side for side in sides)
