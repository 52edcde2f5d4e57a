"""Rows as columns of single values: what CSV and Arrow share.

`checksum` is three columns; a column of type json is a string of compact JSON, keys in the order of the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from pulsarscope.outputs import CHECKSUM_COLUMNS
from pulsarscope.records import Row, columns

_PARTS = dict(zip(CHECKSUM_COLUMNS, ("status", "stored", "computed"), strict=True))


def cell_types(kind: str) -> dict[str, str]:
    """Type of each flat column of a kind, in order: those of `records.Column` without checksum."""
    types = {}
    for column in columns(kind):
        if column.type == "checksum":
            types.update(dict.fromkeys(CHECKSUM_COLUMNS, "string"))
        else:
            types[column.name] = column.type
    return types


def cells(rows: Sequence[Row], name: str, kind_type: str) -> list[Any]:
    """The values of one flat column: json as text, all else as the rows have it."""
    part = _PARTS.get(name)
    if part is not None:
        return [None if (checksum := row.checksum) is None else getattr(checksum, part) for row in rows]  # type: ignore[attr-defined]
    if kind_type == "json":
        encode = msgspec.json.encode
        return [None if (value := getattr(row, name)) is None else encode(value).decode() for row in rows]
    return [getattr(row, name) for row in rows]
