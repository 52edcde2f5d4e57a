"""Producers of a connection, and the latencies of their SENDs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from pulsarscope.dissect.contract.rules import Where, where_of
from pulsarscope.model.records import ExchangeRow, FrameRow
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import Thresholds, counted, in_seconds
from pulsarscope.protocols.pulsar.replication import is_replicator
from pulsarscope.protocols.pulsar.rules.evidence import frame_names
from pulsarscope.protocols.pulsar.rules.sends.ages import Ages
from pulsarscope.protocols.pulsar.rules.sends.rounded_latencies import percentile

THRESHOLDS = (
    in_seconds(
        "send-unanswered-passed-seconds",
        0.25,
        "The same for a SEND when a later one of its producer has its receipt: brokers send receipts in order.",
        "send-unanswered",
    ),
    counted(
        "slow-publish-pauses",
        3,
        "pauses",
        "Pauses in which SENDs of a producer waited for longer than slow-publish-seconds, one after the other; one or two are chance.",
        "slow-publish",
        least=2,
    ),
    counted(
        "slow-publish-paused-share",
        0.05,
        "of the time",
        "Time that those pauses took together; a healthy broker may pause now and then.",
        "slow-publish",
        least=0,
    ),
)

JUMP = 100
"""Ratio to the latency of another SEND of the producer that distinguishes a pause from a slow broker or link."""


_ONE_AT_A_TIME = 2
"""Unanswered SENDs of a client that waits for each receipt."""

_FASTER = 10
"""Ratio to the fastest latency at which a SEND counts as held back."""


class ReplicationLag(msgspec.Struct):
    """Ages of the messages that a replicator sends: capture time minus publish time, ns. Only differences count, because clocks differ."""

    first: Where
    first_age: int
    last: Where
    last_age: int
    sends: int = 0

    @property
    def growth(self) -> int:
        """Growth of the age from the first message to the last, in nanoseconds."""
        return self.last_age - self.first_age


class Publisher(msgspec.Struct):
    """The SENDs of one producer, and their answers."""

    topic: str | None = None
    name: str | None = None
    latencies: Counter[int] = msgspec.field(default_factory=Counter)
    """Number of SENDs by latency in nanoseconds, rounded to three digits: at most a few thousand different values."""
    slowest: tuple[int, Where, str, str] | None = None
    """(latency, SEND, its answer, entry)."""
    answered_at: int = 0
    """Time of the first answer, in nanoseconds."""
    latest: ExchangeRow | None = None
    """The SEND that was answered last. Outputs may have changed its times."""
    latest_at: int = 0
    """Time of that answer, in nanoseconds."""
    earlier_at: int = 0
    """Time of the latest receipt for a SEND that the capture lacks, in nanoseconds."""
    in_flight: int = 0
    in_flight_max: int = 0
    """Maximum number of unanswered SENDs at a time."""
    unanswered: list[Where] = msgspec.field(default_factory=list)
    reset: Where | None = None
    """Latest PRODUCER or CLOSE_PRODUCER: a client resends what it had sent before it."""
    closed: bool = False
    ages: Ages = msgspec.field(default_factory=Ages)
    lag: ReplicationLag | None = None
    """Ages of a replicator's messages; None for other producers."""
    is_known: bool = False
    """True after its first SEND, which shows whether it is a replicator."""

    @property
    def is_plain(self) -> bool:
        """True when its SENDs and their answers are only counted, unless a latency is unusual."""
        return self.is_known and self.lag is None and not self.closed and self.slowest is not None

    @property
    def replicates(self) -> bool:
        """True for a replicator, known by its messages or its name."""
        return self.lag is not None or is_replicator(self.name)

    @property
    def title(self) -> str:
        """Name of the producer in a sentence."""
        return f"{'Replicator' if self.replicates else 'Producer'} {self.name or '?'}{f' on {self.topic}' if self.topic else ''}"

    def is_resent(self, send: Where) -> bool:
        """Return True when the client will resend this SEND."""
        reset = self.reset
        return reset is not None and (send.file, send.packet, send.sub) < (reset.file, reset.packet, reset.sub)

    def is_queue(self, late: Where, since: int) -> bool:
        """Return True when receipts for earlier SENDs than this one still came after a time: brokers send them in order."""
        latest = self.latest
        if latest is None:
            return self.earlier_at >= since
        is_earlier = (latest.file, latest.packet, latest.sub) < (late.file, late.packet, late.sub)
        return is_earlier and max(self.latest_at, self.earlier_at) >= since

    def is_passed_over(self, send: Where) -> bool:
        """Return True when a later SEND than this one got its receipt: brokers send those in order, but errors at once."""
        latest = self.latest
        if latest is None or latest.status != "ok" or self.replicates:
            return False
        return (send.file, send.packet, send.sub) < (latest.file, latest.packet, latest.sub)

    def waiting(self, sends: Sequence[Where], end: int, answer_ns: int, thresholds: Thresholds) -> list[Where]:
        """Return those of some SENDs without an answer that have waited for too long at a time, all in nanoseconds."""
        passed_ns = min(answer_ns, thresholds.ns("send-unanswered-passed-seconds"))
        return [send for send in sends if end - send.time > (passed_ns if self.is_passed_over(send) else answer_ns)]

    def unanswered_evidence(self, late: Sequence[Where], waited: int) -> dict[str, Any]:
        """Return the evidence for SENDs without an answer, of which the first waited for a time, in nanoseconds."""
        names = {"topic": self.topic, "producer_name": self.name}
        return {"frames": frame_names(where.name for where in late), **names, "count": len(late), "waited_ns": waited}

    def unanswered_text(self, late: Sequence[Where], waited: int, *, is_queue: bool) -> str:
        """Return the sentence about SENDs without an answer, of which the first waited for a time, in nanoseconds."""
        if not is_queue:
            rest = f"though the connection went on for {duration(waited)} after the first"
            if passed := sum(map(self.is_passed_over, late)):
                rest += f", and later SENDs than {f'{passed:,} of these' if passed < len(late) else 'these'} were answered"
            return f"{self.title} got no answer to {plural(len(late), 'SEND')}, {rest}"
        text = f"{self.title} waits for its receipts: those of earlier SENDs came up to the end"
        return f"{text}, and none of {plural(len(late), 'later one')}, the first after {duration(waited)}"


