"""Tables of bounded size in the order of insertion."""

from __future__ import annotations

from itertools import islice
from typing import Any, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class _Nothing(dict[Any, Any]):
    """The empty table. It stays empty, and in another process it is that one's."""

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError

    def __reduce__(self) -> str:
        return "NOTHING"


NOTHING: dict[Any, Any] = _Nothing()
"""Table of those who have nothing to remember yet, so that very many of them take little memory; `table or {}` is one to fill."""


def drop_oldest(table: dict[Key, Value], limit: int) -> list[tuple[Key, Value]]:
    """Remove and return the oldest entries of a table with more than `limit` of them.

    An eighth goes at once: the first entry of a dict that is emptied from its front takes ever longer to find.
    """
    if len(table) <= limit:
        return []
    return [(key, table.pop(key)) for key in list(islice(table, len(table) - limit + limit // 8))]


def remember(table: dict[Key, Value], key: Key, value: Value, limit: int) -> None:
    """Insert a value, and drop the oldest ones when the table grows beyond the limit."""
    table[key] = value
    if len(table) > limit:
        drop_oldest(table, limit)
