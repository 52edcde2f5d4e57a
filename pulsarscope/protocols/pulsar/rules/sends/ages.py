"""Producers whose messages wait longer and longer before they are sent: the path carries less than the application publishes.

The age of a message is the time from its publish time, which its client sets when the application sends it, to its SEND in the capture.
Only growth counts, because clocks differ. The age of a delivery is counted from the time at which its broker stored the message, where the
broker adds it: what waited before that came late to the broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from pulsarscope.dissect.contract.rules import RuleContext, Where, where_of
from pulsarscope.model.bounded_tables import NOTHING
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.records import FrameRow
from pulsarscope.model.text import duration
from pulsarscope.model.thresholds import Thresholds, counted, in_seconds

CODES = table(
    SESSION.warning(
        "producer-behind",
        "A producer's messages wait longer and longer in their client before they are sent.",
        "The path carries less than the application publishes: look at the bandwidth between client and broker (a slow or shaped link, a "
        "full uplink, a small TCP window over a long way), then at the client's processor time. Compression and batches make it less.",
        ("data-after-close", "slow-publish"),
        to_act="the network's operators, or the producer's application",
    ),
)

_BEHIND = ("producer-behind", "delivery-behind")

THRESHOLDS = (
    in_seconds("producer-behind-seconds", 5, "Time over which messages get older; bursts are over sooner.", *_BEHIND),
    in_seconds("producer-behind-growth-seconds", 2, "Growth of their age; a queue of a healthy producer holds less.", *_BEHIND),
    counted("producer-behind-sends", 8, "messages", "SENDs of a producer, or deliveries; the ages of fewer show no trend.", *_BEHIND),
    counted(
        "producer-behind-share",
        0.2,
        "of the time",
        "Growth of their age compared with the time it takes; pauses explain less.",
        *_BEHIND,
        least=0,
    ),
)

AGES, SENT_LATE, STORED_LATE = "ages", "sent-late", "stored-late"
"""Name of the key rule about late deliveries (its keys are topics), and the facts that a producer sends later and later, and that a SEND
was answered late."""

MARKS_MAX = 64

PARTS = 3
"""Number of parts of the time span; messages must get older in each."""


_WAITS = frozenset({"replicated_from", "deliver_at_time"})
"""Metadata fields of messages that are old for another reason."""

_AT_ONCE = 0.95
"""Ratio of the growth of the age to the time span above which all messages were published at once, and a burst is worked off."""


class AgeMark(NamedTuple):
    """A SEND and the age of its message, in nanoseconds."""

    where: Where
    age: int
    rested: int = 0
    """Time for which the broker had rested until then, in nanoseconds."""


class Ages(msgspec.Struct):
    """Ages of one producer's messages, at every `step`-th SEND."""

    marks: list[AgeMark] = msgspec.field(default_factory=list)
    step: int = 1
    count: int = 0
    """Number of SENDs so far."""
    rested: int = 0
    """Time for which the broker has rested although the consumer had permits, in nanoseconds."""
    stored: bool = False
    """True when ages are counted from the time at which the broker stored the messages."""

    def due(self, count: int) -> Iterator[int]:
        """Count `count` SENDs, and yield the indexes of those to note: each must be noted before the next is yielded."""
        at = -self.count % self.step
        while at < count:
            yield at
            at += 1
            at += -(self.count + at) % self.step
        self.count += count

    def add(self, row: FrameRow) -> None:
        """Count a SEND, and note the age of its message if it is due."""
        if self.count % self.step == 0:
            self.note(row)
        self.count += 1

    def note(self, row: FrameRow) -> None:
        """Note the age of a message."""
        metadata: Mapping[str, Any] = row.metadata or {}
        stored = (row.broker_entry_metadata or NOTHING).get("broker_timestamp") if row.command == "MESSAGE" else None
        if not self.marks:
            self.stored = stored is not None
        published = stored if self.stored else metadata.get("publish_time")
        if type(published) is not int or published <= 0 or not _WAITS.isdisjoint(metadata) or (row.fields or {}).get("redelivery_count"):
            return
        self.marks.append(AgeMark(where_of(row), row.time - published * 1_000_000, self.rested))
        if len(self.marks) > MARKS_MAX:
            del self.marks[1::2]
            self.step *= 2

    def growth(self, thresholds: Thresholds) -> tuple[AgeMark, AgeMark] | None:
        """Return the marks between which the messages got steadily older without recovery afterwards; None if there are none."""
        marks = self.marks
        if self.count < thresholds["producer-behind-sends"] or not marks:
            return None
        begin = min(range(len(marks)), key=lambda index: marks[index].age)
        first, highest = marks[begin], max(mark.age for mark in marks[begin:])
        grown = highest - first.age
        last = next(mark for mark in marks[begin:] if 10 * (mark.age - first.age) >= 9 * grown)  # after it, a full queue may stay level
        span = last.where.time - first.where.time
        if span < thresholds.ns("producer-behind-seconds") or 2 * (marks[-1].age - first.age) < grown:
            return None
        if last.age - first.age < max(thresholds.ns("producer-behind-growth-seconds"), thresholds["producer-behind-share"] * span):
            return None
        if last.age - first.age > _AT_ONCE * span:
            return None
        at = [self._at(first.where.time + span * part // PARTS) for part in range(PARTS + 1)]
        is_steady = all(2 * PARTS * (after.age - before.age) >= last.age - first.age for before, after in pairwise(at))
        return (first, last) if is_steady else None

    def _at(self, time: int) -> AgeMark:
        return next((mark for mark in reversed(self.marks) if mark.where.time <= time), self.marks[0])


class Aging(NamedTuple):
    """A producer that falls behind."""

    title: str
    topic: str | None
    name: str | None
    first: AgeMark
    last: AgeMark
    sends: int

    def finding(self, rate: float) -> tuple[str, Where, str, dict[str, Any]]:
        """Return code, place, text and evidence; `rate`: bytes per second on its connection."""
        span, growth = self.last.where.time - self.first.where.time, self.last.age - self.first.age
        text = (
            f"{self.title} sends its messages later and later: within {duration(span)} their age at the SEND grew by {duration(growth)}, "
        )
        text += f"while its connection carried {8 * rate / 1000:,.0f} kbit/s."
        evidence = {
            "frames": [self.first.where.name, self.last.where.name],
            "topic": self.topic,
            "producer_name": self.name,
            "sends": self.sends,
            "growth_ns": growth,
            "span_ns": span,
            "bytes_per_second": round(rate),
        }
        return "producer-behind", self.last.where, text, evidence


def emit_stored_late(context: RuleContext, topic: str | None, where: Where, latency: int) -> None:
    """Emit that a SEND waited for its broker, if it did so for long; `latency` in nanoseconds."""
    if topic is not None and latency >= context.thresholds.ns("slow-publish-seconds"):
        context.emit_fact(AGES, topic, where, STORED_LATE, {"latency": latency})
