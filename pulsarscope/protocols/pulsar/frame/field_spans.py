"""Places of the fields of a protobuf message in its bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pulsarscope.model.limits import PROTOBUF_DEPTH_MAX
from pulsarscope.protocols.pulsar.frame.protobuf import (
    FIXED32_WIRE,
    FIXED64_WIRE,
    LENGTH_WIRE,
    MESSAGE,
    SECRET_KINDS,
    SECRET_URL,
    STRING,
    VARINT_WIRE,
    Field,
    Plan,
    WireError,
    varint,
)
from pulsarscope.protocols.pulsar.frame.secret_fields import URL_CREDENTIALS, is_secret_name


class Span(NamedTuple):
    """The place of a field in the bytes of a message; a truncated field ends where the bytes do."""

    start: int
    """Offset of its tag."""
    value: int
    """Start of its content: the varint, or the bytes after the length."""
    end: int
    name: str
    depth: int
    row: Field | None
    """Row of the table; None for an unknown field or a double."""
    secret: tuple[int, int] | None
    """Start and end of its bytes that must not be shown."""


_PAIR = Plan("KeyValue")
_PAIR.rows = {10: Field("key", STRING, False, None)}


def spans(data: bytes, position: int, end: int, plan: Plan, depth: int = 0) -> Iterator[Span]:
    """Yield the places of the fields in data[position:end], outer ones before inner ones, as far as they can be read."""
    hides_value = plan.hides_value and any(
        is_secret_name(data[span.value : span.end].decode(errors="replace"))
        for span in spans(data, position, end, _PAIR)
        if span.name == "key"
    )
    while position < end:
        start = position
        try:
            tag, position = varint(data, position)
            row = plan.rows.get(tag)
            name = row.name if row is not None else plan.doubles.get(tag >> 3) or f"unknown field {tag >> 3}"
            wire = tag & 7
            value = position
            if wire == LENGTH_WIRE:
                length, value = varint(data, position)
                position = value + length
            elif wire == VARINT_WIRE:
                _, position = varint(data, position)
            elif wire in {FIXED64_WIRE, FIXED32_WIRE}:
                position += 8 if wire == FIXED64_WIRE else 4
            else:
                return
        except (IndexError, WireError):
            return
        position = min(position, end)
        secret = None
        if hides_value if row is not None and name == "value" else plan.hides_unknown if row is None else row.kind in SECRET_KINDS:
            secret = value, position
        elif row is not None and row.kind == SECRET_URL and (found := URL_CREDENTIALS.search(data[value:position])):
            secret = value + found.start(), value + found.end()
        yield Span(start, value, position, name, depth, row, secret)
        if row is not None and row.kind == MESSAGE and depth + 1 < PROTOBUF_DEPTH_MAX:
            yield from spans(data, value, position, row.extra, depth + 1)
