"""Messages of any type, filled from their descriptors, and their content according to upb: the oracle of the decoder's own reader."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from tests.scenarios import pulsar_pb2 as pb

INT64_MAX = (1 << 63) - 1
GROUP = "a group"
"""Stands for an unknown group on both sides of a comparison: upb parses it, the decoder keeps its bytes."""

_NUMBERS: dict[int, tuple[int, ...]] = {
    FieldDescriptor.TYPE_INT32: (0, 5, -1, (1 << 31) - 1, -(1 << 31)),
    FieldDescriptor.TYPE_INT64: (0, 300, -1, INT64_MAX, -INT64_MAX - 1),
    FieldDescriptor.TYPE_UINT32: (0, 127, 128, (1 << 32) - 1, 1 << 31),
    FieldDescriptor.TYPE_UINT64: (0, 20_000, (1 << 64) - 1, INT64_MAX, INT64_MAX + 1),
}
_STRINGS = ("", "persistent://public/default/t", "é — 漢字 🚀", "x" * 200, "\x00\n")
_BYTES = (b"", b"\x00\x01", b"\xff" * 130, b"\x0e\x01", b"abc")
_DOUBLES = (0.0, 0.1, -2.5, 1e300, float("inf"))
VARIANTS = 5
"""Number of different values for each field."""

RECURSION = 3
"""Depth to which a message may contain its own type."""


def value_of(field: Any, variant: int) -> Any:
    """A value for a field that is not a message."""
    number = variant % VARIANTS
    if field.type in _NUMBERS:
        return _NUMBERS[field.type][number]
    if field.type == FieldDescriptor.TYPE_BOOL:
        return variant % 2 == 1
    if field.type == FieldDescriptor.TYPE_DOUBLE:
        return _DOUBLES[number]
    if field.type == FieldDescriptor.TYPE_STRING:
        return _STRINGS[number]
    if field.type == FieldDescriptor.TYPE_BYTES:
        return _BYTES[number]
    assert field.enum_type is not None
    values = field.enum_type.values
    return values[variant % len(values)].number


def new(descriptor: Descriptor) -> Message:
    """An empty message of this type."""
    return GetMessageClass(descriptor)()


def fill(message: Message, variant: int, *, required_only: bool = False, _within: tuple[str, ...] = ()) -> None:
    """Set every field (or every required one), also in nested messages; `variant` chooses the values, repeated fields get two or three."""
    descriptor = message.DESCRIPTOR
    within = (*_within, descriptor.full_name)
    for field in descriptor.fields:
        if required_only and not field.is_required:
            continue
        salt = variant + field.number
        if field.message_type is not None:
            if within.count(field.message_type.full_name) >= RECURSION:
                continue
            if field.is_repeated:
                for index in range(2):
                    fill(getattr(message, field.name).add(), salt + index, required_only=required_only, _within=within)
            else:
                part = getattr(message, field.name)
                part.SetInParent()
                fill(part, salt, required_only=required_only, _within=within)
        elif field.is_repeated:
            getattr(message, field.name).extend(value_of(field, salt + index) for index in range(3))
        else:
            setattr(message, field.name, value_of(field, salt))


def filled(name: str, variant: int, *, required_only: bool = False) -> Message:
    """A top-level message by name, filled."""
    message = new(pb.DESCRIPTOR.message_types_by_name[name])
    fill(message, variant, required_only=required_only)
    return message


def command(number: int, variant: int, *, required_only: bool = False) -> tuple[Message, Message]:
    """A BaseCommand of this type with its sub-message filled, and that sub-message."""
    base: Any = pb.BaseCommand(type=number)
    body = getattr(base, pb.BaseCommand.DESCRIPTOR.fields_by_number[number].name)
    body.SetInParent()
    fill(body, variant, required_only=required_only)
    return base, body


def signed(value: int) -> int:
    """An unsigned 64-bit number as int64."""
    return value - (1 << 64) if value > INT64_MAX else value


def _one(field: FieldDescriptor, value: Any) -> Any:
    if field.message_type is not None:
        return as_dict(value)
    if field.enum_type is not None:
        return field.enum_type.values_by_number[value].name
    if field.type in (FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_INT64):
        return signed(value)
    if field.type == FieldDescriptor.TYPE_STRING and isinstance(value, bytes):  # a text that is not UTF-8
        return value.decode(errors="backslashreplace")
    return value


def _unknown(field: Any) -> Any:
    if field.wire_type == 0:
        return signed(field.data)
    if field.wire_type == 1:
        return field.data.to_bytes(8, "little")
    if field.wire_type == 5:
        return field.data.to_bytes(4, "little")
    return GROUP if field.wire_type == 3 else bytes(field.data)


def as_dict(message: Message) -> dict[str, Any]:
    """The content of a message according to upb: present fields by name, enums as names, ids as int64, unknown fields under "unknown"."""
    out: dict[str, Any] = {}
    for field, value in message.ListFields():
        out[field.name] = [_one(field, each) for each in value] if field.is_repeated else _one(field, value)
    unknown_fields: Any = UnknownFieldSet(message)
    for unknown in unknown_fields:
        out.setdefault("unknown", {}).setdefault(str(unknown.field_number), []).append(_unknown(unknown))
    return out


def varint(value: int) -> bytes:
    """A number as a varint; a negative one as protobuf writes it, in ten bytes."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def tagged(number: int, wire: int) -> bytes:
    """The tag of a field."""
    return varint(number << 3 | wire)


def delimited(number: int, data: bytes) -> bytes:
    """A length-delimited field."""
    return tagged(number, 2) + varint(len(data)) + data
