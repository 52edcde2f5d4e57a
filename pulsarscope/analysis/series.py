"""A time series of bounded length: counts for each interval of a capture."""

from __future__ import annotations

from pulsarscope.analysis.tally import ReportRecord, Tally
from pulsarscope.model.bins import Bins
from pulsarscope.model.limits import STATISTICS_INTERVALS_MAX
from pulsarscope.model.records import ExchangeRow, FrameRow


class TimeSeries:
    """Counts by interval, from the first row on. An exchange belongs to the interval of its request."""

    def __init__(self, interval: int) -> None:
        """Count by intervals of `interval` nanoseconds, at least 1."""
        self._start: int | None = None
        self._tallies = Bins[None, Tally](STATISTICS_INTERVALS_MAX, Tally, Tally.merge, interval)
        """Tallies by time since the start."""

    @property
    def interval(self) -> int:
        """Length of an interval, nanoseconds. It doubles when there would be too many."""
        return self._tallies.width

    def begin(self, time: int) -> None:
        """Let the first interval begin at `time`, unless rows have been counted."""
        if self._start is None:
            self._start = time

    def frame(self, row: FrameRow) -> None:
        """Count a frame."""
        if row.time is not None:
            self._at(row.time).add_frames(row.direction, 1, max(row.num_messages or 0, 0), row.size)

    def exchange(self, row: ExchangeRow) -> None:
        """Count an exchange."""
        if row.time is not None:
            self._at(row.time).add_exchange(row.status, row.latency_ns)

    def widen(self, intervals: int) -> None:
        """Double the intervals until there are at most `intervals` of them from the first to the last."""
        self._tallies.widen(intervals)

    def records(self) -> list[ReportRecord]:
        """Return the intervals with any traffic, in order."""
        return [
            {"start": (self._start or 0) + start, "interval_ns": self.interval, **tally.counts(), **tally.latencies.percentiles()}
            for start, _, tally in self._tallies.cells()
        ]

    def _at(self, time: int) -> Tally:
        self.begin(time)
        return self._tallies.of(time - (self._start or 0), None)
