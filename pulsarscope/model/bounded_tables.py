"""Tables of bounded size, in insertion order."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Any, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class _Nothing(dict[Any, Any]):
    """The empty table. It stays empty, and unpickles as the empty table of the other process."""

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError

    def __reduce__(self) -> str:
        return "NOTHING"


NOTHING: dict[Any, Any] = _Nothing()
"""Shared table for objects that have nothing to remember yet, so that very many of them take little memory; `table or {}` gives one to
fill."""


class OldestFirst(dict[Key, Value]):
    """A table whose oldest entries are removed one at a time. An `OrderedDict` would take 50 bytes more per entry."""

    def __init__(self) -> None:
        self._order: deque[Key] = deque()

    def add(self, key: Key, value: Value) -> Value:
        """Insert the value of a key that is not in the table, and return the value."""
        self[key] = value
        self._order.append(key)
        return value

    def pop_oldest(self) -> tuple[Key, Value]:
        """Remove and return the oldest entry. Raises IndexError if there is none."""
        key = self._order.popleft()
        return key, self.pop(key)


def drop_oldest(table: dict[Key, Value], limit: int) -> list[tuple[Key, Value]]:
    """Remove and return the oldest entries of a table that has more than `limit`.

    An eighth is removed at once, because finding the first entry of a dict that is emptied from its front takes ever longer.
    """
    if len(table) <= limit:
        return []
    return [(key, table.pop(key)) for key in list(islice(table, len(table) - limit + limit // 8))]


def remember(table: dict[Key, Value], key: Key, value: Value, limit: int) -> None:
    """Insert a value, and drop the oldest ones if the table exceeds the limit."""
    table[key] = value
    if len(table) > limit:
        drop_oldest(table, limit)
