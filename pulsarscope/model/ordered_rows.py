"""Ordered rows: the object of a compiled reader that stands first in a batch for the rows it has in columns, and rows between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from pulsarscope.model.platform import load_native
from pulsarscope.model.records import EntryMessages


def split(rows: Sequence[Any]) -> tuple[Any, Sequence[Any]]:
    """Return the ordered rows that stand for the first of a batch, None without any, and the rows behind them."""
    return (rows[0], rows[1:]) if rows and not isinstance(rows[0], (Struct, tuple)) else (None, rows)


def as_ordered(rows: Sequence[Any]) -> Any:
    """Return ordered rows that stand for a batch, with the compiled reader there: those before the rows behind them."""
    ordered, following = split(rows)
    if ordered is None:
        ordered = load_native()[0].OrderedRows(exchanges=False)
    return ordered.followed_by(following) if following else ordered


def others(rows: Sequence[Any]) -> Sequence[Any]:
    """Return the rows that are none of frames in columns: those within ordered rows, and those behind them."""
    ordered, following = split(rows)
    return following if ordered is None else [*ordered.others(), *following]


def in_parts(rows: list[Any], most: int) -> Iterator[list[Any]]:
    """Give rows in parts, each with one row, or with no more than so many rows and messages; no rows are one part."""
    begin = size = 0
    for index, row in enumerate(rows):
        count = row.count if type(row) is EntryMessages else 1
        if size and size + count > most:
            yield rows[begin:index]
            begin, size = index, 0
        size += count
    yield rows[begin:] if begin else rows
