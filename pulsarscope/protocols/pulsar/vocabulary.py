"""What rows of Pulsar can hold, by name and type: read off the generated descriptors."""

from __future__ import annotations

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from pulsarscope.protocols.pulsar import pulsar_pb2
from pulsarscope.wire.contract import FieldType, Vocabulary

_TYPES = {
    FieldDescriptor.CPPTYPE_INT32: "int64",
    FieldDescriptor.CPPTYPE_UINT32: "int64",
    FieldDescriptor.CPPTYPE_INT64: "int64",
    FieldDescriptor.CPPTYPE_UINT64: "int64",
    FieldDescriptor.CPPTYPE_DOUBLE: "double",
    FieldDescriptor.CPPTYPE_BOOL: "bool",
    FieldDescriptor.CPPTYPE_ENUM: "string",
    FieldDescriptor.CPPTYPE_STRING: "string",
    FieldDescriptor.CPPTYPE_MESSAGE: "object",
}


def vocabulary() -> Vocabulary:
    """Every command, the metadata, and the enumerations that other columns name."""
    messages = pulsar_pb2.DESCRIPTOR.message_types_by_name
    base = messages["BaseCommand"]
    types = base.enum_types_by_name["Type"]
    commands = {value.name: _fields(base.fields_by_number[value.number].message_type) for value in types.values}
    names = tuple(commands)
    return Vocabulary(
        commands=commands,
        objects={
            "metadata": _fields(messages["MessageMetadata"]),
            "broker_entry_metadata": _fields(messages["BrokerEntryMetadata"]),
        },
        values={
            "frame.command": names,
            "exchange.request": names,
            "exchange.response": names,
            "exchange.error": _names(pulsar_pb2.DESCRIPTOR.enum_types_by_name["ServerError"]),
            "message.compression": _names(pulsar_pb2.DESCRIPTOR.enum_types_by_name["CompressionType"]),
        },
    )


def _fields(message: Descriptor, within: tuple[str, ...] = ()) -> tuple[FieldType, ...]:
    """The fields of a message and of those in it; of a message within itself nothing is said."""
    if message.name in within:
        return ()
    return tuple(_field(message, field, (*within, message.name)) for field in message.fields)


def _field(message: Descriptor, field: FieldDescriptor, within: tuple[str, ...]) -> FieldType:
    inner = field.message_type
    label = "repeated " if field.is_repeated else ""
    is_bytes = field.type == FieldDescriptor.TYPE_BYTES
    return FieldType(
        field.name,
        "bytes" if is_bytes else _TYPES[field.cpp_type],
        f"{message.name}.{field.name}, {label}field {field.number}.",
        field.is_repeated,
        () if field.enum_type is None else _names(field.enum_type),
        () if inner is None else _fields(inner, within),
    )


def _names(enum: EnumDescriptor) -> tuple[str, ...]:
    return tuple(value.name for value in enum.values)
