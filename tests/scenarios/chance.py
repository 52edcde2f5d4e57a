"""Random but repeatable messages and damage, from a number chosen by hypothesis: cheap enough for thousands of examples."""

from __future__ import annotations

from random import Random
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from hypothesis import strategies as st

from tests.scenarios.samples import new, tagged, value_of, varint


def _random_of(seed: int) -> Random:
    return Random(seed)  # noqa: S311 - for tests


randoms = st.integers(0, (1 << 32) - 1).map(_random_of)
"""Repeatable sources of chance."""


def message_of(descriptor: Descriptor, random: Random, *, complete: bool = False, depth: int = 0) -> Message:
    """A message with some of its fields; `complete` sets at least the required ones."""
    message = new(descriptor)
    likely = 0.9 if depth == 0 and random.random() < 0.3 else 0.45
    for field in descriptor.fields:
        if not (complete and field.is_required) and random.random() > likely / (1 + depth):
            continue
        count = random.choice((1, 1, 2, 5)) if field.is_repeated else 1
        if field.message_type is not None:
            parts = [message_of(field.message_type, random, complete=complete, depth=depth + 1) for _ in range(count)]
            if field.is_repeated:
                getattr(message, field.name).extend(parts)
            else:
                getattr(message, field.name).CopyFrom(parts[0])
        else:
            values = [_value(field, random) for _ in range(count)]
            if field.is_repeated:
                getattr(message, field.name).extend(values)
            else:
                setattr(message, field.name, values[0])
    return message


def _value(field: FieldDescriptor, random: Random) -> Any:
    if field.type == FieldDescriptor.TYPE_BYTES:
        return random.randbytes(random.choice((0, 1, 8, 130)))
    if field.type == FieldDescriptor.TYPE_DOUBLE:
        return random.uniform(-1e9, 1e9)
    if field.enum_type is None and field.type not in (FieldDescriptor.TYPE_BOOL, FieldDescriptor.TYPE_STRING):
        bits = random.randrange(1, 33 if field.type in (FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_UINT32) else 65)
        value = random.getrandbits(bits)
        if field.type in (FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_INT64):
            size = 1 << (32 if field.type == FieldDescriptor.TYPE_INT32 else 64)
            value = (value + size // 2) % size - size // 2
        return value
    return value_of(field, random.randrange(60))


def damaged(data: bytes, random: Random, times: int | None = None) -> bytes:
    """The bytes with a few changes: bits, bytes, varints, pieces moved, doubled or lost, the end cut off."""
    out = bytearray(data)
    for _ in range(random.randint(1, 3) if times is None else times):
        at = random.randrange(len(out) + 1)
        kind = random.randrange(9)
        if kind == 0 and at < len(out):
            out[at] ^= 1 << random.randrange(8)
        elif kind == 1 and at < len(out):
            out[at] = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))
        elif kind == 2:
            out[at:at] = random.randbytes(random.randint(1, 4))
        elif kind == 3:
            del out[at : at + random.randint(1, 4)]
        elif kind == 4:
            del out[at:]
        elif kind == 5:
            stop = min(len(out), at + random.randint(1, 40))
            out[at:at] = out[at:stop]
        elif kind == 6:
            out[at : at + 1] = varint(random.choice((0, 127, 128, 1 << 31, 1 << 32, 1 << 63, (1 << 64) - 1)))
        elif kind == 7:
            out[at:at] = tagged(random.choice((1, 2, 3, 7, 15, 16, 200)), random.randrange(6)) + random.randbytes(random.randint(0, 9))
        else:
            out += data[: random.randint(0, len(data))]
    return bytes(out)
