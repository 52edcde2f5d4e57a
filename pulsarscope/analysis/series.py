"""A time series of bounded length: counts for each interval of a capture."""

from __future__ import annotations

from pulsarscope.analysis.tally import ReportRecord, Tally, percentiles
from pulsarscope.model.limits import STATISTICS_INTERVALS_MAX
from pulsarscope.model.records import ExchangeRow, FrameRow


class TimeSeries:
    """Counts by interval, from the first row on. An exchange belongs to the interval of its request."""

    def __init__(self, interval: int) -> None:
        """Count by intervals of `interval` nanoseconds, at least 1."""
        self.interval = interval
        """Length of an interval, nanoseconds. It doubles when there would be too many."""
        self._start: int | None = None
        self._tallies: dict[int, Tally] = {}

    def frame(self, row: FrameRow) -> None:
        """Count a frame."""
        if row.time is not None:
            self._at(row.time).add_frames(row.direction, 1, max(row.num_messages or 0, 0), row.size)

    def exchange(self, row: ExchangeRow) -> None:
        """Count an exchange."""
        if row.time is not None:
            self._at(row.time).add_exchange(row)

    def widen(self, intervals: int) -> None:
        """Double the intervals until there are at most so many from the first to the last."""
        while self._tallies and max(self._tallies) - min(self._tallies) >= intervals:
            self._double()

    def records(self) -> list[ReportRecord]:
        """Return the intervals with any traffic, in order."""
        return [
            {
                "start": (self._start or 0) + index * self.interval,
                "interval_ns": self.interval,
                **tally.counts(),
                **percentiles(tally.latencies),
            }
            for index, tally in sorted(self._tallies.items())
        ]

    def _at(self, time: int) -> Tally:
        if self._start is None:
            self._start = time
        index = (time - self._start) // self.interval
        if (tally := self._tallies.get(index)) is None:
            while len(self._tallies) >= STATISTICS_INTERVALS_MAX and index not in self._tallies:
                self._double()
                index //= 2
            tally = self._tallies.setdefault(index, Tally())
        return tally

    def _double(self) -> None:
        """Join each two neighbours. Intervals far apart stay as many, so this may have to be repeated."""
        self.interval *= 2
        halves, self._tallies = self._tallies, {}
        for index, half in halves.items():
            if (joined := self._tallies.get(index // 2)) is None:
                self._tallies[index // 2] = half
            else:
                joined.merge(half)
