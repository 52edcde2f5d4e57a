"""Messages that come again: who asks for them, how often, in which period, and which end as dead letters."""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from statistics import median
from typing import ClassVar

import msgspec

from pulsarscope.dissect.rules import Handlers, RuleContext, Where, where_of
from pulsarscope.model.findings import NOTE, WARNING, Code, table
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.protocols.pulsar.rules.consumers import Consumer, ConsumerRule, Position, position_of
from pulsarscope.protocols.pulsar.rules.phrases import SHOWN_MAX, count, frames, seconds

CODES = table(
    Code(
        "redelivery-storm",
        WARNING,
        "session",
        "A consumer gets the same messages again and again.",
        "Look at what the application does with the named message; a longer ack timeout, a backoff or a dead letter topic breaks the loop.",
    ),
    Code(
        "redeliver-all",
        NOTE,
        "session",
        "A client asked for all of a consumer's unacknowledged messages again.",
        "All that it holds is sent again. Exclusive and failover consumers ask so for one negative acknowledgement or ack timeout; "
        "any other does when the application calls redeliverUnacknowledgedMessages.",
    ),
    Code(
        "dead-lettered",
        NOTE,
        "session",
        "A consumer gave a message up and moved it to a dead letter topic.",
        "The properties of the message name the topic and the id that it came from.",
    ),
)

COUNT_STORM = 20
"""Redelivery count of one message: dead letter policies give up at 16 at the latest by default."""

ALL_STORM = 10
"""Requests for everything, by one consumer."""

WINDOW_NS = 10_000_000_000
"""Redeliveries are counted in spans of this length."""

WINDOW_STORM = 100
"""Redeliveries within one, if they are at least half of what was delivered and asked for several times."""

WINDOW_REQUESTS = 3
"""A failover asks once."""

TIMES_MAX = 33
"""Latest requests whose times are kept, to see a period."""

PERIOD_MIN = 5
"""Intervals that make a period."""

TOPICS_MAX = 1_000
"""Dead letter topics told apart on one connection."""


class Repeating(Consumer):
    """What came again to a consumer."""

    requests: list[Where] = msgspec.field(default_factory=list)
    """The first of them."""
    request_count: int = 0
    asked: int = 0
    """Ids in all of them."""
    all_requests: list[Where] = msgspec.field(default_factory=list)
    all_count: int = 0
    times: deque[int] = msgspec.field(default_factory=lambda: deque(maxlen=TIMES_MAX))
    deliveries: int = 0
    redelivered: int = 0
    highest: int = 0
    """Largest redelivery count, of which message, and where."""
    highest_id: Position = (-1, -1)
    highest_at: Where | None = None
    window: int = 0
    """When the span began; what happened in it."""
    window_deliveries: int = 0
    window_redelivered: int = 0
    window_requests: int = 0
    peak: int = 0
    """Most redeliveries in a span that was a storm."""
    said: bool = False


class DeadLetters(msgspec.Struct):
    """Messages moved to one topic."""

    frames: list[Where]
    origin: str | None
    count: int = 0