class SlowPublisher(NamedTuple):
    """The finding on a slow producer, without the parts that the end of the connection adds."""

    code: str
    where: Where
    text: str
    evidence: dict[str, Any]
    latency: int
    """Latency of the slowest SEND, whose place is `where`."""
    entry: str
    is_held_back: bool
    """True when many SENDs wait equally long, see `slow-publish-held-seconds`."""
    pauses: bool
    """True when SENDs wait again and again, see `slow-publish-pauses`."""

    def may_take(self, waited: int) -> bool:
        """Return True when a SEND may wait for so long, in nanoseconds, for its turn: no longer than the slowest, nor than is usual.

        The waits behind a growing queue have a median of half the longest one. A pause before leaves the median; several are usual.
        """
        return bool(waited <= (self.latency if self.pauses else min(self.latency, 2 * self.evidence["p50_ns"])))


_LIMITS = ("slow-publish-seconds", "slow-publish-longest-seconds", "slow-publish-jump-seconds", "slow-publish-held-seconds")
"""Latency thresholds; a SEND of a slow producer exceeds one of them."""


def note_lag(publisher: Publisher, row: FrameRow) -> None:
    """Note the age of a replicator's message, which names its cluster of origin."""
    metadata = row.metadata or {}
    published = metadata.get("publish_time")
    if not metadata.get("replicated_from") or type(published) is not int:
        return
    where, age = where_of(row), row.time - published * 1_000_000
    if publisher.lag is None:
        publisher.lag = ReplicationLag(where, age, where, age)
    lag = publisher.lag
    lag.last, lag.last_age, lag.sends = where, age, lag.sends + 1


def _is_held_back(publisher: Publisher, sends: int, thresholds: Thresholds) -> bool:
    """Return True when many SENDs wait equally long although the broker can be far faster, which suggests a publish rate limit."""
    held = max(thresholds.ns("slow-publish-held-seconds"), _FASTER * min(publisher.latencies))
    slow = Counter({latency: times for latency, times in publisher.latencies.items() if latency >= held})
    least = max(thresholds["slow-publish-sends"], sum(slow.values()) / 2)
    if publisher.in_flight_max > _ONE_AT_A_TIME or 3 * sum(slow.values()) < sends or sends < least:
        return False
    usual = percentile(slow, 50)
    return sum(times for latency, times in slow.items() if 5 * abs(latency - usual) <= usual) >= least


