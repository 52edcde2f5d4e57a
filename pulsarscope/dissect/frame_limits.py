"""Limits on the size of frames: announced in the stream, each valid from a moment on."""

from __future__ import annotations

from operator import itemgetter

LIMITS_MAX = 8
"""Announced limits that are remembered; a connection has one."""

Limit = tuple[int, int]
"""(moment, bytes): frames may be this large from this moment on."""

_bytes_of = itemgetter(1)


def least_limit(limits: list[Limit]) -> int:
    """Return the size that fits every limit."""
    return limits[0][1] if len(limits) == 1 else min(map(_bytes_of, limits))


def limit_at(limits: list[Limit], moment: int) -> int:
    """Return the limit of frames that begin at a moment."""
    return next((limit for since, limit in reversed(limits) if since <= moment), limits[0][1])


def add_limit(limits: list[Limit], moment: int, size: int) -> None:
    """Add a limit that holds from `moment` on."""
    limits.append((moment, size))
    del limits[:-LIMITS_MAX]
