"""Protobuf bytes → nested dicts, by plans made from the protocol's schema.

Why not upb's own objects: a row needs exactly the fields that are present, including unknown ones, with notes on missing required fields
and invalid text, and with ids as int64. Getting that from upb, message by message (ListFields, UnknownFieldSet, IsInitialized), costs twice
as much as this walk (see docs/measurements.md), and upb reads an unknown command type as CONNECT. upb is the tests' oracle.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Any, NamedTuple

from pulsarscope.dissect.contract.frames import Note
from pulsarscope.model.limits import PROTOBUF_DEPTH_MAX
from pulsarscope.protocols.pulsar.frame.schema import ENUMS, MESSAGES
from pulsarscope.protocols.pulsar.frame.secret_fields import SECRET_FIELDS, SECRET_URLS, URL_CREDENTIALS, is_secret_name, redacted
from pulsarscope.protocols.pulsar.frame.tokens import expiry_text

NOTES_MAX = 100
"""Maximum number of notes about one frame: a frame of 5 MiB can have a million oddities."""

# Kinds of a plan row. The first ones are varints, in the order in which the walk tests them.
INT64, INT32, UINT32, BOOL, ENUM, STRING, BYTES, MESSAGE, DOUBLE, SECRET_STRING, SECRET_BYTES, SECRET_URL = range(12)

SECRET_KINDS = frozenset({SECRET_STRING, SECRET_BYTES})

_KINDS = {
    "int64": INT64,
    "uint64": INT64,  # in the contract, unsigned ids are int64
    "int32": INT32,
    "uint32": UINT32,
    "bool": BOOL,
    "enum": ENUM,
    "string": STRING,
    "bytes": BYTES,
    "message": MESSAGE,
    "double": DOUBLE,
}

VARINT_WIRE, FIXED64_WIRE, LENGTH_WIRE, _GROUP_WIRE, _GROUP_END_WIRE, FIXED32_WIRE = range(6)
_DOUBLE = struct.Struct("<d")


class WireError(Exception):
    """The bytes are not a protobuf message. Internal: it becomes a finding about the frame."""

    position = 0
    """Position that `walk` reached in its data; 0 if it reached the end."""


class Field(NamedTuple):
    """A row of a plan: `extra` is the plan of a message, or the names of an enum by number."""

    name: str
    kind: int
    repeated: bool
    extra: Any


class Plan:
    """The table of one message type: rows by tag (field number << 3 wire type), doubles by number, required fields in order."""

    __slots__ = ("doubles", "hides_unknown", "hides_value", "name", "required", "rows", "single")

    def __init__(self, name: str) -> None:
        self.name = name
        self.hides_unknown = False
        """True if a field is secret, so that an unknown one may be, too."""
        self.hides_value = False
        """True if `value` is secret when `key` says so."""
        self.rows: dict[int, Field] = {}
        self.required: dict[str, None] = {}
        self.doubles: dict[int, str] = {}
        self.single: dict[str, Plan] = {}
        """Message fields that are not repeated."""


class Plans:
    """The plans of all messages; with `show_secrets`, credentials are not masked."""

    def __init__(self, show_secrets: bool) -> None:
        self._show_secrets = show_secrets
        self._plans: dict[str, Plan] = {}

    def named(self, name: str) -> Plan:
        """Return the plan of a message type, made on first use: most captures have few of the 93. Raises KeyError for other names."""
        if (plan := self._plans.get(name)) is None:
            fields = MESSAGES[name]
            plan = self._plans[name] = Plan(name.rpartition(".")[2])
            for number, field, kind, label, inner in fields:
                self._add(plan, number, field, _KINDS[kind], label == "repeated", inner)
            plan.hides_unknown = any(row.kind in SECRET_KINDS for row in plan.rows.values())
            plan.hides_value = plan.name == "KeyValue" and not self._show_secrets
            plan.required = {field: None for _, field, _, label, _ in fields if label == "required"}
            single = (row for row in plan.rows.values() if row.kind == MESSAGE and not row.repeated)
            plan.single = {row.name: row.extra for row in single}
        return plan

    def _add(self, plan: Plan, number: int, name: str, kind: int, repeated: bool, inner: str) -> None:
        if not self._show_secrets and name in SECRET_FIELDS:
            kind = SECRET_STRING if kind == STRING else SECRET_BYTES
        elif not self._show_secrets and name in SECRET_URLS:
            kind = SECRET_URL
        extra: Any = None
        if kind == MESSAGE:
            extra = self.named(inner)
        elif kind == ENUM:
            extra = ENUMS[inner]
        row = Field(name, kind, repeated, extra)
        if kind == DOUBLE:
            plan.doubles[number] = name
        else:
            plan.rows[number << 3 | (VARINT_WIRE if kind <= ENUM else LENGTH_WIRE)] = row


@cache
def shared_plans(show_secrets: bool) -> Plans:
    """Return the plans that all decoders of a process share: making them takes as long as decoding a hundred frames."""
    return Plans(show_secrets)


def varint(data: bytes, position: int, bits: int = 64) -> tuple[int, int]:
    """Return an unsigned varint (or its last `bits`) and the position after it. Raises WireError, or IndexError at the end."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & 0xFFFF_FFFF_FFFF_FFFF, position
        shift += 7
        if shift >= bits:
            raise WireError("a varint is longer than ten bytes")


