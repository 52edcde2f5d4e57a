"""Acknowledgements that have no effect: without a response, refused, too late, or for messages that could not be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

import msgspec

from pulsarscope.dissect.contract.rules import ColumnsHandlers, Handlers, RuleContext, Where, name_of, where_of
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.flow import CLIENT
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FrameRow
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import in_seconds
from pulsarscope.protocols.pulsar.message_ids import positions_of
from pulsarscope.protocols.pulsar.rules.evidence import SAMPLES_MAX, add_sample, answers_lost, may_lack, response_name
from pulsarscope.protocols.pulsar.rules.exchanges.transactions import is_transaction_error
from pulsarscope.protocols.pulsar.rules.subscriptions.consumers import CONSUMERS_MAX, ConsumerRule, ConsumerState
from pulsarscope.protocols.pulsar.text.formatting import error_text, listing

CODES = table(
    SESSION.warning(
        "ack-unanswered",
        "An ACK that asked for a response got none while the connection went on.",
        "The messages may come again: the client cannot know whether the broker has the acknowledgement.",
        to_act="the broker's operators",
    ),
    SESSION.error(
        "ack-failed",
        "The broker refused an ACK.",
        "The error says why; the messages will be delivered again.",
        to_act="the consumer's application, or the broker's operators",
    ),
    SESSION.warning(
        "ack-after-close",
        "An ACK came for a consumer that was closed: the broker ignores it, and the messages are delivered again.",
        "Wait for outstanding acknowledgements before the consumer is closed; after an unload, receive again what was not acknowledged.",
        to_act="the application",
    ),
    SESSION.warning(
        "ack-cumulative-shared",
        "A consumer of a Shared or Key_Shared subscription acknowledged cumulatively: the broker ignores it.",
        "Other consumers have messages in between: acknowledge each on its own. The broker's log says so, too; the client is not notified.",
        to_act="the consumer's application",
    ),
    SESSION.error(
        "consumer-corrupt",
        "A consumer acknowledged a message because it could not read it: the application never sees it.",
        "Look at the checksum and the payload findings of that MESSAGE, and of the SEND that produced it; compare client versions. After a "
        "DecryptionError, give the consumer a CryptoKeyReader with the private key.",
        to_act="the consumer's or the producer's application",
    ),
)

THRESHOLDS = (
    in_seconds(
        "ack-unanswered-seconds",
        1,
        "Time without a response up to the end of the capture; a response may still be on its way before that.",
        "ack-unanswered",
    ),
    in_seconds(
        "ack-after-close-seconds", 1, "Time after the broker closes a consumer in which an ACK may still be on its way.", "ack-after-close"
    ),
)

CORRUPT_MAX = 25
"""Most findings about unreadable messages on one connection: the first ones show the cause, and a client may loop."""


class AckState(ConsumerState):
    """A consumer, its end, and the ACKs that came after it."""

    closed: Where | None = None
    late: int = 0
    late_frames: list[str] = msgspec.field(default_factory=list)
    cumulative: int = 0
    """Number of cumulative ACKs, which a Shared or Key_Shared subscription ignores."""
    cumulative_frames: list[Where] = msgspec.field(default_factory=list)


class AckRule(ConsumerRule[AckState]):
    """A rule about the ACKs of one connection."""

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context, AckState)
        self._corrupt = 0
        self._closed: dict[int, AckState] = {}
        """Closed consumers by id."""
        self._unanswered: dict[tuple[str | None, str | None], list[Where]] = {}
        """First unanswered ACKs by topic and subscription."""
        self._unanswered_counts: Counter[tuple[str | None, str | None]] = Counter()

    def review(self, consumer: AckState, now: int, *, ending: bool) -> None:  # noqa: ARG002 - the contract's
        """Report the cumulative ACKs of a consumer at its end."""
        if ending and consumer.cumulative:
            first = consumer.cumulative_frames[0]
            acks = plural(consumer.cumulative, "cumulative ACK")
            text = f"{consumer.title} is {consumer.kind} and sent {acks}: the broker ignores these."
            evidence = {
                "frames": [where.name for where in consumer.cumulative_frames],
                **consumer.evidence,
                "count": consumer.cumulative,
                "act": "client",
            }
            self.context.report("ack-cumulative-shared", first, text, evidence)

    def opened(self, consumer: AckState) -> None:
        """Report the late ACKs of the previous consumer with this id."""
        if (previous := self._closed.pop(consumer.number, None)) is not None:
            self._report_late(previous)

    def closed(self, consumer: AckState, row: FrameRow) -> None:
        """Keep the consumer, for ACKs that come too late."""
        consumer.closed = where_of(row)
        if len(self._closed) < CONSUMERS_MAX:
            self._closed[consumer.number] = consumer

    def end(self, row: ConnectionRow, last: Where) -> None:
        """Report late and unanswered ACKs."""
        super().end(row, last)
        for consumer in self._closed.values():
            self._report_late(consumer)
        for (topic, subscription), first in self._unanswered.items():
            waited = row.end - first[0].time
            if self._unanswered_counts[topic, subscription] <= answers_lost(self.context, first[0].time):
                continue
            if waited > self.context.thresholds.ns("ack-unanswered-seconds"):
                number = self._unanswered_counts[topic, subscription]
                acks = f"{plural(number, 'ACK')} of subscription {subscription} on {topic}"
                text = f"{acks} asked for a response, and got none in {duration(waited)}"
                evidence = {
                    "frames": [where.name for where in first],
                    "topic": topic,
                    "subscription": subscription,
                    "count": number,
                    "waited_ns": waited,
                }
                self.context.report("ack-unanswered", first[0], self.sentence(text), evidence)

    def _ack(self, row: FrameRow) -> None:
        fields = row.fields or {}
        number = fields.get("consumer_id", -1)
        if (error := fields.get("validation_error")) is not None:
            self._report_corrupt(row, fields, error)
        if (consumer := self.find(row)) is not None and consumer.ignores(fields):
            consumer.cumulative += 1
            add_sample(consumer.cumulative_frames, where_of(row))
        if (consumer := self._closed.get(number)) is None or consumer.closed is None or number in self.consumers:
            return
        if may_lack(self.context, consumer.closed.time, row.time):
            del self._closed[number]  # it may have subscribed again
            return
        if consumer.closed_by == CLIENT or row.time - consumer.closed.time > self.context.thresholds.ns("ack-after-close-seconds"):
            consumer.late += 1
            add_sample(consumer.late_frames, name_of(row))

    def deliveries(self, frames: Any, _handle: Callable[[int], None]) -> bool:
        """Skip the ACKs of open consumers; see `ConnectionRule.columns`."""
        return not any(group.id in self._closed for group in frames.consumers)

    def _exchange(self, row: ExchangeRow) -> None:
        if row.status == "unanswered":
            key = row.topic, row.subscription
            if key in self._unanswered or len(self._unanswered) < CONSUMERS_MAX:
                self._unanswered_counts[key] += 1
                add_sample(self._unanswered.setdefault(key, []), where_of(row))
        elif row.status == "error" and not is_transaction_error(row):
            where = where_of(row)
            error = error_text(row.error, row.error_message)
            text = f"An ACK of subscription {row.subscription} on {row.topic} was refused with {error}."
            evidence = {
                "frames": [where.name, response_name(row)],
                "topic": row.topic,
                "subscription": row.subscription,
                "error": row.error,
            }
            self.context.report("ack-failed", where, text, evidence)

    def _report_corrupt(self, row: FrameRow, fields: dict[str, Any], error: object) -> None:
        self._corrupt += 1
        if self._corrupt > CORRUPT_MAX:
            return
        where = where_of(row)
        consumer = self.find(row) or AckState(fields.get("consumer_id", -1), row.topic, row.subscription)
        ids = positions_of(fields.get("message_id"))
        messages = listing([f"{ledger}:{entry}" for ledger, entry in ids]) or "a message"
        evidence = {"frames": [where.name], **consumer.evidence, "message_ids": ids[:SAMPLES_MAX], "validation_error": error}
        why = ", as happens to a client without the private key" if error == "DecryptionError" else ""
        self.context.report("consumer-corrupt", where, f"{consumer.title} could not read {messages}: {error}{why}.", evidence)

    def _report_late(self, consumer: AckState) -> None:
        if consumer.late and consumer.closed is not None:
            closer = "its client" if consumer.closed_by == CLIENT else "the broker"
            acks = f"{plural(consumer.late, 'ACK')} came after that"
            text = f"{consumer.title} was closed by {closer}, and {acks}: the broker ignores these."
            evidence = {"frames": [consumer.closed.name, *consumer.late_frames], **consumer.evidence, "count": consumer.late}
            self.context.report("ack-after-close", consumer.closed, text, evidence)

    columns: ClassVar[ColumnsHandlers] = {"MESSAGE": deliveries}
    frames: ClassVar[Handlers] = {**ConsumerRule.frames, "ACK": _ack}
    exchanges: ClassVar[Handlers] = {"ACK": _exchange}
