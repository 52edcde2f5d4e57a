"""Consumers that work more slowly than their messages arrive: the number of their unacknowledged messages keeps growing."""

from __future__ import annotations

from itertools import pairwise

import msgspec

from pulsarscope.dissect.contract.rules import RuleContext, Where
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import counted, in_seconds
from pulsarscope.protocols.pulsar.rules.evidence import may_lack
from pulsarscope.protocols.pulsar.rules.subscriptions.consumers import ConsumerState

CODES = table(
    SESSION.warning(
        "consumer-behind",
        "A consumer acknowledges more slowly than messages are published for it and falls further and further behind, or holds many "
        "that others of its subscription could have.",
        "Look at what its application does for each message, or let more consumers share the subscription: a smaller receiver queue "
        "leaves more to the others. With Key_Shared, all messages of a key wait for one consumer. On a long way, a larger queue gets more "
        "in each round trip.",
        ("backlog-growing",),
        to_act="the consumer's application",
    ),
)

_BEHIND = ("consumer-behind",)

THRESHOLDS = (
    in_seconds("consumer-behind-seconds", 3, "Time over which deliveries outnumber ACKs; bursts of messages are shorter.", *_BEHIND),
    counted(
        "consumer-behind-messages",
        20,
        "messages",
        "Messages by which the consumer falls behind in that time; an application may work on a few at once.",
        *_BEHIND,
    ),
    counted("consumer-behind-factor", 3, "times", "Messages delivered for each one acknowledged; rates vary by less.", *_BEHIND),
    in_seconds("consumer-behind-long-seconds", 5, "Time after which a lower factor, with twice as many messages, is enough.", *_BEHIND),
    counted("consumer-behind-long-factor", 1.4, "times", "Messages delivered for each one acknowledged over that longer time.", *_BEHIND),
)

MEASURED_ACKS = 5
"""Number of ACKs that show how fast a consumer is."""

MARKS_MAX = 96

PARTS = 3
"""Number of parts of the time span; the consumer must fall behind in each."""


class PaceMark(msgspec.Struct):
    """A consumer at one of its ACKs."""

    time: int
    got: int
    """Messages so far."""
    unacknowledged: int
    """Unacknowledged messages; too low if the capture lacks deliveries of acknowledged ones."""
    published: int
    """Publish time of the latest message that it got, in ms of its producer's clock."""
    acks: int
    """ACKs so far."""

    @property
    def acknowledged(self) -> int:
        """Messages so far."""
        return self.got - self.unacknowledged


