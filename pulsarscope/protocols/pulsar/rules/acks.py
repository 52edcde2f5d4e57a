"""Did the acknowledgement arrive: ACKs without an answer, refused, for a consumer that is closed, or reporting damage."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

import msgspec

from pulsarscope.dissect.rules import Handlers, RuleContext, Where, where_of
from pulsarscope.model.findings import ERROR, WARNING, Code, table
from pulsarscope.model.flow import CLIENT
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FrameRow
from pulsarscope.protocols.pulsar.rules.consumers import CONSUMERS_MAX, Consumer, ConsumerRule, position_of
from pulsarscope.protocols.pulsar.rules.phrases import SHOWN_MAX, count, seconds, some
from pulsarscope.protocols.pulsar.rules.transactions import told_here

CODES = table(
    Code(
        "ack-unanswered",
        WARNING,
        "session",
        "An ACK that asked for a response got none while the connection went on.",
        "The messages may come again: the client cannot know whether the broker has the acknowledgement.",
    ),
    Code(
        "ack-failed",
        ERROR,
        "session",
        "The broker refused an ACK.",
        "The error says why; the messages will be delivered again.",
    ),
    Code(
        "ack-after-close",
        WARNING,
        "session",
        "An ACK came for a consumer that was closed: the broker ignores it, and the messages are delivered again.",
        "Wait for outstanding acknowledgements before the consumer is closed; after an unload, receive again what was not acknowledged.",
    ),
    Code(
        "consumer-corrupt",
        ERROR,
        "session",
        "A consumer acknowledged a message because it could not read it: the application never sees it.",
        "Look at the checksum and the payload findings of that MESSAGE, and of the SEND that produced it; compare client versions.",
    ),
)

ANSWER_NS = 1_000_000_000
"""An ACK may still be answered within so long behind the end of the capture."""

CORRUPT_MAX = 25
"""Findings about unreadable messages that one connection gives: the first ones tell the cause, and a client may loop."""

CROSSING_NS = 1_000_000_000
"""An ACK so soon behind the broker's CLOSE_CONSUMER may have been on its way."""


class Acknowledging(Consumer):
    """A consumer; when it is closed, and how many ACKs still came."""

    closed: Where | None = None
    closed_by: str | None = None
    late: int = 0
    late_frames: list[str] = msgspec.field(default_factory=list)


class Acks(ConsumerRule[Acknowledging]):
    """Follows the ACKs of one connection."""

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context, Acknowledging)
        self._corrupt = 0
        self._closed: dict[int, Acknowledging] = {}
        self._unanswered: dict[tuple[str | None, str | None], list[Where]] = {}
        self._unanswered_counts: Counter[tuple[str | None, str | None]] = Counter()

    def opened(self, consumer: Acknowledging) -> None:
        """See `ConsumerRule`."""
        before = self._closed.pop(consumer.number, None)
        if before is not None:
            self._report_late(before)

    def closed(self, consumer: Acknowledging, row: FrameRow) -> None:
        """See `ConsumerRule`."""
        consumer.closed, consumer.closed_by = where_of(row), row.direction
        if len(self._closed) < CONSUMERS_MAX:
            self._closed[consumer.number] = consumer

    def end(self, row: ConnectionRow, last: Where) -> None:
        """See `ConnectionRule`."""
        super().end(row, last)
        for consumer in self._closed.values():
            self._report_late(consumer)
        for (topic, subscription), first in self._unanswered.items():
            waited = (row.end or last.time) - first[0].time
            if waited > ANSWER_NS:
                number = self._unanswered_counts[topic, subscription]
                asked = f"{count(number, 'ACK')} of subscription {subscription} on {topic}"
                text = f"{asked} asked for a response, and got none in {seconds(waited)}"
                evidence = {
                    "frames": [where.name for where in first],
                    "topic": topic,
                    "subscription": subscription,
                    "count": number,
                    "waited_ns": waited,
                }
                self.context.report("ack-unanswered", first[0], self.qualified(text), evidence)

    def _ack(self, row: FrameRow) -> None:
        fields = row.fields or {}
        number = fields.get("consumer_id", -1)
        problem = fields.get("validation_error")
        if problem is not None:
            self._report_corrupt(row, fields, problem)
        consumer = self._closed.get(number)
        if consumer is None or consumer.closed is None or number in self.consumers:
            return
        if consumer.closed_by == CLIENT or (row.time or 0) - consumer.closed.time > CROSSING_NS:
            consumer.late += 1
            if consumer.late <= SHOWN_MAX:
                consumer.late_frames.append(where_of(row).name)

    def _answered(self, row: ExchangeRow) -> None:
        if row.status == "unanswered":
            key = row.topic, row.subscription
            if key in self._unanswered or len(self._unanswered) < CONSUMERS_MAX:
                self._unanswered_counts[key] += 1
                first = self._unanswered.setdefault(key, [])
                if len(first) < SHOWN_MAX:
                    first.append(where_of(row))
        elif row.status == "error" and not told_here(row):
            where = where_of(row)
            response = f"{row.response_file}:{row.response_packet}.{row.response_sub}"
            why = f"{row.error}: {row.error_message or 'no message'}"
            text = f"An ACK of subscription {row.subscription} on {row.topic} was refused with {why}."
            evidence = {"frames": [where.name, response], "topic": row.topic, "subscription": row.subscription, "error": row.error}
            self.context.report("ack-failed", where, text, evidence)

    def _report_corrupt(self, row: FrameRow, fields: dict[str, Any], problem: object) -> None:
        self._corrupt += 1
        if self._corrupt > CORRUPT_MAX:
            return
        where = where_of(row)
        consumer = self.find(row) or Acknowledging(fields.get("consumer_id", -1), row.topic, row.subscription)
        ids = [position_of(one) for one in fields.get("message_id") or ()]
        named = some([f"{ledger}:{entry}" for ledger, entry in ids])
        text = f"{consumer.title} could not read {named or 'a message'}: {problem}."
        evidence = {"frames": [where.name], **consumer.evidence, "message_ids": ids[:SHOWN_MAX], "validation_error": problem}
        self.context.report("consumer-corrupt", where, text, evidence)

    def _report_late(self, consumer: Acknowledging) -> None:
        if consumer.late and consumer.closed is not None:
            who = "its client" if consumer.closed_by == CLIENT else "the broker"
            text = f"{consumer.title} was closed by {who}, and {count(consumer.late, 'ACK')} came after that: the broker ignores such."
            evidence = {"frames": [consumer.closed.name, *consumer.late_frames], **consumer.evidence, "count": consumer.late}
            self.context.report("ack-after-close", consumer.closed, text, evidence)

    frames: ClassVar[Handlers] = {**ConsumerRule.frames, "ACK": _ack}
    exchanges: ClassVar[Handlers] = {"ACK": _answered}
