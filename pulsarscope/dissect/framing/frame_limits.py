"""Limits on the size of frames: announced in the stream, each valid from a moment on."""

from __future__ import annotations

from functools import cache
from operator import itemgetter

LIMITS_MAX = 8
"""Announced limits that are remembered; a connection has one."""

Limit = tuple[int, int]
"""(moment, bytes): from this moment on, frames may be this large."""

Limits = tuple[Limit, ...]
"""One or more limits, the newest last."""

_bytes_of = itemgetter(1)


@cache
def initial_limits(size: int) -> Limits:
    """Return the limits before any is announced, the same for all streams."""
    return ((0, size),)


def least_limit(limits: Limits) -> int:
    """Return the smallest of the limits."""
    return limits[0][1] if len(limits) == 1 else min(map(_bytes_of, limits))


def limit_at(limits: Limits, moment: int) -> int:
    """Return the limit of frames that begin at a moment."""
    return next((limit for since, limit in reversed(limits) if since <= moment), limits[0][1])


def add_limit(limits: Limits, moment: int, size: int) -> Limits:
    """Return the limits with one more, which applies from `moment` on; the same shared object if nothing changes."""
    return limits if limits[-1][1] == size else (*limits, (moment, size))[-LIMITS_MAX:]