class Pace(msgspec.Struct):
    """The growth of a consumer's unacknowledged messages."""

    got: int = 0
    """Messages delivered."""
    published: int = 0
    """Publish time of the latest message, in ms."""
    marks: list[PaceMark] = msgspec.field(default_factory=list)
    step: int = 1
    """ACKs from one mark to the next."""
    earlier: int = 0
    """Acknowledged messages whose delivery the capture lacks, estimated from the average of the other entries."""
    busy_since: int = 0
    """Time, in nanoseconds, since which it has held messages without interruption."""
    got_before: int = 0
    """Messages delivered before that time."""
    is_known: bool = True
    """False after a cumulative ACK of an entry whose delivery the capture lacks: it may cover any number of messages."""

    def add(self, messages: int, published: int, now: int, *, is_first: bool) -> None:
        """Add a delivery; `is_first`: the consumer held nothing before."""
        if is_first:
            self.busy_since, self.got_before = now, self.got
        self.got += messages
        self.published = published

    def while_busy(self, unacknowledged: int) -> dict[str, int]:
        """Return, as values of a fact, since when a consumer has always held messages, and how many it has acknowledged since."""
        return {"busy_since": self.busy_since, "acknowledged": self.got - self.got_before - unacknowledged}

    def note_earlier(self, deliveries: int, *, cumulative: bool) -> None:
        """Note an ACK of entries whose delivery the capture lacks."""
        self.earlier += max(self.got // max(deliveries, 1), 1)
        self.is_known &= not cumulative

    def note(self, now: int, unacknowledged: int, acks: int) -> None:
        """Keep a mark at every `step`-th ACK."""
        if acks % self.step:
            return
        self.marks.append(self.mark(now, unacknowledged, acks))
        if len(self.marks) > MARKS_MAX:
            del self.marks[1::2]
            self.step *= 2

    def mark(self, now: int, unacknowledged: int, acks: int) -> PaceMark:
        """Return a mark of the current state."""
        return PaceMark(now, self.got, unacknowledged - self.earlier, self.published, acks)


def report_slow(context: RuleContext, consumer: ConsumerState, pace: Pace, now: PaceMark, longest: int, oldest: Where) -> bool:
    """Report a consumer whose unacknowledged messages grow in number; return True for such a consumer.

    `longest`: longest time between two of its ACKs; `oldest`: oldest delivery that it holds.
    """
    if not pace.marks or not pace.is_known:
        return False
    thresholds = context.thresholds
    marks = [*pace.marks, now]
    begin = max(range(len(pace.marks)), key=lambda index: (-marks[index].unacknowledged, index))  # it kept up until then
    least = int(thresholds["consumer-behind-messages"])
    end = _end_of_growth(marks, begin, least)
    first, last = marks[begin], marks[end]
    span, grown, got = last.time - first.time, last.unacknowledged - first.unacknowledged, last.got - first.got
    acknowledged = got - grown
    if last.acks - first.acks < MEASURED_ACKS or span < thresholds.ns("consumer-behind-seconds"):
        return False
    is_long = span >= thresholds.ns("consumer-behind-long-seconds") and grown >= 2 * least
    factor = thresholds["consumer-behind-long-factor" if is_long else "consumer-behind-factor"]
    if grown < least or got < factor * max(acknowledged, 1):
        return False
    if PARTS * max(longest, now.time - pace.marks[-1].time) > span:
        return False  # it acknowledges in groups, or stopped
    if PARTS * min(mark.unacknowledged - first.unacknowledged for mark in marks[end:]) < grown:
        return False  # it caught up
    at = [next(mark for mark in reversed(marks) if mark.time <= first.time + span * part // PARTS) for part in range(PARTS + 1)]
    is_steady = all(2 * PARTS * (after.unacknowledged - before.unacknowledged) >= grown for before, after in pairwise(at))
    is_starting = 2 * PARTS * (at[1].acknowledged - first.acknowledged) < acknowledged  # it holds all together, each for a long time
    fresh = (last.published - first.published) * 1_000_000  # an old backlog is delivered faster than it was published
    if not is_steady or is_starting or not span <= 2 * fresh <= 4 * span or _is_burst(marks[0], first, last):
        return False
    if may_lack(context, first.time, last.time):
        return False
    waiting = now.unacknowledged + pace.earlier
    text = f"{consumer.title} got {plural(got, 'message')} in {duration(span)} and acknowledged {acknowledged:,}: "
    text += f"{waiting:,} wait for its application."
    evidence = {
        "frames": [oldest.name],
        **consumer.evidence,
        "delivered": got,
        "acknowledged": acknowledged,
        "unacknowledged": waiting,
        "span_ns": span,
        "act": "client",
    }
    decided = thresholds.evidence(*(threshold.name for threshold in THRESHOLDS))
    context.report("consumer-behind", oldest, text, evidence | decided)
    return True


def _end_of_growth(marks: list[PaceMark], begin: int, least: int) -> int:
    """Return the index of the mark from which the number of unacknowledged messages no longer grows, after it grew by at least `least`.

    A full queue is refilled when a part of it, often half, has been processed; small numbers go up and down all the time.
    """
    end = begin
    for index in range(begin, len(marks)):
        waiting, most = marks[index].unacknowledged, marks[end].unacknowledged
        if waiting >= most:
            end = index
        elif most - marks[begin].unacknowledged >= least and 5 * waiting < 4 * most:
            break
    return end


def _is_burst(begin: PaceMark, first: PaceMark, last: PaceMark) -> bool:
    """Return True when messages come at twice the rate of the preceding period of the same length."""
    before, span = first.time - begin.time, last.time - first.time
    return before >= span and (last.got - first.got) * before > 2 * (first.got - begin.got) * span