class Redelivery(ConsumerRule[Repeating]):
    """Follows one connection."""

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context, Repeating)
        self._dead: dict[str, DeadLetters] = {}

    def review(self, consumer: Repeating, now: int, *, ending: bool) -> None:  # noqa: ARG002 - counts, not waiting times
        """See `ConsumerRule`."""
        if not consumer.said and (consumer.highest >= COUNT_STORM or consumer.peak or consumer.all_count >= ALL_STORM):
            consumer.said = True
            self._report_storm(consumer)
        if ending and consumer.all_requests:
            times = "once" if consumer.all_count == 1 else f"{consumer.all_count} times"
            text = f"{consumer.title} was to get all its unacknowledged messages again: its client asked {times}."
            named = frames(where.name for where in consumer.all_requests)
            evidence = {"frames": named, **consumer.evidence, "count": consumer.all_count, "subscription_type": consumer.kind}
            self.context.report("redeliver-all", consumer.all_requests[0], text, evidence)

    def end(self, row: ConnectionRow, last: Where) -> None:
        """See `ConnectionRule`."""
        super().end(row, last)
        for topic, dead in self._dead.items():
            origin = f" from {dead.origin}" if dead.origin else ""
            text = f"{count(dead.count, 'message')}{origin} went to the dead letter topic {topic}."
            evidence = {"frames": [where.name for where in dead.frames], "topic": topic, "origin": dead.origin, "count": dead.count}
            self.context.report("dead-lettered", dead.frames[0], text, evidence)

    def _message(self, row: FrameRow) -> None:
        consumer = self.find_or_add(row)
        fields = row.fields or {}
        again = fields.get("redelivery_count", 0)
        consumer.deliveries += 1
        self._span(consumer, row.time or 0)
        consumer.window_deliveries += 1
        if again <= 0:
            return
        consumer.redelivered += 1
        consumer.window_redelivered += 1
        if again > consumer.highest:
            consumer.highest, consumer.highest_at = again, where_of(row)
            consumer.highest_id = position_of(fields.get("message_id") or {})
        found = consumer.window_redelivered
        if found >= WINDOW_STORM and 2 * found >= consumer.window_deliveries and consumer.window_requests >= WINDOW_REQUESTS:
            consumer.peak = max(consumer.peak, found)

    def _redeliver(self, row: FrameRow) -> None:
        consumer = self.find_or_add(row)
        ids = (row.fields or {}).get("message_ids") or ()
        where = where_of(row)
        self._span(consumer, where.time)
        consumer.window_requests += 1
        consumer.request_count += 1
        consumer.asked += len(ids)
        consumer.times.append(where.time)
        if len(consumer.requests) < SHOWN_MAX:
            consumer.requests.append(where)
        if not ids:
            consumer.all_count += 1
            if len(consumer.all_requests) < SHOWN_MAX:
                consumer.all_requests.append(where)

    @staticmethod
    def _span(consumer: Repeating, now: int) -> None:
        if now - consumer.window > WINDOW_NS:
            consumer.window = now
            consumer.window_deliveries = consumer.window_redelivered = consumer.window_requests = 0

    def _report_storm(self, consumer: Repeating) -> None:
        period = period_of(list(consumer.times))
        ledger, entry = consumer.highest_id
        text = f"{consumer.title} got {consumer.redelivered} of its {consumer.deliveries} entries again"
        if consumer.highest:
            text += f", {ledger}:{entry} as often as {consumer.highest} times"
        if consumer.request_count:
            text += f": its client asked {count(consumer.request_count, 'time')}" + (f", about every {seconds(period)}" if period else "")
        else:
            text += ", though its client did not ask: another consumer of the subscription does, or consumers come and go"
        where = consumer.highest_at or consumer.requests[0]
        evidence = {
            "frames": frames([where.name, *(one.name for one in consumer.requests)]),
            **consumer.evidence,
            "requests": consumer.request_count,
            "ids_asked": consumer.asked,
            "asked_for_all": consumer.all_count,
            "deliveries": consumer.deliveries,
            "redelivered": consumer.redelivered,
            "most_in_10_s": consumer.peak or None,
            "message_id": [ledger, entry],
            "redelivery_count": consumer.highest,
            "period_ns": period,
        }
        self.context.report("redelivery-storm", where, self.qualified(text), evidence)

    def _send(self, row: FrameRow) -> None:
        metadata, topic = row.metadata or {}, row.topic or ""
        named = metadata.get("properties")
        if not named and not topic.endswith("-DLQ"):
            return
        properties = {one.get("key"): one.get("value") for one in named or ()}
        # What is to be retried has the same properties, and comes later.
        moved = "REAL_TOPIC" in properties and "ORIGIN_MESSAGE_ID" in properties and "deliver_at_time" not in metadata
        if not (moved or topic.endswith("-DLQ")) or (topic not in self._dead and len(self._dead) >= TOPICS_MAX):
            return
        dead = self._dead.setdefault(topic, DeadLetters([], properties.get("REAL_TOPIC")))
        dead.count += 1
        if len(dead.frames) < SHOWN_MAX:
            dead.frames.append(where_of(row))

    frames: ClassVar[Handlers] = {
        **ConsumerRule.frames,
        "MESSAGE": _message,
        "REDELIVER_UNACKNOWLEDGED_MESSAGES": _redeliver,
        "SEND": _send,
    }


def period_of(times: list[int]) -> int | None:
    """Nanoseconds between requests when most come at equal intervals, as those of an ack timeout do."""
    intervals = [after - before for before, after in pairwise(times)]
    if len(intervals) < PERIOD_MIN:
        return None
    middle = int(median(intervals))
    regular = sum(abs(interval - middle) * 5 <= middle for interval in intervals)
    return middle if middle > 0 and regular * 5 >= len(intervals) * 4 else None
