"""Records of journeys: a row for each message and subscription, made from the facts on its entry; and facts that only these rows need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from pulsarscope.dissect.contract.rules import ConnectionRule, Fact, Handlers, KeyRule, RuleContext, Where, where_of
from pulsarscope.model.bounded_tables import remember
from pulsarscope.model.limits import PENDING_MESSAGES_MAX, PENDING_REQUESTS_MAX
from pulsarscope.model.records import FrameRow, JourneyRow, MessageRow
from pulsarscope.protocols.pulsar.ack_sets import is_left
from pulsarscope.protocols.pulsar.message_ids import Position, entry_key, position_of
from pulsarscope.protocols.pulsar.replication import source_position
from pulsarscope.protocols.pulsar.rules.journey import (
    ACKED,
    IDLE_NS,
    JOURNEY,
    MESSAGES,
    WRITTEN,
    EntryDelivery,
    Journey,
    JourneyRule,
    elapsed,
    evaluate,
    is_damaged,
    journeys,
)
from pulsarscope.protocols.pulsar.topics import named_topic
from pulsarscope.protocols.pulsar.waiting import Waiting, is_stored

REPLICATED, ORIGIN = "replicated", "origin"
"""Facts of an entry: a replicator copies it to another cluster (with topic and broker there); its position in the cluster of origin."""


class _Contents:
    """The messages of one frame, collected from their rows."""

    def __init__(self, where: Where, row: MessageRow) -> None:
        self.where = where
        self.key = f"{row.ledger}:{row.entry}"
        self.values: dict[str, Any] = {"messages": [], "size": row.batch_size, "partition": row.partition}


class MessagesRule(ConnectionRule):
    """The source of the facts on the messages in entries, and on the entries covered by cumulative ACKs."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._contents: _Contents | None = None
        self._delivered: dict[int, Waiting[None]] = {}
        """Entries that wait for their ACK, by consumer."""
        self._waiting = 0
        self._replicated: dict[str, str] = {}
        """Positions, in the cluster of origin, of replicated messages without a receipt, by the frame name of their SEND."""

    def _send(self, row: FrameRow) -> None:
        self._emit()
        position = source_position(row.metadata or {})
        if position is None:
            return
        origin, where = "{}:{}".format(*position), where_of(row)
        remember(self._replicated, where.name, origin, PENDING_REQUESTS_MAX)
        values = {"topic": named_topic(row.topic), "broker": self._context.server}
        self._context.emit_fact(JOURNEY, origin, where, REPLICATED, values)

    def _receipt(self, row: FrameRow) -> None:
        self._emit()
        origin = self._replicated.pop(row.request or "", None)
        if origin is not None and (key := entry_key((row.fields or {}).get("message_id"))) is not None:
            self._context.emit_fact(JOURNEY, key, where_of(row), ORIGIN, {"origin": origin})

    def _message(self, row: MessageRow) -> None:
        is_for_applications = row.marker is None and not row.acknowledged
        if not is_for_applications or row.ledger is None or row.entry is None or not is_stored((row.ledger, row.entry)):
            return
        where = where_of(row)
        contents = self._contents
        if contents is None or contents.where != where:
            self._emit()
            contents = self._contents = _Contents(where, row)
        contents.values["messages"].append([row.batch_index, row.sequence_id, row.trace_id, row.span_id])

    def _emit(self) -> None:
        if (contents := self._contents) is not None:
            self._context.emit_fact(JOURNEY, contents.key, contents.where, MESSAGES, contents.values)
            self._contents = None

    def _other(self, _row: FrameRow) -> None:
        self._emit()

    def _delivery(self, row: FrameRow) -> None:
        self._emit()
        fields = row.fields or {}
        if is_stored(position := position_of(fields.get("message_id"))) and self._waiting < PENDING_MESSAGES_MAX:
            waiting = self._delivered.setdefault(fields.get("consumer_id", -1), Waiting())
            self._waiting += position not in waiting.entries
            waiting.add(position, None)

    def _ack(self, row: FrameRow) -> None:
        self._emit()
        fields = row.fields or {}
        consumer_id = fields.get("consumer_id", -1)
        waiting = self._delivered.get(consumer_id)
        if waiting is None:
            return
        for message_id in fields.get("message_id") or ():
            if type(message_id) is not dict or not is_stored(position := position_of(message_id)):
                continue
            earlier = waiting.take_order_before(position) if fields.get("ack_type") == "Cumulative" else []
            for ledger, entry in earlier:
                if self._settled(waiting, (ledger, entry)):
                    self._context.emit_fact(JOURNEY, f"{ledger}:{entry}", where_of(row), ACKED, {"consumer_id": consumer_id})
            if not message_id.get("ack_set"):
                self._settled(waiting, position)

    def _settled(self, waiting: Waiting[None], position: Position) -> bool:
        if position not in waiting.entries:
            return False
        del waiting.entries[position]
        self._waiting -= 1
        return True

    def end(self, row: Any, last: Where) -> None:
        """Emit the remaining facts."""
        del row, last
        self._emit()

    frames: ClassVar[Handlers] = {"SEND": _send, "SEND_RECEIPT": _receipt, "MESSAGE": _delivery, "ACK": _ack, "*": _other}
    messages: ClassVar[Any] = _message


Place = tuple[str | None, int, int, int]
"""Vantage point, file, packet and sub of a frame."""


