"""Readers of protobuf messages, by the descriptors of a PROTOBUF_NATIVE schema or the field list of a PROTOBUF schema.

Names are those in the .proto file; fields that are not set are left out, as in protobuf's own JSON.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Callable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

import msgspec
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from pulsarscope.model.limits import SCHEMAS_MAX
from pulsarscope.protocols.pulsar.values.json_values import Budget, UndecodableError, base64_text, double, single

PARSING_INFO = "__PARSING_INFO__"
"""Property of a PROTOBUF schema: number, name, type and label of the fields of its outermost message, as JSON."""

FIELD_COST = 8
"""Cost of a field in the budget, in addition to its name and bytes."""

_WIRE_TYPES = {
    "GROUP": None,
    # The schema does not describe the messages and enumerations of its fields.
    "MESSAGE": FieldDescriptor.TYPE_BYTES,
    "ENUM": FieldDescriptor.TYPE_INT32,
}

MESSAGES_MAX_BYTES = 256 << 20
"""Most memory for nested messages: protobuf allocates room for all fields of each, up to 64 KiB for two bytes."""

MESSAGE_BYTES, SLOT_BYTES = 64, 16
"""Most memory that protobuf takes for a message, and for each field of it."""

Reader = Callable[[bytes, Budget], dict[str, Any]]


def native_reader(definition: bytes) -> Reader:
    """Return the reader of a PROTOBUF_NATIVE schema: JSON with files and message name. Raises UndecodableError if it is malformed."""
    parts = _json(definition)
    try:
        files = b64decode(parts["fileDescriptorSet"], validate=True)
        name = parts["rootMessageTypeName"]
    except (KeyError, TypeError, ValueError, binascii.Error):
        raise UndecodableError("the schema has no descriptors, or does not name its message") from None
    return descriptors_reader(files, str(name))


def descriptors_reader(files: bytes, name: str) -> Reader:
    """Return the reader of the message with this full name in a serialized FileDescriptorSet. Raises UndecodableError."""
    pool = DescriptorPool()
    protos = {file.name: file for file in file_set(files).file}
    try:
        for file_name in TopologicalSorter({file.name: set(file.dependency) & protos.keys() for file in protos.values()}).static_order():
            pool.AddSerializedFile(protos[file_name].SerializeToString())
        descriptor = pool.FindMessageTypeByName(name)
    except CycleError:
        raise UndecodableError("the files of the schema import each other in a circle") from None
    except KeyError:
        raise UndecodableError(f"the descriptors of the schema do not have the message {name[:100]}") from None
    except (TypeError, ValueError) as error:
        raise UndecodableError(f"the descriptors of the schema do not fit together: {error}") from None
    return _reader(GetMessageClass(descriptor), _message_sizes(descriptor))


def file_set(files: bytes) -> descriptor_pb2.FileDescriptorSet:
    """Return deserialized descriptors. Raises UndecodableError when they are malformed or too many."""
    try:
        protos = descriptor_pb2.FileDescriptorSet.FromString(files)
    except DecodeError:
        protos = descriptor_pb2.FileDescriptorSet()
    if not 0 < len(protos.file) <= SCHEMAS_MAX:
        raise UndecodableError(f"{len(protos.file) or 'no'} file descriptors are in the schema")
    return protos


def described_reader(properties: Mapping[str, str]) -> Reader:
    """Return the reader of a PROTOBUF schema, one of whose properties has the field numbers. Raises UndecodableError if it is not valid."""
    fields = _json(properties.get(PARSING_INFO, "").encode())
    file = descriptor_pb2.FileDescriptorProto(name="schema.proto", syntax="proto2")
    descriptor = file.message_type.add(name="Message")
    try:
        for field in fields:
            kind = _WIRE_TYPES.get(field["type"], getattr(FieldDescriptor, f"TYPE_{field['type']}", None))
            label = FieldDescriptor.LABEL_REPEATED if field["label"] == "LABEL_REPEATED" else FieldDescriptor.LABEL_OPTIONAL
            if kind is not None:
                descriptor.field.add(name=field["name"], number=field["number"], type=kind, label=label)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UndecodableError(f"the schema's property {PARSING_INFO} does not say what its fields are") from None
    return descriptors_reader(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString(), descriptor.name)


def _json(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise UndecodableError("the schema does not say what its fields are") from None


def _message_sizes(descriptor: Descriptor) -> dict[int, int]:
    """Return the memory for nested messages, by the first byte of their tag."""
    sizes: dict[int, int] = {}
    names = {descriptor.full_name}
    pending = [descriptor]
    for message in pending:  # the list grows
        for field in message.fields:
            if (inner := field.message_type) is not None:
                tag = field.number << 3 | (3 if field.type == FieldDescriptor.TYPE_GROUP else 2)
                first = tag & 127 | (tag > 127) << 7
                sizes[first] = max(sizes.get(first, 0), MESSAGE_BYTES + SLOT_BYTES * len(inner.fields))
                if inner.full_name not in names:
                    names.add(inner.full_name)
                    pending.append(inner)
    return sizes


def _reader(message_class: type[Message], sizes: Mapping[int, int]) -> Reader:
    largest = max(sizes.values(), default=0)

    def read(data: bytes, budget: Budget) -> dict[str, Any]:
        # Bytes are only counted if necessary: each nested message takes at least two bytes.
        if len(data) * largest > 2 * MESSAGES_MAX_BYTES and sum(data.count(tag) * size for tag, size in sizes.items()) > MESSAGES_MAX_BYTES:
            raise UndecodableError(f"the messages in {len(data):,} bytes may take more than {MESSAGES_MAX_BYTES:,} bytes of memory")
        try:
            return _object(message_class.FromString(data), budget)
        except (DecodeError, UnicodeDecodeError):
            raise UndecodableError(f"the {len(data):,} bytes are not a {message_class.DESCRIPTOR.full_name}") from None

    return read


def _object(message: Message, budget: Budget) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for field, value in message.ListFields():
        name = f"[{field.full_name}]" if field.is_extension else field.name
        budget.spend(FIELD_COST + len(name))
        plain = _PLAIN.get(field.cpp_type) or (_enum_reader(field) if field.enum_type is not None else None)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            values[name] = _map(field, value, budget)
        elif field.is_repeated:
            budget.spend(FIELD_COST * len(value))
            values[name] = [_item(field, item, plain, budget) for item in value]
        else:
            values[name] = _item(field, value, plain, budget)
    unknown = UnknownFieldSet(message)
    if len(unknown):
        values["unknown"] = _unknown(unknown, budget)
    return values


def _item(field: Any, value: Any, plain: Callable[[Any], Any] | None, budget: Budget) -> Any:
    if field.message_type is not None:
        return _object(value, budget)
    if isinstance(value, bytes):
        return base64_text(value)
    return value if plain is None else plain(value)


def _map(field: Any, entries: Any, budget: Budget) -> dict[str, Any]:
    budget.spend(2 * FIELD_COST * len(entries))
    value_field = field.message_type.fields_by_name["value"]
    plain = _PLAIN.get(value_field.cpp_type) or (_enum_reader(value_field) if value_field.enum_type is not None else None)
    return {_key(key): _item(value_field, entries[key], plain, budget) for key in entries}


def _key(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _enum_reader(field: Any) -> Callable[[int], str | int]:
    names = field.enum_type.values_by_number
    return lambda number: names[number].name if number in names else number


_PLAIN: dict[int, Callable[[Any], Any]] = {FieldDescriptor.CPPTYPE_FLOAT: single, FieldDescriptor.CPPTYPE_DOUBLE: double}


def _unknown(fields: Any, budget: Budget) -> dict[str, list[Any]]:
    """Return the fields that the schema lacks, by number: numbers unchanged, everything else as base64."""
    values: dict[str, list[Any]] = {}
    for field in fields:
        budget.spend(FIELD_COST)
        value = field.data
        if isinstance(value, bytes):
            value = base64_text(value)
        elif not isinstance(value, int):
            value = "a group"
        values.setdefault(str(field.field_number), []).append(value)
    return values
