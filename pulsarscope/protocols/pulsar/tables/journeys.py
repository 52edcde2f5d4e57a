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
from pulsarscope.protocols.pulsar.rules.message_ids import entry_key

_STEPS = ("receipt", "delivery", "ack")
_PARTS = (50, 90, 99)


class _Entry(msgspec.Struct):
    sent: int | None = None
    delivered: dict[str | None, int] = {}
    """Time of the first delivery by subscription."""


class Journeys:
    """Fold over SEND_RECEIPT, MESSAGE and ACK. Times are those of the capture, so that no two clocks are compared."""

    def __init__(self) -> None:
        self._entries: OrderedDict[tuple[str | None, str], _Entry] = OrderedDict()
        self._latencies: dict[tuple[str | None, str | None], dict[str, Latencies]] = {}

    def feed(self, rows: Iterable[Any], endpoints: Mapping[str, tuple[str, str]]) -> None:
        """Take rows, see `ReportFold`."""
        del endpoints
        for row in rows:
            if not isinstance(row, FrameRow) or row.fields is None:
                continue
            if row.command == "MESSAGE":
                if not row.fields.get("redelivery_count", 0) and (entry := entry_key(row.fields.get("message_id"))) is not None:
                    self._deliver(row, entry)
            elif row.command == "SEND_RECEIPT":
                if row.latency_ns is not None and (entry := entry_key(row.fields.get("message_id"))) is not None:
                    self._receive(row, entry, row.latency_ns)
            elif row.command == "ACK" and row.fields.get("ack_type") != "Cumulative":
                for message_id in row.fields.get("message_id") or ():
                    if type(message_id) is dict and not message_id.get("ack_set") and (entry := entry_key(message_id)) is not None:
                        self._acknowledge(row, entry)

    def _entry(self, topic: str | None, name: str) -> _Entry:
        key = topic, name
        entry = self._entries.get(key)
        if entry is None:
            if len(self._entries) >= TABLE_ENTRIES_MAX:
                self._entries.popitem(last=False)
            entry = self._entries[key] = _Entry(delivered={})
        return entry

    def _add(self, topic: str | None, subscription: str | None, step: str, time: int) -> None:
        key = topic, subscription
        if time >= 0 and (key in self._latencies or len(self._latencies) < STATISTICS_NAMES_MAX):
            self._latencies.setdefault(key, {}).setdefault(step, Latencies()).add(time)

    def _receive(self, row: FrameRow, name: str, latency: int) -> None:
        self._add(row.topic, None, "receipt", latency)
        entry = self._entry(row.topic, name)
        entry.sent = row.time - latency
        for subscription, time in entry.delivered.items():  # an entry is often delivered before its receipt
            self._add(row.topic, subscription, "delivery", time - entry.sent)

    def _deliver(self, row: FrameRow, name: str) -> None:
        entry = self._entry(row.topic, name)
        if row.subscription not in entry.delivered and len(entry.delivered) < STATISTICS_NAMES_MAX:
            entry.delivered[row.subscription] = row.time
            if entry.sent is not None:
                self._add(row.topic, row.subscription, "delivery", row.time - entry.sent)

    def _acknowledge(self, row: FrameRow, name: str) -> None:
        entry = self._entries.get((row.topic, name))
        if entry is not None and (time := entry.delivered.get(row.subscription)) is not None:
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
    "publish to receipt, publish to first delivery, delivery to ACK of single entries",
    (
        ReportColumn("topic", "topic", "topic"),
        ReportColumn("subscription", "subscription", "name"),
        ReportColumn("receipt_p50_ns", "receipt p50", "duration"),
        ReportColumn("receipt_p99_ns", "p99", "duration"),
        ReportColumn("receipt_max_ns", "max", "duration", spare=True),
        ReportColumn("delivery_p50_ns", "delivery p50", "duration"),
        ReportColumn("delivery_p99_ns", "p99", "duration"),
        ReportColumn("delivery_max_ns", "max", "duration", spare=True),
        ReportColumn("ack_p50_ns", "ACK p50", "duration"),
        ReportColumn("ack_p99_ns", "p99", "duration"),
        ReportColumn("ack_max_ns", "max", "duration", spare=True),
    ),
    Journeys,
)