def walk(
    data: bytes,
    position: int,
    end: int,
    plan: Plan,
    notes: list[Note],
    depth: int = 0,
    begun: dict[str, Any] | None = None,
    *,
    checked: bool = True,
) -> dict[str, Any]:
    """Read the message in data[position:end] as a dict of its fields, in wire order, with the protocol's names.

    Unsigned 64-bit values come as int64, enums as names (`Unknown(9)` for a number without one), unknown fields under "unknown".
    `notes` receives readable oddities; `depth` is the number of messages around this one; `begun` has the fields of an earlier part of the
    same message. If `checked`, missing required fields are noted; otherwise, more parts may follow. Raises WireError if the bytes are not a
    message of any type. (IndexError does not escape.)
    """
    out: dict[str, Any] = {} if begun is None else begun
    rows = plan.rows
    value: Any
    try:
        while position < end:
            tag = data[position]
            position += 1
            if tag > 127:
                tag, position = varint(data, position - 1)
                if tag > 0xFFFF_FFFF:
                    raise WireError(plan.name + " has a field number larger than 2^29")  # noqa: TRY301
            if (row := rows.get(tag)) is None:
                position = _unusual(data, position, end, tag, plan, out, notes, depth)
                continue
            name, kind, repeated, _ = row
            value = data[position]
            if value < 128:  # most are: a call would cost as much as everything else for a number
                position += 1
            else:
                value, position = _long_varint(data, position)
            if kind <= ENUM:
                if kind > UINT32 or value > 0x7FFF_FFFF:
                    value = _number(value, row, plan, notes)
            else:
                start = position
                position += value
                if position > end:
                    break
                # protobuf's rule: a singular message that occurs twice is merged; only the merged message must be complete
                value = _content(data, start, position, row, plan, notes, depth, None if repeated else out.get(name))
            if repeated:
                if (items := out.get(name)) is None:
                    out[name] = [value]
                else:
                    items.append(value)
            else:
                out[name] = value
    except WireError as error:
        error.position = error.position or position
        raise
    except IndexError:
        position = end + 1
    if position != end:
        raise WireError(f"{plan.name} is cut off within a field")
    if checked and _lacks(out, plan):
        _note_missing(out, plan, notes)
    return out


def _long_varint(data: bytes, position: int) -> tuple[int, int]:
    """Like `varint`, but faster for two or three bytes, which most have."""
    second = data[position + 1]
    if second < 128:
        return data[position] - 128 | second << 7, position + 2
    third = data[position + 2]
    if third < 128:
        return data[position] - 128 | (second - 128) << 7 | third << 14, position + 3
    try:
        return varint(data, position)
    except WireError as error:
        error.position = position + 4
        raise


def _number(value: int, row: Field, plan: Plan, notes: list[Note]) -> Any:
    """Interpret a varint by the kind of its field."""
    kind = row.kind
    if kind == INT64:
        return value - (1 << 64) if value > 0x7FFF_FFFF_FFFF_FFFF else value
    if kind == BOOL:
        return value != 0
    if kind == ENUM:
        return row.extra.get(value) or _unusual_enum(value, row.extra, plan.name, row.name, notes)
    value &= 0xFFFF_FFFF  # protobuf's rule for a 32-bit field: the low bits
    return value - (1 << 32) if kind == INT32 and value > 0x7FFF_FFFF else value


def _content(data: bytes, start: int, end: int, row: Field, plan: Plan, notes: list[Note], depth: int, begun: dict[str, Any] | None) -> Any:
    """Interpret the bytes after a length by the kind of their field; `begun` is the message that they continue."""
    kind = row.kind
    if kind == STRING:
        raw = data[start:end]
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return _invalid_text(raw, plan.name, row.name, notes)
    if kind == BYTES:
        return data[start:end]
    if kind == MESSAGE:
        if depth >= PROTOBUF_DEPTH_MAX:
            raise WireError(f"messages nested deeper than {PROTOBUF_DEPTH_MAX}")
        inner = walk(data, start, end, row.extra, notes, depth + 1, begun, checked=row.repeated)
        if row.extra.hides_value and inner.get("value") and is_secret_name(inner.get("key", "")):
            inner["value"] = redacted(len(inner["value"].encode()))
        return inner
    if kind == SECRET_URL:
        return URL_CREDENTIALS.sub(b"redacted", data[start:end]).decode(errors="backslashreplace")
    return redacted_content(data[start:end]) if end > start or kind == SECRET_STRING else b""


def redacted_content(data: bytes) -> str:
    """Return the text shown instead of a credential; empty for an empty one."""
    return redacted(len(data), expiry_text(data)) if data else ""


