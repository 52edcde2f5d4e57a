"""Partly acknowledged batches, and acknowledged messages that are delivered again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, ClassVar

import msgspec

from pulsarscope.dissect.contract.rules import ColumnsHandlers, Handlers, RuleContext, Where, where_of
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.flow import CLIENT, SERVER
from pulsarscope.model.records import FrameRow
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import in_seconds
from pulsarscope.protocols.pulsar.ack_sets import bitmap
from pulsarscope.protocols.pulsar.message_ids import Position, batch_size, indexes_of, position_of, positions_of
from pulsarscope.protocols.pulsar.rules.consumers.deliveries import Acknowledged
from pulsarscope.protocols.pulsar.rules.evidence import SAMPLES_MAX, frame_names
from pulsarscope.protocols.pulsar.rules.subscriptions.consumers import CONSUMERS_MAX, ConsumerRule, ConsumerState

CODES = table(
    SESSION.note(
        "batch-partly-acked",
        "A consumer acknowledged some messages of a batch and left others.",
        "The batch stays in the backlog until all its messages are acknowledged; the named indexes are missing.",
    ),
    SESSION.note(
        "acked-redelivered",
        "A broker redelivered acknowledged messages.",
        "Batch indexes need acknowledgmentAtBatchIndexLevelEnabled on the broker; acknowledgements are lost when a broker fails.",
    ),
)

THRESHOLDS = (
    in_seconds("acked-redelivered-seconds", 1, "Time after an ACK in which a delivery may still be on its way.", "acked-redelivered"),
)

ENTRIES_MAX = 10_000
"""Number of latest acknowledged entries remembered for one connection."""

SUBSCRIPTIONS_MAX = 1_000
"""Most subscriptions of one connection with remembered entries."""

INDEXES_MAX = 65_536
"""Most indexes of a batch that are compared."""


AckedEntry = tuple[int, int, int, int, int]
"""An entry with at least one acknowledged message: file, packet, sub and time of its latest ACK, and the bitmap of the other messages. It
is a plain tuple, shared by all entries that an ACK acknowledges as a whole: a stream stores all of them after each batch."""


class AckedEntries(msgspec.Struct):
    """Acknowledged entries of a subscription by position, in the order of their ACKs."""

    by_position: OrderedDict[Position, AckedEntry] = msgspec.field(default_factory=OrderedDict)
    partial: dict[Position, None] = {}
    """Positions of those with unacknowledged messages that are not reported yet."""
    numbers: set[int] = set()
    """Ids of the consumers that acknowledged entries in part since the latest report."""

    def put(self, position: Position, entry: AckedEntry) -> None:
        """Add an entry, which is not among them."""
        self.by_position[position] = entry
        if entry[-1]:
            self.partial[position] = None

    def take(self, position: Position) -> AckedEntry | None:
        """Remove and return an entry, if it is among them."""
        self.partial.pop(position, None)
        return self.by_position.pop(position, None)

    def first(self) -> Position | None:
        """Return the position of the entry whose ACK is the oldest, if there are entries."""
        return next(iter(self.by_position), None)


class BatchIndexRule(ConsumerRule[ConsumerState]):
    """A rule about acknowledged batch indexes of one connection. The indexes of a subscription outlive its consumers."""

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context, ConsumerState)
        self._acked: dict[tuple[str | None, str | None], AckedEntries] = {}
        """Acknowledged entries by topic and subscription."""
        self._size = 0
        """Number of remembered entries of all subscriptions."""
        self._source: str | None = None
        """Vantage point of the connection."""

    def review(self, consumer: ConsumerState, now: int, *, ending: bool) -> None:  # noqa: ARG002 - reported at the end, whenever it is
        """Report the batches that the consumers of a subscription acknowledged only partly, when the last of them ends.

        A broker that closes one gives up the subscription, whose entries are then forgotten (see `closed`).
        """
        if not ending:
            return
        entries, goes_on = self._entries_of(consumer), self.ended is None and consumer.closed_by != SERVER
        if not entries.partial or (goes_on and self._has_another(consumer)):
            return
        partial = [(position, *self._unpacked(entries.by_position[position])) for position in entries.partial]
        missing = sum(unacknowledged.bit_count() for *_, unacknowledged in partial)
        batches = "1 batch" if len(partial) == 1 else f"{len(partial):,} batches"
        who, named = consumer.title, consumer.evidence
        if entries.numbers != {consumer.number}:
            who = f"{plural(len(entries.numbers), 'consumer')} of subscription {consumer.subscription} on {consumer.topic}"
            named = {"topic": consumer.topic, "subscription": consumer.subscription, "consumers": len(entries.numbers)}
        evidence = {
            "frames": frame_names(where.name for _, where, _ in partial),
            **named,
            "batches": len(partial),
            "messages": missing,
            "not_acknowledged": [
                {"message_id": position, "batch_indexes": indexes_of(unacknowledged, SAMPLES_MAX)}
                for position, _, unacknowledged in partial[:SAMPLES_MAX]
            ],
        }
        text = f"{who} acknowledged {batches} in part: {plural(missing, 'message')} left."
        self.context.report("batch-partly-acked", partial[0][1], text, evidence)
        entries.partial.clear()
        entries.numbers.clear()

    def _has_another(self, consumer: ConsumerState) -> bool:
        """Return True when the subscription of a consumer has another one on the connection, which may acknowledge the rest."""
        key = consumer.topic, consumer.subscription
        return any(other.ready is not None and (other.topic, other.subscription) == key for other in self.consumers.values())

    def closed(self, consumer: ConsumerState, row: FrameRow) -> None:
        """Forget the subscription's ACKs when the broker closes it: a seek or an unload may cause redelivery of acknowledged messages."""
        if row.direction != CLIENT:
            self._forget_subscription(consumer)

    def _entries_of(self, consumer: ConsumerState) -> AckedEntries:
        return self._acked.get((consumer.topic, consumer.subscription)) or AckedEntries()

    def _unpacked(self, entry: AckedEntry) -> tuple[Where, int]:
        """Return the place of the latest ACK of an entry, and the bitmap of the unacknowledged messages."""
        file, packet, sub, time, unacknowledged = entry
        return Where(self._source, file, packet, sub, time, self.context.connection), unacknowledged

    def _reset(self, row: FrameRow) -> None:
        if (consumer := self.find(row)) is not None:
            self._forget_subscription(consumer)

    def _forget_subscription(self, consumer: ConsumerState) -> None:
        self._size -= len(self._entries_of(consumer).by_position)
        self._acked.pop((consumer.topic, consumer.subscription), None)

    def _ack(self, row: FrameRow) -> None:
        consumer, fields = self.find(row), row.fields or {}
        if consumer is None or "txnid_least_bits" in fields:  # a transaction may be aborted
            return
        if (entries := self._entries_to_add(consumer)) is None:
            return
        self._source, file, packet, sub, time, _ = where_of(row)
        whole = file, packet, sub, time, 0
        is_cumulative = fields.get("ack_type") == "Cumulative"
        ids = fields.get("message_id") or ()
        for message_id, position in zip(ids, positions_of(ids), strict=True):
            if is_cumulative:
                while (first := entries.first()) is not None and first < position:
                    entries.take(first)
                    self._size -= 1
            if (previous := entries.take(position)) is None and not self._make_room(entries):
                continue
            ack_set = message_id.get("ack_set")
            remaining = bitmap(ack_set) & (1 << INDEXES_MAX) - 1 if ack_set else 0
            remaining = remaining if previous is None else remaining & previous[-1]
            entries.put(position, (file, packet, sub, time, remaining) if remaining else whole)
            if remaining and len(entries.numbers) < CONSUMERS_MAX:
                entries.numbers.add(consumer.number)

    def _entries_to_add(self, consumer: ConsumerState) -> AckedEntries | None:
        """Return the entries of the consumer's subscription, to which more can be added; None if there are too many subscriptions."""
        key = consumer.topic, consumer.subscription
        if key not in self._acked and len(self._acked) >= SUBSCRIPTIONS_MAX:
            return None
        return self._acked.setdefault(key, AckedEntries())

    def _make_room(self, entries: AckedEntries) -> bool:
        """Make room for another entry; return False when entries of other subscriptions use up the bound."""
        if self._size < ENTRIES_MAX:
            self._size += 1
        elif (first := entries.first()) is not None:
            entries.take(first)
        else:
            return False
        return True

    def _message(self, row: FrameRow) -> None:
        consumer, fields = self.find(row), row.fields or {}
        if consumer is None:
            return
        position = position_of(fields.get("message_id"))
        known = self._entries_of(consumer).by_position.get(position)
        if known is None:
            return
        acked, unacknowledged = self._unpacked(known)
        if row.time - acked.time < self.context.thresholds.ns("acked-redelivered-seconds"):
            return
        delivered = (1 << min(batch_size(row), INDEXES_MAX)) - 1
        if fields.get("ack_set"):
            delivered &= bitmap(fields["ack_set"])
        repeated = delivered & ~unacknowledged
        if repeated:
            self._entries_of(consumer).take(position)
            self._size -= 1
            where = where_of(row)
            ledger, entry = position
            messages = f"{plural(repeated.bit_count(), 'message')} of " if batch_size(row) > 1 else ""
            text = f"{consumer.title} got {messages}{ledger}:{entry} again {duration(where.time - acked.time)} after the ACK."
            evidence = {
                "frames": [acked.name, where.name],
                **consumer.evidence,
                "message_id": [ledger, entry],
                "batch_indexes": indexes_of(repeated, SAMPLES_MAX),
                "redelivery_count": fields.get("redelivery_count", 0),
            }
            self.context.report("acked-redelivered", where, text, evidence)

    def deliveries(self, frames: Any, handle: Callable[[int], None]) -> bool:
        """Skip entries that were not acknowledged before, and note the ACKs; see `ConnectionRule.columns`."""
        groups = [(consumer, group) for group in frames.consumers if (consumer := self.consumers.get(group.id)) is not None]
        acknowledged = sum(len(positions) for _, group in groups for _, _, positions, _ in group.acks)
        if len(groups) > 1 and self._size < ENTRIES_MAX < self._size + acknowledged:
            return False  # the first ones get the last room
        if len({(consumer.topic, consumer.subscription) for consumer, _ in groups}) < len(groups):
            self._take_in_order(groups, frames, handle)
            return True
        for consumer, group in groups:
            at = first = 0
            for until, acks in group.turns:
                entries = self._entries_of(consumer).by_position
                for place, position in zip(group.places[at:until], group.positions[at:until], strict=True) if entries else ():
                    if position in entries:
                        handle(place)
                self._acknowledge(consumer, frames, group.acks[first:acks])
                at, first = until, acks
        return True

    def _take_in_order(self, groups: Sequence[tuple[ConsumerState, Any]], frames: Any, handle: Callable[[int], None]) -> None:
        """Take deliveries and ACKs in the order of their frames: one consumer may get what another one of its subscription acknowledged."""
        ordered: list[tuple[int, ConsumerState, Position | None, Sequence[Acknowledged]]] = []
        for consumer, group in groups:
            ordered += [(place, consumer, position, ()) for place, position in zip(group.places, group.positions, strict=True)]
            ordered += [(ack[0], consumer, None, (ack,)) for ack in group.acks]
        for place, consumer, position, acks in sorted(ordered, key=itemgetter(0)):
            self._acknowledge(consumer, frames, acks)
            if position in self._entries_of(consumer).by_position:
                handle(place)

    def _acknowledge(self, consumer: ConsumerState, frames: Any, acks: Sequence[Acknowledged]) -> None:
        """Note ACKs of whole entries, like `_ack`."""
        if not acks or (entries := self._entries_to_add(consumer)) is None:
            return
        self._source = frames.where_of(acks[0][0])[0]
        by_position, partial = entries.by_position, entries.partial
        for _, time, positions, name in acks:
            whole = *name, time, 0
            for position in positions:
                if position in by_position:
                    partial.pop(position, None)
                    by_position.move_to_end(position)
                elif not self._make_room(entries):
                    continue
                by_position[position] = whole

    columns: ClassVar[ColumnsHandlers] = {"MESSAGE": deliveries}
    frames: ClassVar[Handlers] = {**ConsumerRule.frames, "MESSAGE": _message, "ACK": _ack, "SEEK": _reset, "UNSUBSCRIBE": _reset}
