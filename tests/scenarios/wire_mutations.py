"""Mutations that know the structure of the data: protobuf fields, Pulsar frames, values of JSON."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any, NamedTuple

from crc32c import crc32c

from tests.scenarios.frames import BROKER_ENTRY_MAGIC, CHECKSUM_MAGIC, sized
from tests.scenarios.samples import delimited, tagged, varint

NUMBERS = (0, 1, 2, 127, 128, 255, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
"""Numbers at limits."""

TEXTS = (b"", b"\x00", b"\x1b[2J", "\u202eabc\u0085".encode(), b"\xff\xfe", b"=1+1", b'"},{', b"a" * 300, b"persistent://t/n/\xc0\x80")
"""Texts that some reader mistakes for something else."""

NESTING_MAX = 6


class Field(NamedTuple):
    """One field of a serialized protobuf message."""

    number: int
    wire_type: int
    value: bytes
    """Without the length, if length-delimited."""


class PayloadFrame(NamedTuple):
    """The parts of a frame; a simple command has only the first."""

    command: bytes
    broker_entry: bytes | None = None
    checksum: bytes | None = None
    metadata: bytes | None = None
    payload: bytes = b""


def damaged(random: Random, data: bytes, times: int | None = None) -> bytes:
    """Return the data with bytes changed, lost, repeated and inserted."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 4, 8)) if times is None else times):
        start = random.randint(0, len(changed))
        end = min(start + random.choice((1, 1, 2, 4, 16)), len(changed))
        match random.randint(0, 5):
            case 0:
                changed[start:end] = random.randbytes(end - start)
            case 1:
                del changed[start:end]
            case 2:
                changed[start:start] = changed[start:end]
            case 3:
                changed[start:start] = random.randbytes(random.randint(1, 16))
            case 4:
                changed[start : start + 4] = struct.pack(random.choice((">I", "<I")), random.choice(NUMBERS) & 0xFFFF_FFFF)
            case _:
                if start < len(changed):
                    changed[start] ^= 1 << random.randint(0, 7)
    return bytes(changed)


def fields(message: bytes) -> list[Field] | None:
    """Return the fields of a serialized message, or None if it is not one."""
    found: list[Field] = []
    reader = iter(message)
    try:
        while (tag := _read_varint(reader)) is not None:
            wire_type = tag & 7
            if wire_type == 0:
                value = varint(_need(_read_varint(reader)))
            else:
                size = {1: 8, 5: 4}.get(wire_type)
                if wire_type == 2:
                    size = _need(_read_varint(reader))
                if size is None or size > len(message):
                    return None
                value = bytes(_need(next(reader, None)) for _ in range(size))
            found.append(Field(tag >> 3, wire_type, value))
    except ValueError:
        return None
    return found


def serialized(message: list[Field]) -> bytes:
    """Return the fields in wire format."""
    parts = []
    for field in message:
        if field.wire_type == 2:
            parts.append(delimited(field.number, field.value))
        else:
            parts.append(tagged(field.number, field.wire_type) + field.value)
    return b"".join(parts)


def mutated_message(random: Random, message: bytes, nesting: int = 0) -> bytes:
    """Return a serialized message with a field changed, lost, repeated, moved, or of another type; often one of a nested message."""
    found = fields(message)
    if not found:
        return damaged(random, message, 1)
    at = random.randrange(len(found))
    field = found[at]
    if field.wire_type == 2 and nesting < NESTING_MAX and random.random() < 0.6 and fields(field.value):
        found[at] = field._replace(value=mutated_message(random, field.value, nesting + 1))
        return serialized(found)
    match random.randint(0, 7):
        case 0:
            del found[at]
        case 1:
            found[at:at] = [field] * random.choice((1, 1, 3, 200))
        case 2:
            random.shuffle(found)
        case 3:
            found[at] = field._replace(number=random.choice((1, 2, 3, 15, 16, 99, 1000, (1 << 29) - 1)))
        case 4:
            found[at] = field._replace(wire_type=random.choice((0, 1, 2, 3, 4, 5, 6, 7)))
        case 5:
            return serialized(found[:at]) + damaged(random, serialized(found[at:]), 1)
        case 6:
            found.append(Field(random.choice((1, 50, 500)), 2, random.choice(TEXTS)))
        case _:
            found[at] = field._replace(value=_other_value(random, field))
    return serialized(found)


def split_frame(frame: bytes) -> PayloadFrame | None:
    """Return the parts of a frame of Pulsar, or None if it is not one."""
    size = int.from_bytes(frame[4:8], "big")
    if len(frame) < 8 or 8 + size > len(frame):
        return None
    command, left = frame[8 : 8 + size], frame[8 + size :]
    broker_entry = checksum = None
    if left[:2] == BROKER_ENTRY_MAGIC:
        end = 6 + int.from_bytes(left[2:6], "big")
        broker_entry, left = left[6:end], left[end:]
    if left[:2] == CHECKSUM_MAGIC:
        checksum, left = left[2:6], left[6:]
    if not left:
        return PayloadFrame(command, broker_entry, checksum)
    end = 4 + int.from_bytes(left[:4], "big")
    return PayloadFrame(command, broker_entry, checksum, left[4:end], left[end:])


def joined_frame(parts: PayloadFrame, *, checksum: bool = True) -> bytes:
    """Return a frame of these parts, with correct lengths; with `checksum`, also with a correct checksum."""
    frame = [sized(parts.command)]
    if parts.broker_entry is not None:
        frame += BROKER_ENTRY_MAGIC, sized(parts.broker_entry)
    entry = b"" if parts.metadata is None else sized(parts.metadata) + parts.payload
    if parts.checksum is not None:
        frame += CHECKSUM_MAGIC, struct.pack(">I", crc32c(entry)) if checksum else parts.checksum
    return sized(b"".join(frame) + entry)


def mutated_json(random: Random, text: bytes) -> bytes:
    """Return JSON with a value changed, or the text damaged if it is not JSON."""
    try:
        document = json.loads(text)
    except ValueError:
        return damaged(random, text, 1)
    places = list(_places(document))
    if not places:
        return damaged(random, text, 1)
    change = random.choice(places)
    change(random.choice((None, 0, -1, 1 << 70, 1.5, "", "record", "\ud800", [], {}, [[[]]], document if len(text) < 500 else "null")))
    try:
        return json.dumps(document).encode("utf-8", "replace")
    except (ValueError, RecursionError):  # it now contains itself
        return b"[" * 5000


def _places(value: Any) -> Iterator[Callable[[Any], None]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in list(items):
        yield partial(value.__setitem__, key)
        yield from _places(item)


def _other_value(random: Random, field: Field) -> bytes:
    if field.wire_type == 0:
        return random.choice((varint(random.choice(NUMBERS)), b"\x80" * 9 + b"\x02", b"\xff" * 11))
    if field.wire_type == 2:
        if field.value[:1] in (b"{", b"[") and random.random() < 0.7:
            return mutated_json(random, field.value)
        return random.choice((random.choice(TEXTS), damaged(random, field.value), field.value * 2, random.randbytes(random.randint(0, 64))))
    return random.randbytes(len(field.value))


def _read_varint(reader: Iterator[int]) -> int | None:
    value = shift = 0
    for byte in reader:
        value |= (byte & 127) << shift
        if byte < 128:
            return value & (1 << 64) - 1
        shift += 7
        if shift > 63:
            raise ValueError
    if shift:
        raise ValueError
    return None


def _need(value: int | None) -> int:
    if value is None:
        raise ValueError
    return value