def _lacks(out: dict[str, Any], plan: Plan) -> bool:
    """Return True if a message, or a singular message in it, lacks a required field: a quick check, because nearly all are complete."""
    if not out.keys() >= plan.required.keys():
        return True
    if single := plan.single:
        for name, value in out.items():
            if (inner := single.get(name)) is not None and _lacks(value, inner):
                return True
    return False


def _note_missing(out: dict[str, Any], plan: Plan, notes: list[Note]) -> None:
    """Note the required fields that a message, and the singular messages in it, lack."""
    for name in plan.required:
        if name not in out:
            note(notes, "required-field-missing", f"{plan.name}.{name}")
    for name, inner in plan.single.items():
        if (value := out.get(name)) is not None:
            _note_missing(value, inner, notes)


def note(notes: list[Note], code: str, text: str) -> None:
    """Add a note, unless there are so many that more would only fill memory."""
    if len(notes) < NOTES_MAX:
        notes.append((code, text))
    elif len(notes) == NOTES_MAX:
        notes.append((code, "and more, which are not listed"))


def _unusual_enum(number: int, names: dict[int, str], message: str, field: str, notes: list[Note]) -> str:
    number &= 0xFFFF_FFFF  # protobuf's rule for a 32-bit field: the low bits
    if (name := names.get(number)) is not None:
        return name
    signed = number - (1 << 32) if number > 0x7FFF_FFFF else number
    note(notes, "unknown-enum", f"{message}.{field} = {signed}")
    return f"Unknown({signed})"


def _invalid_text(raw: bytes, message: str, field: str, notes: list[Note]) -> str:
    note(notes, "invalid-utf8", f"{message}.{field}")
    return raw.decode(errors="backslashreplace")


def _unusual(data: bytes, position: int, end: int, tag: int, plan: Plan, out: dict[str, Any], notes: list[Note], depth: int) -> int:
    """Read an unknown field, or a known repeated number in packed form; return the position after it."""
    number, wire = tag >> 3, tag & 7
    if number == 0:
        raise WireError(f"{plan.name} has a field of number 0")
    if wire == LENGTH_WIRE:
        packed = plan.rows.get(number << 3 | VARINT_WIRE)
        if packed is not None and packed.repeated:
            return _packed(data, position, end, packed, plan, out, notes)
    start = position
    value: Any
    if wire == VARINT_WIRE:
        value, position = varint(data, position)
        if value > 0x7FFF_FFFF_FFFF_FFFF:
            value -= 1 << 64
    elif wire == FIXED64_WIRE:
        value, position = data[position : position + 8], position + 8
        if (known := plan.doubles.get(number)) is not None and position <= end:
            (out[known],) = _DOUBLE.unpack(value)
            return position
    elif wire == FIXED32_WIRE:
        value, position = data[position : position + 4], position + 4
    elif wire == LENGTH_WIRE:
        length, start = varint(data, position)
        position = start + length
        if position > end:
            raise WireError(f"{plan.name} is cut off within field {number}")
        value = data[start:position]
    elif wire == _GROUP_WIRE:
        position = _skip_group(data, position, end, number, depth + 1)
        value = data[start:position]
    else:
        raise WireError(f"{plan.name} has a field {number} of wire type {wire}")
    if plan.hides_unknown and isinstance(value, bytes):
        value = redacted(len(value))
    out.setdefault("unknown", {}).setdefault(str(number), []).append(value)
    return position


def _packed(data: bytes, position: int, end: int, row: Field, plan: Plan, out: dict[str, Any], notes: list[Note]) -> int:
    value: Any
    length, position = varint(data, position)
    stop = position + length
    if stop > end:
        raise WireError(f"{plan.name} is cut off within {row.name}")
    values = out.setdefault(row.name, [])
    while position < stop:
        value, position = varint(data, position)
        if row.kind == INT64 and value > 0x7FFF_FFFF_FFFF_FFFF:
            value -= 1 << 64
        elif row.kind == UINT32:
            value &= 0xFFFF_FFFF
        elif row.kind == INT32:
            value = ((value & 0xFFFF_FFFF) ^ 0x8000_0000) - 0x8000_0000
        elif row.kind == ENUM:
            value = row.extra.get(value) or _unusual_enum(value, row.extra, plan.name, row.name, notes)
        values.append(value)
    if position != stop:
        raise WireError(f"{plan.name}.{row.name} is cut off")
    return stop


def _skip_group(data: bytes, position: int, end: int, number: int, depth: int) -> int:
    while position < end:
        if depth > PROTOBUF_DEPTH_MAX:
            raise WireError(f"groups nested deeper than {PROTOBUF_DEPTH_MAX}")
        tag, position = varint(data, position)
        wire = tag & 7
        if wire == _GROUP_END_WIRE:
            if tag >> 3 != number:
                break
            return position
        if wire == VARINT_WIRE:
            _, position = varint(data, position)
        elif wire == LENGTH_WIRE:
            length, position = varint(data, position)
            position += length
        elif wire == _GROUP_WIRE:
            position = _skip_group(data, position, end, tag >> 3, depth + 1)
        else:
            position += 8 if wire == FIXED64_WIRE else 4
    message = f"group {number} has no end"
    raise WireError(message)
