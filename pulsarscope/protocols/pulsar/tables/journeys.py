"""Journeys of entries: publish → receipt, publish → first delivery, delivery → acknowledgment, by topic and subscription."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from pulsarscope.dissect.capabilities import ReportColumn, ReportTable
from pulsarscope.model.latency import Latencies
from pulsarscope.model.limits import STATISTICS_NAMES_MAX, TABLE_ENTRIES_MAX
from pulsarscope.model.records import FrameRow
from pulsarscope.protocols.pulsar.rules.message_ids import Position, position_of
from pulsarscope.protocols.pulsar.rules.waiting import Waiting, is_stored

_STEPS = ("receipt", "delivery", "ack")
_PARTS = (50, 90, 99)

_Journey = tuple[str | None, str | None]
"""Topic, and subscription; None for that of its receipts."""


class _Entry(msgspec.Struct):
    sent: int | None = None
    delivered: dict[str | None, int] = {}
    """Time of the first delivery by subscription."""


class Journeys:
    """Fold over SEND_RECEIPT, MESSAGE and ACK. Times are those of the capture, so that no two clocks are compared."""

    def __init__(self) -> None:
        self.left_out = 0
        self._entries: OrderedDict[tuple[str | None, Position], _Entry] = OrderedDict()
        self._waiting: dict[_Journey, Waiting[int]] = {}
        """Times of the first deliveries of entries that are not acknowledged."""
        self._latencies: dict[_Journey, dict[str, Latencies]] = {}

    def feed(self, rows: Iterable[Any], endpoints: Mapping[str, tuple[str, str]]) -> None:
        """Take rows, see `ReportFold`."""
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
        key = topic, position
        entry = self._entries.get(key)
        if entry is None:
            if len(self._entries) >= TABLE_ENTRIES_MAX:
                self._forget(*self._entries.popitem(last=False))
            entry = self._entries[key] = _Entry(delivered={})
        return entry

    def _forget(self, name: tuple[str | None, Position], entry: _Entry) -> None:
        topic, position = name
        for subscription in entry.delivered:
            waiting = self._waiting.get((topic, subscription))
            if waiting is not None:
                waiting.entries.pop(position, None)
                if not waiting.entries:
                    del self._waiting[topic, subscription]

    def _add(self, topic: str | None, subscription: str | None, step: str, time: int) -> None:
        key = topic, subscription
        if time < 0:
            return
        if key not in self._latencies and len(self._latencies) >= STATISTICS_NAMES_MAX:
            self.left_out += 1
        else:
            self._latencies.setdefault(key, {}).setdefault(step, Latencies()).add(time)

    def _receive(self, row: FrameRow, position: Position, latency: int) -> None:
        self._add(row.topic, None, "receipt", latency)
        entry = self._entry(row.topic, position)
        entry.sent = row.time - latency
        for subscription, time in entry.delivered.items():  # an entry is often delivered before its receipt
            self._add(row.topic, subscription, "delivery", time - entry.sent)

    def _deliver(self, row: FrameRow, position: Position) -> None:
        entry = self._entry(row.topic, position)
        if row.subscription in entry.delivered:
            return
        if len(entry.delivered) >= STATISTICS_NAMES_MAX:
            self.left_out += 1
        else:
            entry.delivered[row.subscription] = row.time
            self._waiting.setdefault((row.topic, row.subscription), Waiting()).add(position, row.time)
            if entry.sent is not None:
                self._add(row.topic, row.subscription, "delivery", row.time - entry.sent)

    def _acknowledge(self, row: FrameRow, waiting: Waiting[int], fields: Mapping[str, Any]) -> None:
        """Measure entries at their first ACK; one of a part of a batch is none, but a cumulative one takes all entries before it."""
        for message_id in fields.get("message_id") or ():
            if type(message_id) is not dict or not is_stored(position := position_of(message_id)):
                continue
            whole = [] if message_id.get("ack_set") else [position]
            if fields.get("ack_type") == "Cumulative":
                whole += waiting.take_order_before(position)
            for each in whole:
                if (time := waiting.entries.pop(each, None)) is not None:
                    self._add(row.topic, row.subscription, "ack", row.time - time)

    def records(self) -> list[dict[str, Any]]:
        """Return a record for each topic, of its receipts, and for each of its subscriptions; the slowest deliveries first."""
        records = []
        for (topic, subscription), steps in self._latencies.items():
            record: dict[str, Any] = {"topic": topic, "subscription": subscription}
            for step in _STEPS:
                latencies = steps.get(step, Latencies())
                record[f"{step}_count"] = latencies.count
                record |= {f"{step}_p{part}_ns": latencies.percentile(part) for part in _PARTS}
                record[f"{step}_max_ns"] = latencies.largest
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
