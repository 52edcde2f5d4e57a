"""Choices that the user has made for the screen, kept between runs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

COLUMNS_MAX = 8
"""Most columns in addition to the default ones: more would leave no room for the summary."""


class Choices(msgspec.Struct):
    """Choices, kept in a file if there is one."""

    columns: list[str] = []
    """Fields with a column in the list of frames."""


def load(path: Path | None) -> Choices:
    """Return the choices of a file; the default ones if it cannot be read."""
    with suppress(OSError, ValueError):
        if path is not None:
            return msgspec.json.decode(path.read_bytes(), type=Choices)
    return Choices()


def save(path: Path | None, columns: Sequence[str]) -> bool:
    """Keep the choices in a file, and return whether that was possible."""
    if path is None:
        return False
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.encode(Choices([*columns])) + b"\n")
        return True
    return False
