"""What a consumer was given and has not acknowledged: all of it, or one message in the midst of others that it did acknowledge."""

from __future__ import annotations

import json
from typing import ClassVar

import msgspec

from pulsarscope.dissect.rules import Handlers, RuleContext, Where, where_of
from pulsarscope.model.findings import WARNING, Code, table
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.protocols.pulsar.rules.consumers import SHARING, Consumer, ConsumerRule, Position, bitmap, indexes_of, position_of
from pulsarscope.protocols.pulsar.rules.phrases import SHOWN_MAX, count, seconds
from pulsarscope.protocols.pulsar.rules.subscription_limit import HELD, TELL_STEP

CODES = table(
    Code(
        "consumer-not-acking",
        WARNING,
        "session",
        "A consumer acknowledges nothing of what it was given, or has reached the limit of what it may leave unacknowledged.",
        "Look at the application: it must acknowledge; at 50,000 messages a consumer, or 200,000 a subscription, brokers send no more.",
    ),
    Code(
        "ack-hole",
        WARNING,
        "session",
        "A message is long unacknowledged while later ones are acknowledged: the subscription's backlog cannot be deleted behind it.",
        "Find out what the application did with this message id; an ack timeout or a negative acknowledgement would bring it again.",
    ),
)

CLOSED_NS = 5_000_000_000
"""A consumer that ends, so long after its first delivery, without an acknowledgement; clients group them for 0.1 s."""

STALLED_NS = 60_000_000_000
"""One that lives and acknowledges nothing for so long: longer than applications take for a message."""

NOT_ACKING_MIN = 5
"""Messages given to it: an application may well take long for a few."""

HOLE_NS = 90_000_000_000
"""A negative acknowledgement brings a message back after 60 s by default: what is out for longer was forgotten."""

HOLE_LATER_MIN = 10
"""Later entries acknowledged around it: fewer may be a slow application that works on several at once."""

CONSUMER_LIMIT = 50_000
"""maxUnackedMessagesPerConsumer of the broker by default; it holds for Shared and Key_Shared."""

KEPT_MAX = 200_000
"""Unacknowledged entries kept of one connection: four consumers at the limit of the broker. Later ones are not kept: the oldest tell."""


class Given(msgspec.Struct):
    """An entry that a consumer has not acknowledged."""

    where: Where
    number: int
    """Of the delivery to this consumer, from 1."""
    messages: int
    """Not acknowledged."""
    left: int | None = None
    """Bitmap of them; None: all. A bitmap costs as much on the wire, so that these cannot fill the memory."""


class Holding(Consumer):
    """A consumer and what it holds."""

    given: dict[Position, Given] = msgspec.field(default_factory=dict)
    """By id, in the order of their (latest) delivery."""
    deliveries: int = 0
    messages: int = 0
    """Given and not acknowledged."""
    acknowledged_at: int = 0
    """Time of its latest ACK; 0: there was none."""
    out_of_sight: int = 0
    """Entries that are not held and were not acknowledged either: given back, or not kept."""
    told: int = 0
    """Messages that it was told across connections to hold."""
    said: bool = False
    hole_said: bool = False


