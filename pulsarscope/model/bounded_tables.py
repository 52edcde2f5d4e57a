"""Tables of bounded size in the order of insertion."""

from __future__ import annotations

from collections import deque
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


class OldestFirst(dict[Key, Value]):
    """A table of which the oldest entries go one by one. An `OrderedDict` takes 50 bytes more for each entry."""

    def __init__(self) -> None:
        self._order: deque[Key] = deque()

    def add(self, key: Key, value: Value) -> Value:
        """Insert and return the value of a key that is not there."""
        self[key] = value
        self._order.append(key)
        return value

    def pop_oldest(self) -> tuple[Key, Value]:
        """Remove and return the oldest entry. Raises IndexError if there is none."""
        key = self._order.popleft()
        return key, self.pop(key)


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
