"""Statistics of the last seconds, for who watches a run that has no end."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from pulsarscope.analysis.statistics import Statistics

WINDOW_NANOSECONDS = 10 * 1_000_000_000
"""Long enough for rates that do not dance, short enough to see what changes."""

PARTS = 10
"""The window moves on by one of so many parts."""


class Recent:
    """Feed it the rows of a run, and ask for their statistics. Times are those of the shell, nanoseconds since the epoch."""

    def __init__(self) -> None:
        self._parts: deque[tuple[int, Statistics]] = deque(maxlen=PARTS + 1)  # a clock that is set back lets nothing grow
        self._since: int | None = None

    def feed(self, rows: Iterable[Any], now: int) -> None:
        """Count these rows as those of now."""
        since = self._since = now if self._since is None else self._since
        part = since + (now - since) * PARTS // WINDOW_NANOSECONDS * WINDOW_NANOSECONDS // PARTS
        if not self._parts or self._parts[-1][0] != part:
            carriers = self._parts[-1][1].carriers if self._parts else None
            self._parts.append((part, Statistics(carriers=carriers)))
            self._forget(now)
        self._parts[-1][1].feed(rows)

    def statistics(self, now: int) -> Statistics:
        """Of the window that ends now, or from the first row on if that is later."""
        self._forget(now)
        found = Statistics()
        for _, part in self._parts:
            found.merge(part)
        found.start, found.end = max(now - WINDOW_NANOSECONDS, self._since or 0), now
        return found

    def _forget(self, now: int) -> None:
        while self._parts and self._parts[0][0] <= now - WINDOW_NANOSECONDS:
            self._parts.popleft()
