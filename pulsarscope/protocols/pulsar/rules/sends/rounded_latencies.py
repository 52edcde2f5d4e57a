"""Counts of latencies rounded to three digits: at most a few thousand different values."""

from __future__ import annotations

from collections.abc import Mapping


def rounded(latency: int) -> int:
    """Return nanoseconds rounded to three digits."""
    if 100_000 <= latency < 10_000_000:  # as most are: without the text of the number
        return latency - latency % (1_000 if latency < 1_000_000 else 10_000)
    unit: int = 10 ** max(len(str(latency)) - 3, 0)
    return latency // unit * unit


def percentile(counts: Mapping[int, int], percent: int) -> int:
    """Return a percentile of values with their counts, by nearest rank; 0 when there are none."""
    rank: int = -(-sum(counts.values()) * percent // 100)
    for value in sorted(counts):
        rank -= counts[value]
        if rank <= 0:
            return value
    return 0
