"""Times at which a receiver announced a window of 0."""

from __future__ import annotations

import msgspec

from pulsarscope.tcp.stream_findings import Where


class ClosedWindow(msgspec.Struct, gc=False):
    """Closed receive window: first place, number of times, time of the last close, and total duration in ns."""

    first: Where
    count: int = 0
    since: int = -1
    closed: int = 0

    def close(self, time: int) -> None:
        """Begin one more time without a window."""
        self.count += 1
        self.since = time

    def open(self, time: int) -> None:
        """End it."""
        self.closed += max(0, time - self.since)
