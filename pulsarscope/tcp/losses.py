"""Segments that the network lost: their number, and the time for which they held up a stream.

A sender that waits too short a time for an acknowledgment sends a segment twice although the first one arrived (RFC 8985 section 7). Its
peer then says that it has got a duplicate (RFC 2883): the network lost nothing.
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from pulsarscope.tcp.copies import option
from pulsarscope.tcp.intervals import Intervals
from pulsarscope.tcp.sequence import sequence_difference

if TYPE_CHECKING:
    from pulsarscope.capture import Segment

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
"""Share of resent segments that suffices without any wait, less twice the standard deviation of their number, which may be chance: a sound
network loses a tenth of that."""

LOSS_SPAN_NANOSECONDS_MIN = 5_000_000_000
LOSS_EPISODES_MIN = 10
"""Minimum time from the first of these losses to the last, and minimum number of their runs: after one outage, a sender resends its whole
window at once."""

HELD_UP_MAX = 32
"""Number of the longest times that are kept one by one."""

DOUBT_NANOSECONDS = 2_000_000_000
"""Time for which a segment that was sent twice may turn out to be a duplicate: a round trip, and the rest of a pause of its receiver."""

DOUBTFUL_MAX = 1_000
"""Number of latest segments of a stream that may turn out to be duplicates."""

_SACK = 5


def longest(times: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest of some times, each a duration and a beginning."""
    return sorted(times)[-HELD_UP_MAX:]


class Loss(NamedTuple):
    """A segment that was missing, and then came; see `Losses.add`."""

    began: int
    where: tuple[int, int, int]
    segments: int
    resent: bool
    span: tuple[int, int] | None
    """Offsets of its bytes in the stream, if it may turn out to be a duplicate."""


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
    """Number of separate times for which a segment was missing for LOSS_NANOSECONDS_MIN or longer."""
    waited: int = 0
    """Their total duration, ns."""
    longest: int = 0
    """Duration of the longest, ns."""
    held_up: list[tuple[int, int]] = []
    """Durations and beginnings of the longest ones for segments that came again, ns: the peer got what followed that much later."""
    since: int = 0
    """Beginning of the latest of them, ns."""
    until: int = 0
    """End of the latest of them, ns."""
    doubtful: list[Loss] = []
    """The latest segments, not yet counted: from the first one on that may turn out to be a duplicate."""
    duplicate: Intervals | None = None
    """Offsets of what arrived twice, as acknowledgments have said since segments are doubtful."""

    def add(self, began: int, where: tuple[int, int, int], segments: int, *, resent: bool, span: tuple[int, int] | None = None) -> None:
        """Add a segment that was missing since `began` and then came, or was `resent`, as number `segments` of the stream.

        `span`: offsets of a segment whose first transmission is in the capture, and may have arrived.
        """
        self.doubtful.append(Loss(began, where, segments, resent, span))
        self.settle(where[2])

    def settle(self, now: int | None = None) -> None:
        """Forget duplicates, and count the segments that can no longer turn out to be some; all of them by default."""
        while self.doubtful:
            loss = self.doubtful[0]
            if loss.span is None or self.duplicate is None or next(self.duplicate.common(*loss.span), None) != loss.span:
                is_recent = now is not None and now - loss.where[2] < DOUBT_NANOSECONDS and len(self.doubtful) <= DOUBTFUL_MAX
                if is_recent and loss.span is not None:
                    return
                self._count(loss)
            del self.doubtful[0]
        self.duplicate = None

    def answer(self, segment: Segment, sequence: int, length: int) -> None:
        """Note what arrived twice, as an acknowledgment says; `sequence`: the sequence number at offset `length`."""
        self.settle(segment[1])
        sack = option(segment[9], _SACK)
        low, high, *outer = (int.from_bytes(sack[at : at + 4], "big") for at in range(2, len(sack) - 3, 4)) if len(sack) >= 10 else (0, 0)
        is_below = sequence_difference(high, segment[3]) >= 0
        is_within = len(outer) >= 2 and sequence_difference(outer[0], low) >= 0 and sequence_difference(high, outer[1]) >= 0
        if self.doubtful and sequence_difference(low, high) > 0 and (is_below or is_within):
            start, end = (length + sequence_difference(sequence, edge) for edge in (low, high))
            self.duplicate = self.duplicate or Intervals()
            self.duplicate.add(start, end)
            self.settle(segment[1])

    def _count(self, loss: Loss) -> None:
        began, where, segments, resent, span = loss
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
        if span is not None:
            self.held_up = longest([*self.held_up, (time - began, began)])

    @property
    def is_heavy(self) -> bool:
        """Return True when the stream lost much, repeatedly, and was held up for long, or lost very much."""
        span, segments = self.latest - self.began, self.segments - self.before
        often = self.episodes >= LOSS_EPISODES_MIN and span >= LOSS_SPAN_NANOSECONDS_MIN
        if often and self.resent - 2 * sqrt(self.resent) >= LOSS_RESENT_SHARE_MIN * segments:
            return True
        waited = self.waited >= max(LOSS_WAITED_NANOSECONDS_MIN, LOSS_WAITED_SHARE_MIN * span)
        return waited and self.waits >= LOSS_WAITS_MIN and self.count >= LOSS_SHARE_MIN * segments
