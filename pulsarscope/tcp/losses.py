"""Segments that the network lost: how many, and how long a stream stood still for them."""

from __future__ import annotations

import msgspec

LOSS_NANOSECONDS_MIN = 150_000_000
"""Time for which a segment is missing that shows: senders repair most losses within a few round trips, else after 200 ms or more."""

LOSS_WAITS_MIN = 5
"""Such times, apart from each other: one hop that fails over, or a host that stands still, loses many segments at once."""

LOSS_WAITED_NANOSECONDS_MIN = 2_000_000_000
LOSS_WAITED_SHARE_MIN = 0.1
"""Least length of these times in all, and their share of the time from the first loss to the last."""

LOSS_SHARE_MIN = 0.03
"""Share of lost segments: networks with less work for Pulsar."""

LOSS_RESENT_MIN = 50
LOSS_RESENT_SHARE_MIN = 0.08
LOSS_SPAN_NANOSECONDS_MIN = 5_000_000_000
LOSS_EPISODES_MIN = 10
"""Segments sent again, their share, the time from the first to the last, and how often they began to come, that need no wait: a sound
network loses a tenth of that, and a sender that starts over after one outage sends all of its window again at once."""


class Losses(msgspec.Struct, gc=False):
    """Segments of a stream that came again, or filled a hole, and how long those behind them waited for them."""

    first: tuple[int, int, int] = (0, 0, 0)
    """(file, packet, time in ns) of the first one."""
    began: int = 0
    """Time since which it was missing, ns."""
    latest: int = 0
    """Time of the latest."""
    count: int = 0
    resent: int = 0
    """Those of which the capture has the first transmission: the others may only have been overtaken."""
    episodes: int = 0
    """Runs of such segments, with others between them."""
    before: int = 0
    """Segments of the stream before the first."""
    segments: int = 0
    """Segments up to the latest."""
    waits: int = 0
    """Times, apart from each other, for which one was missing for LOSS_NANOSECONDS_MIN or longer; how long these are in all, and the
    longest, ns."""
    waited: int = 0
    longest: int = 0
    since: int = 0
    until: int = 0
    """Begin and end of the latest of them."""

    def add(self, began: int, where: tuple[int, int, int], segments: int, *, resent: bool) -> None:
        """Add a segment that was missing since a time, and came, or was `resent`, as the stream's segment of this number."""
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
        """Return True when the stream lost much, again and again, and was held up by it for long, or lost very much."""
        span, segments = self.latest - self.began, self.segments - self.before
        often = self.episodes >= LOSS_EPISODES_MIN and span >= LOSS_SPAN_NANOSECONDS_MIN
        if often and self.resent >= max(LOSS_RESENT_MIN, LOSS_RESENT_SHARE_MIN * segments):
            return True
        waited = self.waited >= max(LOSS_WAITED_NANOSECONDS_MIN, LOSS_WAITED_SHARE_MIN * span)
        return waited and self.waits >= LOSS_WAITS_MIN and self.count >= LOSS_SHARE_MIN * segments