class Unacked(ConsumerRule[Holding]):
    """Keeps what each consumer of a connection holds."""

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context, Holding)
        self._kept = 0

    def review(self, consumer: Holding, now: int, *, ending: bool) -> None:
        """See `ConsumerRule`."""
        if ending:
            self._kept -= len(consumer.given)
        if not consumer.given or not consumer.persistent:
            return
        position, oldest = next(iter(consumer.given.items()))
        age = now - oldest.where.time
        limit = CLOSED_NS if ending and not consumer.acknowledged_at else STALLED_NS
        silent = min(age, now - consumer.acknowledged_at) >= limit
        if silent and consumer.messages >= NOT_ACKING_MIN:
            self._report_not_acking(consumer, position, oldest, now)
        elif age >= HOLE_NS and consumer.kind in SHARING and not consumer.hole_said:
            later = consumer.deliveries - oldest.number - (len(consumer.given) - 1) - consumer.out_of_sight
            if later >= HOLE_LATER_MIN:
                self._report_hole(consumer, position, oldest, age, later)

    def closed(self, consumer: Holding, row: FrameRow) -> None:
        """See `ConsumerRule`."""
        self._emit(consumer, where_of(row), 0)

    def end(self, row: ConnectionRow, last: Where) -> None:
        """See `ConnectionRule`."""
        super().end(row, last)
        if row.closed != "open":
            for consumer in self.consumers.values():
                self._emit(consumer, last, 0)

    def _message(self, row: FrameRow) -> None:
        consumer = self.find(row)
        if consumer is None:
            return
        fields = row.fields or {}
        left = bitmap(fields["ack_set"]) if fields.get("ack_set") else None
        messages = max(row.num_messages or 1, 1) if left is None else left.bit_count()
        position = position_of(fields.get("message_id") or {})
        if self._take(consumer, position) is not None:
            consumer.out_of_sight += 1
        consumer.deliveries += 1
        if self._kept < KEPT_MAX:
            self._kept += 1
            consumer.given[position] = Given(where_of(row), consumer.deliveries, messages, left)
            consumer.messages += messages
        else:
            consumer.out_of_sight += 1
        if consumer.messages >= CONSUMER_LIMIT and consumer.kind in SHARING and not consumer.said:
            position, oldest = next(iter(consumer.given.items()))
            self._report_not_acking(consumer, position, oldest, row.time or 0)
        self._emit(consumer, where_of(row), consumer.messages)

    def _ack(self, row: FrameRow) -> None:
        consumer = self.find(row)
        if consumer is None:
            return
        fields = row.fields or {}
        for one in fields.get("message_id") or ():
            position = position_of(one)
            if fields.get("ack_type") == "Cumulative":
                while consumer.given and (first := next(iter(consumer.given))) < position:
                    self._take(consumer, first)
            self._acknowledge(consumer, position, one.get("ack_set"))
        consumer.acknowledged_at = row.time or 0
        self._emit(consumer, where_of(row), consumer.messages)

    def _redeliver(self, row: FrameRow) -> None:
        """The client gives these back; they are held again when they are delivered again."""
        consumer = self.find(row)
        if consumer is None:
            return
        for position in [position_of(one) for one in (row.fields or {}).get("message_ids") or ()] or list(consumer.given):
            if self._take(consumer, position) is not None:
                consumer.out_of_sight += 1

    def _emit(self, consumer: Holding, where: Where, messages: int) -> None:
        """Emit across connections how much it holds, when that has changed much."""
        changed = abs(messages - consumer.told) >= TELL_STEP or messages == 0 < consumer.told
        if changed and consumer.kind in SHARING and consumer.topic is not None:
            consumer.told = messages
            values = {**consumer.evidence, "messages": messages}
            self.context.emit_fact(HELD, json.dumps([consumer.topic, consumer.subscription]), where, "holds", values)

    def _take(self, consumer: Holding, position: Position) -> Given | None:
        given = consumer.given.pop(position, None)
        if given is not None:
            self._kept -= 1
            consumer.messages -= given.messages
        return given

    def _acknowledge(self, consumer: Holding, position: Position, ack_set: list[int] | None = None) -> None:
        given = consumer.given.get(position)
        if given is None:
            return
        left = bitmap(ack_set) if ack_set else 0
        if given.left is not None:
            left &= given.left
        if left:
            consumer.messages += left.bit_count() - given.messages
            given.left, given.messages = left, left.bit_count()
        else:
            self._take(consumer, position)

    def _report_not_acking(self, consumer: Holding, position: Position, oldest: Given, now: int) -> None:
        if consumer.said:
            return
        consumer.said = True
        ledger, entry = position
        age = now - oldest.where.time
        text = (
            f"{consumer.title} has {count(consumer.messages, 'message')} unacknowledged, the oldest ({ledger}:{entry}) for {seconds(age)}"
        )
        if not consumer.acknowledged_at:
            text += ", and acknowledged none"
        elif now > consumer.acknowledged_at:
            text += f", and its latest ACK was {seconds(now - consumer.acknowledged_at)} before"
        if consumer.messages >= CONSUMER_LIMIT:
            text += f": the broker's default limit of {CONSUMER_LIMIT:,} is reached, it sends no more"
        evidence = {
            "frames": [oldest.where.name],
            **consumer.evidence,
            "unacknowledged": consumer.messages,
            "oldest": [ledger, entry],
            "oldest_age_ns": age,
            "limit": CONSUMER_LIMIT if consumer.kind in SHARING else None,
            "message_ids": list(consumer.given)[:SHOWN_MAX],
            "act": "client",
        }
        self.context.report("consumer-not-acking", oldest.where, self.qualified(text), evidence)

    def _report_hole(self, consumer: Holding, position: Position, oldest: Given, age: int, later: int) -> None:
        consumer.hole_said = True
        ledger, entry = position
        text = f"{consumer.title} holds {ledger}:{entry} unacknowledged for {seconds(age)}, though it acknowledged {later} later entries"
        evidence = {
            "frames": [oldest.where.name],
            **consumer.evidence,
            "message_id": [ledger, entry],
            "batch_indexes": None if oldest.left is None else indexes_of(oldest.left, SHOWN_MAX),
            "age_ns": age,
            "later_acknowledged": later,
            "holes": list(consumer.given)[:SHOWN_MAX],
            "unacknowledged": consumer.messages,
            "act": "client",
        }
        self.context.report("ack-hole", oldest.where, self.qualified(text), evidence)

    frames: ClassVar[Handlers] = {**ConsumerRule.frames, "MESSAGE": _message, "ACK": _ack, "REDELIVER_UNACKNOWLEDGED_MESSAGES": _redeliver}
