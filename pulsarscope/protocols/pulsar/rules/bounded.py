"""Bounded memory of a rule."""

from __future__ import annotations

from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


def remember(table: dict[Key, Value], key: Key, value: Value, limit: int) -> None:
    """Insert a value, and drop the oldest one when the table grows beyond the limit."""
    table[key] = value
    if len(table) > limit:
        del table[next(iter(table))]
