"""Latencies in bounded memory: a log-linear histogram, like HdrHistogram.

Each octave (from a power of two to the next) is divided into 64 buckets of equal width; below 128 ns every value has its own bucket. A
percentile is the middle of the bucket that holds its rank, so it is off by less than 1/128 (0.8 %); smallest and largest are exact. There
are at most 3,776 buckets up to 2^64 ns, and only those in use take memory; neither depends on the number of values.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

import msgspec

OCTAVE_BITS = 6
"""Bits of the 64 buckets of an octave: half a bucket is 1/128 of its smallest value."""

_EXACT = 2 << OCTAVE_BITS
"""Values below this have buckets of their own."""


class Octave(msgspec.Struct, frozen=True):
    """Number of values from `from_ns` up to, but not including, `to_ns`, nanoseconds."""

    from_ns: int
    to_ns: int
    count: int


class Latencies:
    """A histogram of whole, non-negative nanoseconds."""

    __slots__ = ("_buckets", "count", "largest", "smallest")

    def __init__(self, values: Iterable[int] = ()) -> None:
        self.count = 0
        self.smallest: int | None = None
        """Smallest value, None without values."""
        self.largest: int | None = None
        self._buckets: dict[int, int] = {}
        for value in values:
            self.add(value)

    @classmethod
    def counted(cls, smallest: int, largest: int, buckets: dict[int, int]) -> Latencies:
        """Return latencies that are already counted: the smallest, the largest, and the number of values per bucket."""
        latencies = cls()
        latencies.count, latencies.smallest, latencies.largest = sum(buckets.values()), smallest, largest
        latencies._buckets = buckets
        return latencies

    def add(self, value: int) -> None:
        """Add a value."""
        self.count += 1
        if self.largest is None or self.smallest is None:
            self.smallest = self.largest = value
        elif value > self.largest:
            self.largest = value
        elif value < self.smallest:
            self.smallest = value
        shift = value.bit_length() - OCTAVE_BITS - 1
        bucket = value if shift <= 0 else (shift << OCTAVE_BITS) + (value >> shift)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1

    def merge(self, other: Latencies) -> None:
        """Add the values of another histogram."""
        if other.smallest is None or other.largest is None:
            return
        self.count += other.count
        self.smallest = other.smallest if self.smallest is None else min(self.smallest, other.smallest)
        self.largest = other.largest if self.largest is None else max(self.largest, other.largest)
        for bucket, count in other._buckets.items():
            self._buckets[bucket] = self._buckets.get(bucket, 0) + count

    def percentile(self, percent: float) -> int | None:
        """Return the percentile by nearest rank, None without values."""
        if self.smallest is None or self.largest is None:
            return None
        remaining = max(ceil(self.count * percent / 100), 1)
        if remaining >= self.count:
            return self.largest
        for bucket in sorted(self._buckets):
            remaining -= self._buckets[bucket]
            if remaining <= 0:
                start, width = _bounds(bucket)
                return min(max(start + width // 2, self.smallest), self.largest)
        return self.largest

    def percentiles(self, name: str = "") -> dict[str, int | None]:
        """Return the percentiles and the maximum as parts of a record, with keys that begin with `name`."""
        return {**{f"{name}p{percent}_ns": self.percentile(percent) for percent in (50, 90, 99)}, f"{name}max_ns": self.largest}

    def octaves(self) -> list[Octave]:
        """Return the octaves from the smallest value's to the largest value's, including empty ones."""
        counts: dict[int, int] = {}
        for bucket, count in self._buckets.items():
            bits = _bounds(bucket)[0].bit_length()
            counts[bits] = counts.get(bits, 0) + count
        if not counts:
            return []
        return [Octave(1 << bits >> 1, 1 << bits, counts.get(bits, 0)) for bits in range(min(counts), max(counts) + 1)]


def _bounds(bucket: int) -> tuple[int, int]:
    """Return the smallest value and the width of a bucket."""
    if bucket < _EXACT:
        return bucket, 1
    shift = (bucket >> OCTAVE_BITS) - 1
    return (bucket - (shift << OCTAVE_BITS)) << shift, 1 << shift
