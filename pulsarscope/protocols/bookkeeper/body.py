"""The contents of one frame, independent of its version."""

from __future__ import annotations

from typing import Any, NamedTuple


class Body(NamedTuple):
    """The contents of a frame."""

    command: str
    fields: dict[str, Any]
    entries: list[tuple[int, int]]
    """Start and end of each ledger entry in the bytes."""
    secret: tuple[int, int] = (0, 0)
    """Start and end of the master key or the credentials."""
    problem: str | None = None
    """A defect of the form."""
