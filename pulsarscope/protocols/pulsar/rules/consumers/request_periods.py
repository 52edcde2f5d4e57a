"""Periods of requests: an ack timeout makes requests at equal intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

PERIOD_MIN = 5
"""Minimum number of intervals from which a period is derived."""


def _intervals(times: Iterable[int]) -> list[int]:
    return [after - before for before, after in pairwise(times)]


def is_regular(times: Iterable[int]) -> bool:
    """Return True when the first few requests came at equal intervals, as those of an ack timeout do."""
    intervals = _intervals(times)
    return len(intervals) > 1 and 5 * (max(intervals) - min(intervals)) <= max(intervals)


def period_of(times: Iterable[int]) -> int | None:
    """Return the nanoseconds between requests when most come at equal intervals, as those of an ack timeout do."""
    intervals = _intervals(times)
    if len(intervals) < PERIOD_MIN:
        return None
    from statistics import median  # noqa: PLC0415 - with fractions and random 2 ms of every diagnosis

    middle = int(median(intervals))
    regular = sum(abs(interval - middle) * 5 <= middle for interval in intervals)
    return middle if middle > 0 and regular * 5 >= len(intervals) * 4 else None


def goes_on(times: Sequence[int], now: int) -> bool:
    """Return True when what happened at two or more times may go on: the last is no further from now than twice the mean interval."""
    return now - times[-1] <= 2 * (times[-1] - times[0]) / (len(times) - 1)
