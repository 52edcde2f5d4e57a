"""Protobuf messages → values, by the descriptors that a PROTOBUF_NATIVE schema carries, or by what a PROTOBUF schema says of its fields.

Names are the protocol's, as in the .proto file; fields that are not set are left out, as protobuf's own JSON does.
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
from pulsarscope.protocols.pulsar.values.json_values import Budget, ValueProblem, base64_text, double, single

PARSING_INFO = "__PARSING_INFO__"
"""Property of a PROTOBUF schema: number, name, type and label of the fields of its outermost message, as JSON."""

FIELD_COST = 8
"""What a field is reckoned to take, beside its name and its bytes."""

_WIRE_TYPES = {
    "GROUP": None,
    # What is in a message, and what the numbers of an enumeration stand for, such a schema does not say.
    "MESSAGE": FieldDescriptor.TYPE_BYTES,
    "ENUM": FieldDescriptor.TYPE_INT32,
}

MESSAGES_MAX_BYTES = 256 << 20
"""What the messages within one may take in memory, at the most: protobuf makes room for all fields of each, for two bytes 64 KiB."""

MESSAGE_BYTES, SLOT_BYTES = 64, 16
"""What protobuf makes room for: beside the fields of a message, and for each field, at the most."""

Reader = Callable[[bytes, Budget], dict[str, Any]]


def native_reader(definition: bytes) -> Reader:
    """Of a PROTOBUF_NATIVE schema: JSON with its files and the name of its message. Raises ValueProblem when it is none."""
    parts = _json(definition)
    try:
        files = b64decode(parts["fileDescriptorSet"], validate=True)
        name = parts["rootMessageTypeName"]
    except (KeyError, TypeError, ValueError, binascii.Error):
        message = "the schema has no descriptors, or does not name its message"
        raise ValueProblem(message) from None
    return descriptors_reader(files, str(name))


def descriptors_reader(files: bytes, name: str) -> Reader:
    """Of a serialized FileDescriptorSet, and the full name of a message in it. Raises ValueProblem when it is none."""
    pool = DescriptorPool()
    brought = {file.name: file for file in file_set(files).file}
    try:
        for file_name in TopologicalSorter({file.name: set(file.dependency) & brought.keys() for file in brought.values()}).static_order():
            pool.AddSerializedFile(brought[file_name].SerializeToString())
        described = pool.FindMessageTypeByName(name)
    except CycleError:
        message = "the files of the schema import each other in a circle"
        raise ValueProblem(message) from None
    except KeyError:
        message = f"the descriptors of the schema do not have the message {name[:100]}"
        raise ValueProblem(message) from None
    except (TypeError, ValueError) as error:
        message = f"the descriptors of the schema do not fit together: {error}"
        raise ValueProblem(message) from None
    return _reader(GetMessageClass(described), _rooms(described))


def file_set(files: bytes) -> descriptor_pb2.FileDescriptorSet:
    """Serialized descriptors, read. Raises ValueProblem when they are none, or too many."""
    try:
        found = descriptor_pb2.FileDescriptorSet.FromString(files)
    except DecodeError:
        found = descriptor_pb2.FileDescriptorSet()
    if not 0 < len(found.file) <= SCHEMAS_MAX:
        message = f"{len(found.file) or 'no'} file descriptors are in the schema"
        raise ValueProblem(message)
    return found


def described_reader(properties: Mapping[str, str]) -> Reader:
    """Of a PROTOBUF schema, whose definition is Avro's view of the message: only a property tells the numbers of the fields.

    Raises:
        ValueProblem: it does not.
    """
    fields = _json(properties.get(PARSING_INFO, "").encode())
    file = descriptor_pb2.FileDescriptorProto(name="schema.proto", syntax="proto2")
    described = file.message_type.add(name="Message")
    try:
        for field in fields:
            kind = _WIRE_TYPES.get(field["type"], getattr(FieldDescriptor, f"TYPE_{field['type']}", None))
            label = FieldDescriptor.LABEL_REPEATED if field["label"] == "LABEL_REPEATED" else FieldDescriptor.LABEL_OPTIONAL
            if kind is not None:
                described.field.add(name=field["name"], number=field["number"], type=kind, label=label)
    except (KeyError, TypeError, ValueError, AttributeError):
        message = f"the schema's property {PARSING_INFO} does not say what its fields are"
        raise ValueProblem(message) from None
    return descriptors_reader(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString(), described.name)


def _json(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        message = "the schema does not say what its fields are"
        raise ValueProblem(message) from None


def _rooms(described: Descriptor) -> dict[int, int]:
    """How much room messages take, by the first byte of what announces them."""
    rooms: dict[int, int] = {}
    seen = {described.full_name}
    waiting = [described]
    for message in waiting:  # it grows
        for field in message.fields:
            inner = field.message_type
            if inner is not None:
                tag = field.number << 3 | (3 if field.type == FieldDescriptor.TYPE_GROUP else 2)
                first = tag & 127 | (tag > 127) << 7
                rooms[first] = max(rooms.get(first, 0), MESSAGE_BYTES + SLOT_BYTES * len(inner.fields))
                if inner.full_name not in seen:
                    seen.add(inner.full_name)
                    waiting.append(inner)
    return rooms


def _reader(message_class: type[Message], rooms: Mapping[int, int]) -> Reader:
    largest = max(rooms.values(), default=0)

    def read(data: bytes, budget: Budget) -> dict[str, Any]:
        # A look at every byte only where it is needed: no message is announced by less than two bytes.
        if len(data) * largest > 2 * MESSAGES_MAX_BYTES and sum(data.count(at) * room for at, room in rooms.items()) > MESSAGES_MAX_BYTES:
            message = f"the messages in {len(data)} bytes may take more than {MESSAGES_MAX_BYTES:,} bytes of memory"
            raise ValueProblem(message)
        try:
            return _object(message_class.FromString(data), budget)
        except (DecodeError, UnicodeDecodeError):
            message = f"the {len(data)} bytes are no {message_class.DESCRIPTOR.full_name}"
            raise ValueProblem(message) from None

    return read


def _object(message: Message, budget: Budget) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field, value in message.ListFields():
        name = f"[{field.full_name}]" if field.is_extension else field.name
        budget.spend(FIELD_COST + len(name))
        plain = _PLAIN.get(field.cpp_type) or (_enum_reader(field) if field.enum_type is not None else None)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            found[name] = _map(field, value, budget)
        elif field.is_repeated:
            budget.spend(FIELD_COST * len(value))
            found[name] = [_item(field, item, plain, budget) for item in value]
        else:
            found[name] = _item(field, value, plain, budget)
    unknown = UnknownFieldSet(message)
    if len(unknown):
        found["unknown"] = _unknown(unknown, budget)
    return found


def _item(field: Any, value: Any, plain: Callable[[Any], Any] | None, budget: Budget) -> Any:
    if field.message_type is not None:
        return _object(value, budget)
    if isinstance(value, bytes):
        return base64_text(value)
    return value if plain is None else plain(value)


def _map(field: Any, entries: Any, budget: Budget) -> dict[str, Any]:
    budget.spend(2 * FIELD_COST * len(entries))
    of_value = field.message_type.fields_by_name["value"]
    plain = _PLAIN.get(of_value.cpp_type) or (_enum_reader(of_value) if of_value.enum_type is not None else None)
    return {_key(key): _item(of_value, entries[key], plain, budget) for key in entries}


def _key(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _enum_reader(field: Any) -> Callable[[int], str | int]:
    names = field.enum_type.values_by_number
    return lambda number: names[number].name if number in names else number


_PLAIN: dict[int, Callable[[Any], Any]] = {FieldDescriptor.CPPTYPE_FLOAT: single, FieldDescriptor.CPPTYPE_DOUBLE: double}


def _unknown(fields: Any, budget: Budget) -> dict[str, list[Any]]:
    """What the schema does not have, by number: numbers as they are, all else as base64."""
    found: dict[str, list[Any]] = {}
    for field in fields:
        budget.spend(FIELD_COST)
        value = field.data
        if isinstance(value, bytes):
            value = base64_text(value)
        elif not isinstance(value, int):
            value = "a group"
        found.setdefault(str(field.field_number), []).append(value)
    return found