def _pauses(publisher: Publisher, thresholds: Thresholds) -> tuple[int, int]:
    """Return in how many pauses SENDs waited for too long, and for how many nanoseconds in all: at least, if all in flight waited."""
    slow = [(latency, times) for latency, times in publisher.latencies.items() if latency > thresholds.ns("slow-publish-seconds")]
    most = max(publisher.in_flight_max, 1)
    return sum(times for _, times in slow) // most, sum(latency * times for latency, times in slow) // most


def _is_one_pause(publisher: Publisher, median: int, longest: int, thresholds: Thresholds) -> bool:
    """Return True when the few SENDs that waited long may have waited at the same time, for no longer than healthy brokers pause."""
    slow_ns = thresholds.ns("slow-publish-seconds")
    if publisher.replicates or median > slow_ns or longest > thresholds.ns("slow-publish-jump-seconds"):
        return False
    return sum(times for latency, times in publisher.latencies.items() if latency > slow_ns) <= publisher.in_flight_max


def evaluate_latency(publisher: Publisher, thresholds: Thresholds) -> SlowPublisher | None:
    """Return the finding on a producer, if it is slow."""
    if publisher.slowest is None:
        return None
    longest, where, answer, entry = publisher.slowest
    if max(longest, max(publisher.latencies, default=0)) < min(map(thresholds.ns, _LIMITS)):
        return None  # none of its SENDs is slow by any limit, as for most producers
    sends = sum(publisher.latencies.values())
    median, high = percentile(publisher.latencies, 50), percentile(publisher.latencies, 99)
    slow_ns = thresholds.ns("slow-publish-seconds")
    pauses, paused = _pauses(publisher, thresholds)
    share = thresholds["slow-publish-paused-share"] * (publisher.latest_at - publisher.answered_at)
    goes_on = median <= slow_ns and pauses >= thresholds["slow-publish-pauses"] and paused > share
    if sends >= thresholds["slow-publish-sends"] and high > slow_ns and not _is_one_pause(publisher, median, longest, thresholds):
        deciding = thresholds.evidence("slow-publish-seconds", "slow-publish-sends")
    elif sends >= thresholds["slow-publish-median-sends"] and median > slow_ns:
        deciding = thresholds.evidence("slow-publish-seconds", "slow-publish-median-sends")
    elif longest > thresholds.ns("slow-publish-longest-seconds"):
        deciding = thresholds.evidence("slow-publish-longest-seconds")
    elif longest > max(thresholds.ns("slow-publish-jump-seconds"), JUMP * min(publisher.latencies)):
        deciding = thresholds.evidence("slow-publish-jump-seconds")
    elif goes_on and not publisher.replicates:
        deciding = thresholds.evidence("slow-publish-pauses", "slow-publish-paused-share", "slow-publish-seconds")
    elif _is_held_back(publisher, sends, thresholds):
        deciding = thresholds.evidence("slow-publish-held-seconds", "slow-publish-sends")
    else:
        return None
    evidence: dict[str, Any] = {
        "frames": [where.name, answer],
        "topic": publisher.topic,
        "producer_name": publisher.name,
        "sends": sends,
        "p50_ns": median,
        "p99_ns": high,
        "max_ns": longest,
        "in_flight_max": publisher.in_flight_max,
        **deciding,
    }
    text = (
        f"{publisher.title} waits for its receipts: half of {plural(sends, 'SEND')} at least {duration(median)}, "
        f"one in a hundred {duration(high)}, the slowest {duration(longest)}, with up to {publisher.in_flight_max:,} in flight"
    )
    text += f", in at least {pauses:,} pauses" if goes_on else ""
    code = "replication-stalled" if publisher.replicates else "slow-publish"
    return SlowPublisher(code, where, text, evidence, longest, entry, _is_held_back(publisher, sends, thresholds), goes_on)
