"""The journeys of entries: publish → receipt, publish → first delivery, delivery → acknowledgment, by topic and subscription."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from heapq import heappush, heapreplace, nsmallest
from typing import Any

import msgspec

from pulsarscope.dissect.contract.capabilities import BoundedFold, Lane, ReportColumn, ReportTable, Step
from pulsarscope.model.bounded_tables import OldestFirst
from pulsarscope.model.latency import Latencies
from pulsarscope.model.limits import STATISTICS_NAMES_MAX, TABLE_ENTRIES_MAX
from pulsarscope.model.records import FrameRow
from pulsarscope.protocols.pulsar.message_ids import Position, position_of
from pulsarscope.protocols.pulsar.waiting import Waiting, is_stored

_STEPS = ("receipt", "delivery", "ack")

LANES_MAX = 12
"""Entries of each ending (not delivered, not acknowledged, acknowledged) whose journeys are drawn."""

_Journey = tuple[str | None, str | None]
"""Topic and subscription; the subscription is None for the receipts of the topic."""


_Name = tuple[str | None, int, int]
"""Topic, ledger and entry."""


class _Entry(msgspec.Struct, gc=False):
    """An entry whose journey may continue. There are very many of these."""

    sent: int | None = None
    stored: int | None = None
    """Time of its receipt."""
    first: tuple[str | None, int] | None = None
    """The subscription to which it was first delivered, and when."""
    further: dict[str | None, int] | None = None
    """Times of the first deliveries to other subscriptions. A dictionary for the first one alone would take twice the memory of everything
    else."""

    @property
    def deliveries(self) -> Iterator[tuple[str | None, int]]:
        """The subscriptions to which it was delivered, with the times of the first deliveries."""
        if self.first is not None:
            yield self.first
            yield from (self.further or {}).items()

    def deliver(self, subscription: str | None, time: int) -> bool | None:
        """Note the first delivery to a subscription; return False if it is not the first, None if there are too many subscriptions."""
        if self.first is None:
            self.first = subscription, time
        elif subscription == self.first[0]:
            return False
        elif self.further is None:
            self.further = {subscription: time}
        elif subscription in self.further:
            return False
        elif len(self.further) >= STATISTICS_NAMES_MAX - 1:
            return None
        else:
            self.further[subscription] = time
        return True


_NONE = _Entry()


def _lane(
    topic: str | None, subscription: str | None, position: Position, entry: _Entry, delivered: int | None, acknowledged: int | None
) -> Lane:
    steps = []
    if entry.sent is not None:
        steps.append(Step("publish", entry.sent, entry.stored))
        if delivered is None or delivered > entry.sent:
            steps.append(Step("delivery", entry.sent, delivered))
    if delivered is not None:
        steps.append(Step("acknowledgment", delivered, acknowledged))
    ending = "not delivered" if delivered is None else "not acknowledged" if acknowledged is None else "acknowledged"
    return Lane(f"{position[0]}:{position[1]}", topic, subscription, ending, steps)


class Journeys(BoundedFold):
    """A fold over SEND_RECEIPT, MESSAGE and ACK. It uses only capture times, so that no two clocks are compared."""

    def __init__(self) -> None:
        self._entries: OldestFirst[_Name, _Entry] = OldestFirst()
        self._waiting: dict[_Journey, Waiting[int]] = {}
        """Times of the first deliveries of unacknowledged entries."""
        self._latencies: dict[_Journey, dict[str, Latencies]] = {}
        self._slowest: list[tuple[int, int, Lane]] = []
        """Nanoseconds to the ACK, number, and journey of the slowest acknowledged entries: a heap with the fastest of them first."""
        self._acknowledged = 0

    def feed(self, rows: Iterable[Any], endpoints: Mapping[str, tuple[str, str]]) -> None:
        """Take rows (see `ReportFold`)."""
        del endpoints
        for row in rows:
            if not isinstance(row, FrameRow) or row.fields is None:
                continue
            if row.command == "MESSAGE":
                if not row.fields.get("redelivery_count", 0) and is_stored(position := position_of(row.fields.get("message_id"))):
                    self._deliver(row, position)
            elif row.command == "SEND_RECEIPT":
                if row.latency_ns is not None and is_stored(position := position_of(row.fields.get("message_id"))):
                    self._receive(row, position, row.latency_ns)
            elif row.command == "ACK" and (waiting := self._waiting.get((row.topic, row.subscription))) is not None:
                self._acknowledge(row, waiting, row.fields)

    def _entry(self, topic: str | None, position: Position) -> _Entry:
        name = topic, *position
        entry = self._entries.get(name)
        if entry is None:
            if len(self._entries) >= TABLE_ENTRIES_MAX:
                self._forget(*self._entries.pop_oldest())
            entry = self._entries.add(name, _Entry())
        return entry

    def _forget(self, name: _Name, entry: _Entry) -> None:
        topic, ledger, number = name
        for subscription, _ in entry.deliveries:
            waiting = self._waiting.get((topic, subscription))
            if waiting is not None:
                waiting.entries.pop((ledger, number), None)
                if not waiting.entries:
                    del self._waiting[topic, subscription]

    def _add(self, topic: str | None, subscription: str | None, step: str, time: int) -> None:
        if time >= 0 and (steps := self.item(self._latencies, (topic, subscription), dict)) is not None:
            steps.setdefault(step, Latencies()).add(time)

    def _receive(self, row: FrameRow, position: Position, latency: int) -> None:
        self._add(row.topic, None, "receipt", latency)
        entry = self._entry(row.topic, position)
        entry.sent, entry.stored = row.time - latency, row.time
        for subscription, time in entry.deliveries:  # an entry is often delivered before its receipt
            self._add(row.topic, subscription, "delivery", time - entry.sent)

    def _deliver(self, row: FrameRow, position: Position) -> None:
        entry = self._entry(row.topic, position)
        is_first = entry.deliver(row.subscription, row.time)
        if is_first is None:
            self.left_out += 1
        elif is_first:
            self._waiting.setdefault((row.topic, row.subscription), Waiting()).add(position, row.time)
            if entry.sent is not None:
                self._add(row.topic, row.subscription, "delivery", row.time - entry.sent)

    def _acknowledge(self, row: FrameRow, waiting: Waiting[int], fields: Mapping[str, Any]) -> None:
        """Measure entries at their ACK. An ACK for part of a batch does not count; a cumulative ACK also covers all entries before it."""
        for position, time in waiting.settle(fields):
            self._add(row.topic, row.subscription, "ack", row.time - time)
            self._rank(row, position, time)

    def _rank(self, row: FrameRow, position: Position, delivered: int) -> None:
        """Remember the journey of a newly acknowledged entry if it is among the slowest."""
        entry = self._entries.get((row.topic, *position), _NONE)
        total = row.time - (delivered if entry.sent is None else entry.sent)
        self._acknowledged += 1
        if len(self._slowest) >= LANES_MAX and total <= self._slowest[0][0]:
            return
        lane = _lane(row.topic, row.subscription, position, entry, delivered, row.time)
        push = heappush if len(self._slowest) < LANES_MAX else heapreplace
        push(self._slowest, (total, -self._acknowledged, lane))

    def lanes(self) -> list[Lane]:
        """Return the journeys of undelivered entries, of those unacknowledged for longest, and of the slowest others (see `LaneFold`)."""
        consumed = {topic for topic, subscription in self._latencies if subscription is not None} | {topic for topic, _ in self._waiting}
        found: list[Lane] = []
        for (topic, ledger, number), entry in self._entries.items():
            if entry.sent is not None and entry.first is None and topic in consumed and len(found) < LANES_MAX:
                found.append(_lane(topic, None, (ledger, number), entry, None, None))
        unacknowledged = (
            (time, position, journey) for journey, waiting in self._waiting.items() for position, time in waiting.entries.items()
        )
        for time, position, (topic, subscription) in nsmallest(LANES_MAX, unacknowledged, key=lambda each: each[0]):
            found.append(_lane(topic, subscription, position, self._entries.get((topic, *position), _NONE), time, None))
        return found + [lane for _, _, lane in sorted(self._slowest, key=lambda each: each[:2], reverse=True)]

    def records(self) -> list[dict[str, Any]]:
        """Return a record for the receipts of each topic, and for each of its subscriptions, slowest deliveries first."""
        records = []
        for (topic, subscription), steps in self._latencies.items():
            record: dict[str, Any] = {"topic": topic, "subscription": subscription}
            for step in _STEPS:
                latencies = steps.get(step, Latencies())
                record[f"{step}_count"] = latencies.count
                record |= latencies.percentiles(f"{step}_")
            records.append(record)
        return sorted(records, key=lambda record: -(record["delivery_p99_ns"] or record["receipt_p99_ns"] or 0))


TABLE = ReportTable(
    "journeys",
    "Journeys",
    "median and p99 of publish to receipt, to delivery, delivery to ACK",
    (
        ReportColumn("topic", "topic", "topic"),
        ReportColumn("subscription", "subscription", "name"),
        ReportColumn("receipt_p50_ns", "receipt", "duration"),
        ReportColumn("receipt_p99_ns", "p99", "duration"),
        ReportColumn("receipt_max_ns", "max", "duration", spare=True),
        ReportColumn("delivery_p50_ns", "delivery", "duration"),
        ReportColumn("delivery_p99_ns", "p99", "duration"),
        ReportColumn("delivery_max_ns", "max", "duration", spare=True),
        ReportColumn("ack_p50_ns", "ACK", "duration"),
        ReportColumn("ack_p99_ns", "p99", "duration"),
        ReportColumn("ack_max_ns", "max", "duration", spare=True),
    ),
    Journeys,
)