def journey_rows(key: str, facts: Sequence[Fact]) -> Iterator[JourneyRow]:
    """Yield the rows of one entry, by topic, message and subscription. An entry without a visible message (a chunk) has none."""
    contents = {fact.where[:4]: fact.values for fact in facts if fact.what == MESSAGES}
    if contents:
        found = journeys(key, facts)
        # If several clusters have an entry with this name, it is unknown whose bookies have this one.
        stored = [fact for fact in facts if fact.what == WRITTEN] if len(found) == 1 else []
        for journey in found:
            storage = _storage(stored, journey.received) | _replication(journey, facts)
            yield from _rows(journey, contents, storage)


def _rows(journey: Journey, contents: Mapping[Place, Mapping[str, Any]], storage: Mapping[str, Any]) -> Iterator[JourneyRow]:
    places = [journey.sent, *(delivery.where for delivery in journey.deliveries)]
    by_place = {where[:4]: contents[where[:4]] for where in places if where is not None and where[:4] in contents}
    messages = {message[0]: message for values in reversed(by_place.values()) for message in values["messages"]}
    indexes = {place: {message[0] for message in values["messages"]} for place, values in by_place.items()}
    some = next(iter(by_place.values()), {})
    ledger, _, entry = journey.entry.partition(":")
    sent, received = journey.sent, journey.received
    for index, message in sorted(messages.items(), key=lambda item: item[0] or 0):
        by_subscription: dict[str | None, list[EntryDelivery]] = {}
        for delivery in journey.deliveries:
            if index in indexes.get(delivery.where[:4], ()):
                by_subscription.setdefault(delivery.subscription, []).append(delivery)
        for subscription, deliveries in by_subscription.items() or ((None, []),):
            where = sent or deliveries[0].where
            row = JourneyRow(where.source, where.file, where.packet, where.sub, where.time, where.connection)
            row.topic, row.subscription, row.producer_name = journey.topic, subscription, journey.producer_name
            row.ledger, row.entry, row.partition = int(ledger), int(entry), some.get("partition")
            row.batch_index, row.sequence_id, row.trace_id, row.span_id = message
            row.batch_size = some.get("size")
            if sent is not None:
                row.send_frame, row.send_time = sent.name, sent.time
            if received is not None:
                row.receipt_frame, row.receipt_time = received.name, received.time
                row.receipt_ns = None if sent is None else elapsed(sent, received)
            for name, value in storage.items():
                setattr(row, name, value)
            if deliveries:
                _deliver(row, journey, deliveries)
            yield row


def _deliver(row: JourneyRow, journey: Journey, deliveries: Sequence[EntryDelivery]) -> None:
    """Fill the columns of the deliveries to one subscription."""
    first = deliveries[0].where
    row.delivery_frame, row.delivery_time, row.delivery_ns = first.name, first.time, journey.latency_ns(deliveries[0])
    row.deliveries = [
        {"frame": each.where.name, "time": each.where.time, "connection": each.where.connection, "consumer_id": each.consumer_id}
        for each in deliveries
    ]
    acked = [(ack, delivery.where) for delivery in deliveries for ack in _acks(delivery, row.batch_index)]
    if acked:
        ack, delivered = min(acked, key=lambda pair: (pair[0].file, pair[0].packet, pair[0].sub))
        row.ack_frame, row.ack_time, row.ack_ns = ack.name, ack.time, elapsed(delivered, ack)


def _acks(delivery: EntryDelivery, index: int | None) -> Iterator[Where]:
    """Yield the ACKs of a message of an entry."""
    if delivery.acked is not None:
        yield delivery.acked
    for where, ack_set in delivery.parts:
        if index is not None and not is_left(ack_set, index):
            yield where


def _replication(journey: Journey, facts: Sequence[Fact]) -> dict[str, Any]:
    """Return the columns of replication: the origin of a message, or the brokers to which it is replicated."""
    if journey.source is not None:
        origins = (fact.values["origin"] for fact in facts if fact.what == ORIGIN and fact.where == journey.received)
        return {"replicated_from": journey.source, "origin": next(origins, None)}
    sends = [
        {"frame": where.name, "time": where.time, "connection": where.connection, "broker": values["broker"]}
        for where, what, values in facts
        if what == REPLICATED and values["topic"] in (None, journey.topic)
    ]
    return {"replications": sends} if sends else {}


def _storage(stored: Sequence[Fact], received: Where | None) -> dict[str, Any]:
    """Return the columns of the writes of an entry to its bookies."""
    if not stored:
        return {}
    first = stored[0].where
    answers = [fact.where.time + fact.values["answered_ns"] for fact in stored if fact.values["answered_ns"] is not None]
    answers = [time for time in answers if received is None or time <= received.time]
    return {
        "storage_frame": first.name,
        "storage_time": first.time,
        "storage_ns": max(answers) - first.time if answers else None,
        "storage_writes": len(stored),
        "storage_bookies": [*dict.fromkeys(fact.values["server"] for fact in stored)],
        "writes": [
            {"frame": where.name, "time": where.time, "bookie": values["server"], "latency_ns": values["answered_ns"]}
            for where, _, values in stored
        ],
    }


KEYS = (KeyRule(JOURNEY, IDLE_NS, evaluate, public=True, decides=is_damaged, journeys=journey_rows),)
RULES = (JourneyRule, MessagesRule)
