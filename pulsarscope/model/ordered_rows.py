"""Ordered rows: an object of the compiled reader, first in a batch, for the rows it has in columns and the rows between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from pulsarscope.model.platform import load_native
from pulsarscope.model.row_lists import EntryMessages


def split(rows: Sequence[Any]) -> tuple[Any, Sequence[Any]]:
    """Return the ordered rows that stand for the first rows of a batch, or None, and the rows after them."""
    return (rows[0], rows[1:]) if rows and not isinstance(rows[0], (Struct, tuple)) else (None, rows)


def in_columns(rows: Sequence[Any]) -> bool:
    """Return True if ordered rows stand for the first rows of a batch."""
    return split(rows)[0] is not None


def as_ordered(rows: Sequence[Any]) -> Any:
    """Return ordered rows that stand for a whole batch; needs the compiled reader."""
    ordered, following = split(rows)
    if ordered is None:
        ordered = load_native()[0].OrderedRows(exchanges=False)
    return ordered.followed_by(following) if following else ordered


def others(rows: Sequence[Any]) -> Sequence[Any]:
    """Return the rows that are not frames in columns: those within ordered rows, and those after them."""
    ordered, following = split(rows)
    return following if ordered is None else [*ordered.others(), *following]


def opened(rows: Sequence[Any]) -> Any:
    """Return ordered rows that stand for a batch, of which each place is one row, and only frames are in columns."""
    return as_ordered(rows).opened(EntryMessages)


def in_rows(rows: Sequence[Any]) -> list[Any]:
    """Return the rows of a batch one by one."""
    ordered, following = split(rows)
    if ordered is None:
        return [each for row in following for each in (row.rows() if type(row) is EntryMessages else (row,))]
    one_by_one: list[Any] = opened(rows).all()
    return one_by_one


def in_parts(rows: list[Any], most: int) -> Iterator[list[Any]]:
    """Yield rows in parts of at most `most` rows and messages, or of a single row; an empty list is one part."""
    begin = size = 0
    for index, row in enumerate(rows):
        count = row.count if type(row) is EntryMessages else 1
        if size and size + count > most:
            yield rows[begin:index]
            begin, size = index, 0
        size += count
    yield rows[begin:] if begin else rows
