"""Keys: the consumers of a subscription that got the messages of each key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from pulsarscope.dissect.contract.capabilities import BoundedFold, ReportColumn, ReportTable
from pulsarscope.model.limits import STATISTICS_NAMES_MAX
from pulsarscope.model.records import FrameRow, MessageRow
from pulsarscope.protocols.pulsar.text.formatting import bytes_text

_CONSUMERS_MAX = 8
"""Consumers named in a record."""

_OTHERS = "others"


class Keys(BoundedFold):
    """A fold over deliveries."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, int], str] = {}
        self._keys: dict[tuple[str | None, str | None, str], Counter[str]] = {}

    def feed(self, rows: Iterable[Any], endpoints: Mapping[str, tuple[str, str]]) -> None:
        """Take rows (see `ReportFold`)."""
        del endpoints
        for row in rows:
            if isinstance(row, FrameRow):
                fields = row.fields or {}
                if row.command == "SUBSCRIBE" and fields.get("consumer_name") and len(self._names) < STATISTICS_NAMES_MAX:
                    self._names[row.connection, fields.get("consumer_id", 0)] = str(fields["consumer_name"])
            elif isinstance(row, MessageRow) and row.direction == "deliver" and not row.acknowledged:
                self._count(row, row.key if row.ordering_key is None else bytes_text(row.ordering_key))

    def _count(self, row: MessageRow, key: str | None) -> None:
        if key is None or (consumers := self.item(self._keys, (row.topic, row.subscription, key), Counter)) is None:
            return
        number = row.consumer_id or 0
        consumer = self._names.get((row.connection, number), f"{row.connection}/{number}")
        consumers[consumer if consumer in consumers or len(consumers) < _CONSUMERS_MAX else _OTHERS] += 1

    def forget_ended(self) -> None:
        """Drop the keys that only one consumer got, once the table is half full."""
        if len(self._keys) > STATISTICS_NAMES_MAX // 2:
            self._keys = {name: consumers for name, consumers in self._keys.items() if len(consumers) > 1}
        if len(self._names) > STATISTICS_NAMES_MAX // 2:
            self._names.clear()

    def records(self) -> list[dict[str, Any]]:
        """Return a record for each key of a subscription: keys with several consumers first, then the most frequent."""
        records = [
            {
                "key": key,
                "subscription": subscription,
                "topic": topic,
                "messages": sum(consumers.values()),
                "consumers": ", ".join(f"{name} {count:,}" for name, count in consumers.most_common()),
                "consumer_count": len(consumers),
            }
            for (topic, subscription, key), consumers in self._keys.items()
        ]
        return sorted(records, key=lambda record: (-record["consumer_count"], -record["messages"]))


TABLE = ReportTable(
    "keys",
    "Keys",
    "messages by consumer",
    (
        ReportColumn("key", "key", "name"),
        ReportColumn("subscription", "subscription", "name"),
        ReportColumn("topic", "topic", "topic", spare=True),
        ReportColumn("messages", "messages"),
        ReportColumn("consumers", "consumers", "name"),
    ),
    Keys,
    frozenset({MessageRow.kind}),
    contents=True,
)
