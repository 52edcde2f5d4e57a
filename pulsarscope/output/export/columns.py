"""Rows as columns of scalars, for CSV and Arrow: `checksum` becomes three columns, a json column a string of compact JSON."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import msgspec

from pulsarscope.model.records import Row, columns
from pulsarscope.model.text import escape_json
from pulsarscope.output.registry import CHECKSUM_COLUMNS

_PARTS = dict(zip(CHECKSUM_COLUMNS, map(attrgetter, ("status", "stored", "computed")), strict=True))
_encode_lines = msgspec.json.Encoder().encode_lines


def cell_types(kind: str) -> dict[str, str]:
    """Return the type of each flat column of a kind, in order: any type of `records.Column` except checksum."""
    types = {}
    for column in columns(kind):
        if column.type == "checksum":
            types.update(dict.fromkeys(CHECKSUM_COLUMNS, "string"))
        else:
            types[column.name] = column.type
    return types


def cells(rows: Sequence[Row], names: Sequence[str]) -> list[Sequence[Any]]:
    """Return the values of flat columns in rows of one kind."""
    # Reading all columns of a row at once takes half the time of single accesses. A row may have more fields, or fewer columns.
    fields = type(rows[0]).__struct_fields__ if rows else ()
    table = dict(zip(fields, zip(*map(msgspec.structs.astuple, rows), strict=False), strict=False))
    return [_part(table, name) if name in _PARTS else table.get(name, ()) for name in names]


def _part(table: dict[str, tuple[Any, ...]], name: str) -> list[Any]:
    part = _PARTS[name]
    return [None if checksum is None else part(checksum) for checksum in table.get("checksum", ())]


def is_constant(values: Sequence[Any]) -> bool:
    """Return True when all values of a column that is not json are equal, as in many columns of a block."""
    return len(values) > 0 and values[0] == values[-1] and values.count(values[0]) == len(values)


def json_texts(values: Sequence[Any]) -> list[str | None]:
    """Return the cells of a column of type json."""
    lines = json_lines([value for value in values if value is not None])
    if len(lines) == len(values):
        return list(lines)
    next_line = iter(lines).__next__
    return [None if value is None else next_line() for value in values]


def json_lines(values: Sequence[Any]) -> list[str]:
    """Return the JSON of each value."""
    return escape_json(_encode_lines(values)).decode().split("\n")[:-1]  # all at once; JSON text holds no line end
