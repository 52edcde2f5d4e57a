"""How large the frames of a stream may be: what was announced, each from a moment on."""

from __future__ import annotations

from operator import itemgetter

LIMITS_MAX = 8
"""Announced limits that are remembered; a connection has one."""

Limit = tuple[int, int]
"""(moment, bytes): frames may be this large from this moment on."""

_bytes_of = itemgetter(1)


def least_limit(limits: list[Limit]) -> int:
    """A frame no larger than this fits whatever was announced."""
    return limits[0][1] if len(limits) == 1 else min(map(_bytes_of, limits))


def limit_at(limits: list[Limit], moment: int) -> int:
    """The largest frame that may begin at a moment."""
    return next((limit for since, limit in reversed(limits) if since <= moment), limits[0][1])


def add_limit(limits: list[Limit], moment: int, size: int) -> None:
    """Frames may be this large from `moment` on."""
    limits.append((moment, size))
    del limits[:-LIMITS_MAX]
