"""Segments that the network lost: their number, and the time for which they held up a stream."""

from __future__ import annotations

from math import sqrt

import msgspec

LOSS_NANOSECONDS_MIN = 150_000_000
"""Time for which a missing segment is noticeable: senders repair most losses within a few round trips, others after 200 ms or more."""

LOSS_WAITS_MIN = 5
"""Number of such separate times: one failover of a hop, or one pause of a host, loses many segments at once."""

LOSS_WAITED_NANOSECONDS_MIN = 2_000_000_000
LOSS_WAITED_SHARE_MIN = 0.1
"""Minimum total duration of these times, and minimum share of the time from the first loss to the last."""

LOSS_SHARE_MIN = 0.03
"""Minimum share of lost segments: Pulsar works well over networks with less."""

LOSS_RESENT_SHARE_MIN = 0.02
LOSS_SPAN_NANOSECONDS_MIN = 5_000_000_000
LOSS_EPISODES_MIN = 10
"""Share of resent segments, even if as many came by chance as twice the standard deviation, the time from the first to the last, and the
number of runs that suffice without any wait: a sound network loses a tenth of that, and a sender that starts over after one outage resends
its whole window at once."""


class Losses(msgspec.Struct, gc=False):
    """Segments of a stream that came again, or filled a hole, and the time for which later segments waited for them."""

    first: tuple[int, int, int] = (0, 0, 0)
    """(file, packet, time in ns) of the first such segment."""
    began: int = 0
    """Time since which the first one was missing, ns."""
    latest: int = 0
    """Time of the latest one."""
    count: int = 0
    resent: int = 0
    """Number of those that were sent after later ones, or again: the others may only have been overtaken."""
    episodes: int = 0
    """Runs of such segments, separated by other segments."""
    before: int = 0
    """Segments of the stream before the first one."""
    segments: int = 0
    """Segments of the stream up to the latest one."""
    waits: int = 0
    """Number of separate times for which a segment was missing for LOSS_NANOSECONDS_MIN or longer; `waited` is their total duration and
    `longest` that of the longest, ns."""
    waited: int = 0
    longest: int = 0
    since: int = 0
    until: int = 0
    """Beginning (`since`) and end of the latest of them."""

    def add(self, began: int, where: tuple[int, int, int], segments: int, *, resent: bool) -> None:
        """Add a segment that was missing since `began` and then came, or was `resent`, as number `segments` of the stream."""
        time = where[2]
        if not self.count:
            self.first, self.began, self.before = where, began, segments - 1
        self.count += 1
        self.resent += resent
        self.episodes += segments != self.segments + 1
        self.latest, self.segments = time, segments
        if time - began < LOSS_NANOSECONDS_MIN:
            return
        if began >= self.until:
            self.waits += 1
            self.since = self.until = began
        self.waited += max(0, time - self.until) + max(0, self.since - began)
        self.since, self.until = min(self.since, began), max(self.until, time)
        self.longest = max(self.longest, time - began)

    @property
    def is_heavy(self) -> bool:
        """Return True when the stream lost much, repeatedly, and was held up for long, or lost very much."""
        span, segments = self.latest - self.began, self.segments - self.before
        often = self.episodes >= LOSS_EPISODES_MIN and span >= LOSS_SPAN_NANOSECONDS_MIN
        if often and self.resent - 2 * sqrt(self.resent) >= LOSS_RESENT_SHARE_MIN * segments:
            return True
        waited = self.waited >= max(LOSS_WAITED_NANOSECONDS_MIN, LOSS_WAITED_SHARE_MIN * span)
        return waited and self.waits >= LOSS_WAITS_MIN and self.count >= LOSS_SHARE_MIN * segments
