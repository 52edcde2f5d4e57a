"""Forms in which users give schemas: Avro, Pulsar's own JSON, protobuf descriptors, and the name of a type."""

from __future__ import annotations

import struct
from base64 import b64encode
from typing import Any

import msgspec

from pulsarscope.dissect.contract.capabilities import GivenSchema
from pulsarscope.model.limits import SCHEMA_MAX_BYTES
from pulsarscope.protocols.pulsar.values.definition import AVRO, JSON, KEY_VALUE, PRIMITIVES, PROTOBUF_NATIVE, Definition, schema_type
from pulsarscope.protocols.pulsar.values.json_values import UndecodableError
from pulsarscope.protocols.pulsar.values.protobuf_values import file_set
from pulsarscope.protocols.pulsar.values.reader import definition_bytes, reader_of

UNDEFINED = (*PRIMITIVES, JSON)
"""Types that need no definition."""

_VERSION = struct.Struct(">q")


def schema_in(topics: str, name: str, data: bytes | None, message_name: str = "") -> GivenSchema:
    """Return the schema for topics that match a pattern, from a file or (without data) from the name of a type. Raises UndecodableError.

    `message_name`: the message for protobuf descriptors; not needed if their last file has only one message.
    """
    version = None
    if data is None:
        definition = _by_name(name)
    else:
        document = _json(data)
        if isinstance(document, dict) and isinstance(document.get("schemaInfo"), dict):
            version, document = document.get("version"), document["schemaInfo"]
        if document is None:
            definition = _descriptors(name, data, message_name)
        elif isinstance(document, dict) and ("schema" in document or "data" in document):
            version = document.get("version", version)
            definition = _pulsar_schema(document)
        else:
            definition = Definition(AVRO, data)
    if definition_bytes(definition) > SCHEMA_MAX_BYTES:
        raise UndecodableError(f"the schema is larger than {SCHEMA_MAX_BYTES:,} bytes")
    reader = reader_of(definition)
    if isinstance(reader, UndecodableError):
        raise UndecodableError(str(reader))
    packed = _VERSION.pack(version) if type(version) is int and 0 <= version < 1 << 63 else None
    return GivenSchema(topics, definition.type, definition.data, definition.properties, packed)


def _by_name(name: str) -> Definition:
    kind = schema_type(name)
    if kind not in UNDEFINED:
        raise UndecodableError(f"types that need no file are {', '.join(map(str.lower, UNDEFINED))}")
    return Definition(kind)


def _json(data: bytes) -> Any:
    """Return decoded JSON; None if it is malformed."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _descriptors(name: str, data: bytes, message_name: str) -> Definition:
    """Return the schema from a serialized FileDescriptorSet (`protoc --include_imports --descriptor_set_out`), in Pulsar's form."""
    try:
        last = file_set(data).file[-1]
    except UndecodableError:
        raise UndecodableError("it is neither JSON nor protobuf descriptors") from None
    names = [f"{last.package}.{message.name}".removeprefix(".") for message in last.message_type]
    if not message_name and len(names) != 1:
        raise UndecodableError(f"name the message behind the file, as in {name}#{(names or ['package.Message'])[0]}")
    parts = {
        "fileDescriptorSet": b64encode(data).decode(),
        "rootMessageTypeName": message_name or names[0],
        "rootFileDescriptorName": last.name,
    }
    return Definition(PROTOBUF_NATIVE, msgspec.json.encode(parts))


def _pulsar_schema(document: dict[str, Any]) -> Definition:
    """Return the schema from a document that pulsar-admin prints or uploads, or that the broker's REST interface returns."""
    if (kind := schema_type(str(document.get("type")))) is None:
        raise UndecodableError(f"no schema type is named {str(document.get('type'))[:100]}")
    data = document.get("schema", document.get("data"))
    properties = document.get("properties") or {}
    if not isinstance(properties, dict):
        raise UndecodableError("the properties of the schema are not an object")
    pairs = tuple((str(name), value if isinstance(value, str) else _text(value)) for name, value in properties.items())
    return Definition(kind, _key_and_value(data) if kind == KEY_VALUE else _definition(data), pairs)


def _definition(data: Any) -> bytes:
    """Return a definition, which tools write as JSON or as a text that contains JSON."""
    return (data if isinstance(data, str) else "" if data is None else _text(data)).encode()


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _key_and_value(data: Any) -> bytes:
    """Return the two definitions of a KEY_VALUE as on the wire, each after its length."""
    parts = _json(data.encode()) if isinstance(data, str) else data
    if not isinstance(parts, dict):
        raise UndecodableError("a KEY_VALUE schema has an object with key and value")
    sides = [_definition(parts.get(side)) for side in ("key", "value")]
    return b"".join(len(side).to_bytes(4, "big") + side for side in sides)
