"""What is acknowledged of each batch: bitmaps of ACKs, and what is delivered again although it was acknowledged."""

from __future__ import annotations

from collections import OrderedDict
from typing import ClassVar

import msgspec

from pulsarscope.dissect.rules import Handlers, RuleContext, Where, where_of
from pulsarscope.model.findings import NOTE, Code, table
from pulsarscope.model.flow import CLIENT
from pulsarscope.model.records import FrameRow
from pulsarscope.protocols.pulsar.rules.consumers import Consumer, ConsumerRule, Position, bitmap, indexes_of, position_of
from pulsarscope.protocols.pulsar.rules.phrases import SHOWN_MAX, count, frames, seconds

CODES = table(
    Code(
        "batch-partly-acked",
        NOTE,
        "session",
        "A consumer acknowledged some messages of a batch and left others.",
        "The batch stays in the backlog until all its messages are acknowledged; the named indexes are missing.",
    ),
    Code(
        "acked-redelivered",
        NOTE,
        "session",
        "A broker delivered again what had been acknowledged.",
        "Batch indexes need acknowledgmentAtBatchIndexLevelEnabled on the broker; acknowledgements are lost when a broker fails.",
    ),
)

CROSSING_NS = 1_000_000_000
"""A delivery so soon behind an ACK may have been on its way already."""

KEPT_MAX = 10_000
"""Entries, the latest acknowledged, kept of one connection."""

SUBSCRIPTIONS_MAX = 1_000
"""Subscriptions of one connection for which they are."""

INDEXES_MAX = 65_536
"""Indexes of a batch that are looked at."""


class Acked(msgspec.Struct):
    """An entry of which something was acknowledged."""

    where: Where
    """Of the latest ACK."""
    left: int
    """Bitmap of what was not."""


Entries = OrderedDict[Position, Acked]


class BatchIndexes(ConsumerRule[Consumer]):
    """Follows one connection; a subscription's acknowledgements outlive its consumer."""

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context, Consumer)
        self._acked: dict[tuple[str | None, str | None], Entries] = {}
        self._kept = 0

    def review(self, consumer: Consumer, now: int, *, ending: bool) -> None:  # noqa: ARG002 - said at the end, whenever it is
        """See `ConsumerRule`."""
        if not ending:
            return
        partly = [(position, acked) for position, acked in self._of(consumer).items() if acked.left]
        if partly:
            where = partly[0][1].where
            missing = sum(acked.left.bit_count() for _, acked in partly)
            batches = "1 batch" if len(partly) == 1 else f"{len(partly):,} batches"
            text = f"{consumer.title} acknowledged {batches} in part: {count(missing, 'message')} left."
            evidence = {
                "frames": frames(acked.where.name for _, acked in partly),
                **consumer.evidence,
                "batches": len(partly),
                "messages": missing,
                "not_acknowledged": [
                    {"message_id": position, "batch_indexes": indexes_of(acked.left, SHOWN_MAX)} for position, acked in partly[:SHOWN_MAX]
                ],
            }
            self.context.report("batch-partly-acked", where, text, evidence)

    def closed(self, consumer: Consumer, row: FrameRow) -> None:
        """See `ConsumerRule`."""
        if row.direction != CLIENT:  # a seek or an unload: both may bring acknowledged messages again
            self._reset_subscription(consumer)

    def _of(self, consumer: Consumer) -> Entries:
        return self._acked.get((consumer.topic, consumer.subscription), OrderedDict())

    def _reset(self, row: FrameRow) -> None:
        consumer = self.find(row)
        if consumer is not None:
            self._reset_subscription(consumer)

    def _reset_subscription(self, consumer: Consumer) -> None:
        self._kept -= len(self._acked.pop((consumer.topic, consumer.subscription), ()))

    def _ack(self, row: FrameRow) -> None:
        consumer, fields = self.find(row), row.fields or {}
        if consumer is None or "txnid_least_bits" in fields:  # a transaction may be aborted
            return
        key = consumer.topic, consumer.subscription
        if key not in self._acked and len(self._acked) >= SUBSCRIPTIONS_MAX:
            return
        entries = self._acked.setdefault(key, OrderedDict())
        where = where_of(row)
        for one in fields.get("message_id") or ():
            position = position_of(one)
            if fields.get("ack_type") == "Cumulative":
                while entries and (first := next(iter(entries))) < position:
                    del entries[first]
                    self._kept -= 1
            before = entries.pop(position, None)
            if before is None and self._kept < KEPT_MAX:
                self._kept += 1
            elif before is None and entries:
                entries.popitem(last=False)
            elif before is None:
                continue  # all that is kept is of other subscriptions
            left = bitmap(one["ack_set"]) & (1 << INDEXES_MAX) - 1 if one.get("ack_set") else 0
            entries[position] = Acked(where, left if before is None else left & before.left)

    def _message(self, row: FrameRow) -> None:
        consumer, fields = self.find(row), row.fields or {}
        if consumer is None:
            return
        position = position_of(fields.get("message_id") or {})
        acked = self._of(consumer).get(position)
        if acked is None or (row.time or 0) - acked.where.time < CROSSING_NS:
            return
        sent = (1 << min(max(row.num_messages or 1, 1), INDEXES_MAX)) - 1
        if fields.get("ack_set"):
            sent &= bitmap(fields["ack_set"])
        again = sent & ~acked.left
        if again:
            del self._of(consumer)[position]
            self._kept -= 1
            where = where_of(row)
            ledger, entry = position
            which = f"{count(again.bit_count(), 'message')} of {ledger}:{entry}" if (row.num_messages or 1) > 1 else f"{ledger}:{entry}"
            text = f"{consumer.title} got {which} again {seconds(where.time - acked.where.time)} after the ACK."
            evidence = {
                "frames": [acked.where.name, where.name],
                **consumer.evidence,
                "message_id": [ledger, entry],
                "batch_indexes": indexes_of(again, SHOWN_MAX),
                "redelivery_count": fields.get("redelivery_count", 0),
            }
            self.context.report("acked-redelivered", where, text, evidence)

    frames: ClassVar[Handlers] = {**ConsumerRule.frames, "MESSAGE": _message, "ACK": _ack, "SEEK": _reset, "UNSUBSCRIBE": _reset}
