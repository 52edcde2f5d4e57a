"""Statistics of the last seconds of a live run, and of what was before."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from pulsarscope.analysis.statistics import Statistics
from pulsarscope.analysis.tally import TallyTable

WINDOW_NANOSECONDS = 10 * 1_000_000_000
"""Length of the window: long enough for steady rates, short enough to show changes."""

PARTS = 10
"""Parts of the window; it advances by one of them."""


class RecentStatistics:
    """A sliding window of statistics. Times are those of the clock, nanoseconds since the epoch."""

    def __init__(self) -> None:
        self.before = Statistics()
        """What has left the window, without connections."""
        self._parts: deque[tuple[int, Statistics]] = deque()
        self._since: int | None = None

    def feed(self, rows: Iterable[Any], now: int) -> None:
        """Count rows at the time `now`."""
        carriers = self._parts[-1][1].carriers if self._parts else None
        self._forget(now)
        since = self._since = now if self._since is None else self._since
        part = since + (now - since) * PARTS // WINDOW_NANOSECONDS * WINDOW_NANOSECONDS // PARTS
        if not self._parts or self._parts[-1][0] != part:
            self._parts.append((part, Statistics(carriers=carriers)))
        self._parts[-1][1].feed(rows)

    def statistics(self, now: int) -> Statistics:
        """Return the statistics of the window that ends at `now`. It begins at the first row if that is later."""
        self._forget(now)
        recent = Statistics()
        for _, part in self._parts:
            recent.merge(part)
        recent.start, recent.end = max(now - WINDOW_NANOSECONDS, self._since or 0), now
        return recent

    def _forget(self, now: int) -> None:
        set_back = self._since is not None and now < max(self._since, self._parts[-1][0] if self._parts else 0)
        if set_back:
            self._since = now
        while self._parts and (set_back or self._parts[0][0] <= now - WINDOW_NANOSECONDS):
            _, part = self._parts.popleft()
            part.connections = TallyTable()
            self.before.merge(part)
