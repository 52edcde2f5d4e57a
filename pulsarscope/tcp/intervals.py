"""Sets of byte ranges of a stream."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from pulsarscope.model.limits import INTERVALS_MAX


class Intervals:
    """Disjoint ranges in ascending order; beyond INTERVALS_MAX the lowest ones are forgotten."""

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, start: int, end: int) -> int:
        """Add a range; return how many of its bytes were not in the set."""
        if not self._ends or start > self._ends[-1]:
            self._starts.append(start)
            self._ends.append(end)
            self._bound()
            return end - start
        first = bisect_left(self._ends, start)
        last = bisect_right(self._starts, end)
        known = sum(high - low for low, high in self.common(start, end))
        low = min([start, *self._starts[first : min(first + 1, last)]])
        high = max([end, *self._ends[max(first, last - 1) : last]])
        self._starts[first:last] = [low]
        self._ends[first:last] = [high]
        self._bound()
        return end - start - known

    def _bound(self) -> None:
        if len(self._starts) > INTERVALS_MAX:
            del self._starts[0], self._ends[0]

    def common(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the parts of a range that are in the set."""
        index = bisect_right(self._ends, start)
        while index < len(self._starts) and self._starts[index] < end:
            yield max(start, self._starts[index]), min(end, self._ends[index])
            index += 1
