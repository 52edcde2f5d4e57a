"""Descriptions that clients and brokers give of themselves, kept once for all connections on which they say the same."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar

_TEXT_MAX_CHARACTERS = 64

Description = TypeVar("Description", bound=tuple[Any, ...])
"""Versions, names of methods, numbers."""


def shared(description: Description) -> Description:
    """Return the one tuple of all connections whose sides describe themselves so, if it is short."""
    return description if any(len(str(part)) > _TEXT_MAX_CHARACTERS for part in description) else _first(description)


@lru_cache(256)
def _first(description: Description) -> Description:
    return description
