"""Ordered rows: the object of a compiled reader that stands first in a batch for the rows it has in columns, and rows between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct


def split(rows: Sequence[Any]) -> tuple[Any, Sequence[Any]]:
    """Return the ordered rows that stand for the first of a batch, None without any, and the rows behind them."""
    return (rows[0], rows[1:]) if rows and not isinstance(rows[0], (Struct, tuple)) else (None, rows)


def others(rows: Sequence[Any]) -> Sequence[Any]:
    """Return the rows that are none of frames in columns: those within ordered rows, and those behind them."""
    ordered, following = split(rows)
    return following if ordered is None else [*ordered.others(), *following]
