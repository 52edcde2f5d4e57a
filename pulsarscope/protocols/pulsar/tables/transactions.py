"""Transactions: their contents, how they ended, and how long they took."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from pulsarscope.dissect.contract.capabilities import BoundedFold, ReportColumn, ReportTable
from pulsarscope.model.frame_name import frame_name
from pulsarscope.model.limits import STATISTICS_ITEMS_MAX, STATISTICS_NAMES_MAX
from pulsarscope.model.records import FrameRow

_ENDS = {"COMMIT": "committed", "ABORT": "aborted"}
_ENDED_WELL = frozenset({*_ENDS.values(), "ended"})


class _Transaction(msgspec.Struct):
    start: int
    frame: str
    end: int
    state: str = "open"
    ttl_ms: int | None = None
    topics: dict[str, None] = {}
    subscriptions: dict[str, None] = {}
    sends: int = 0
    acks: int = 0
    errors: int = 0
    action: str | None = None


class Transactions(BoundedFold):
    """A fold over frames with a transaction id."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, int], _Transaction] = {}
        self._ttl: dict[tuple[str, int], tuple[int, int | None, str]] = {}
        """Time, time to live and frame of a NEW_TXN, by connection and request id."""

    def feed(self, rows: Iterable[Any], endpoints: Mapping[str, tuple[str, str]]) -> None:
        """Take rows (see `ReportFold`)."""
        del endpoints
        for row in rows:
            if isinstance(row, FrameRow) and row.fields is not None:
                if row.command == "NEW_TXN":
                    if len(self._ttl) < STATISTICS_NAMES_MAX:
                        key = row.connection, row.fields.get("request_id", 0)
                        self._ttl[key] = row.time, row.fields.get("txn_ttl_millis"), frame_name(row.file, row.packet, row.sub)
                elif "txnid_most_bits" in row.fields or "txnid_least_bits" in row.fields:
                    self._take(row, row.fields)

    def _take(self, row: FrameRow, fields: Mapping[str, Any]) -> None:
        name = fields.get("txnid_most_bits", 0), fields.get("txnid_least_bits", 0)
        if name not in self._found and row.command == "NEW_TXN_RESPONSE" and "error" in fields:
            return

        def begin() -> _Transaction:
            began = self._ttl.pop((row.connection, fields.get("request_id", -1)), None) if row.command == "NEW_TXN_RESPONSE" else None
            time, ttl, frame = began or (row.time, None, frame_name(row.file, row.packet, row.sub))
            return _Transaction(time, frame, row.time, ttl_ms=ttl)

        if (found := self.item(self._found, name, begin)) is None:
            return
        found.end = max(found.end, row.time)
        found.errors += "error" in fields
        command = row.command
        if command == "SEND":
            found.sends += max(row.num_messages or 0, 0)
        elif command == "ACK":
            found.acks += len(fields.get("message_id") or ())
        elif command == "ADD_PARTITION_TO_TXN":
            _add(found.topics, fields.get("partitions") or ())
        elif command == "ADD_SUBSCRIPTION_TO_TXN":
            _add(found.subscriptions, [each.get("subscription") for each in fields.get("subscription") or () if type(each) is dict])
        elif command == "END_TXN":
            found.action = _ENDS.get(str(fields.get("txn_action", "COMMIT")), "ended")
            found.state = "ending"
        elif command == "END_TXN_RESPONSE":
            found.state = "refused" if "error" in fields else found.action or "ended"

    def forget_ended(self) -> None:
        """Drop transactions that ended well, once they fill half the table."""
        if len(self._found) > STATISTICS_NAMES_MAX // 2:
            self._found = {name: each for name, each in self._found.items() if each.state not in _ENDED_WELL}
        if len(self._ttl) > STATISTICS_NAMES_MAX // 2:
            self._ttl.clear()

    def records(self) -> list[dict[str, Any]]:
        """Return a record for each transaction: those that did not end well first, then the longest."""
        records = [
            {
                "txn": f"({most},{least})",
                "state": each.state,
                "start": each.start,
                "duration_ns": each.end - each.start,
                "ttl_ms": each.ttl_ms,
                "topics": ", ".join(each.topics),
                "subscriptions": ", ".join(each.subscriptions),
                "sends": each.sends,
                "acks": each.acks,
                "errors": each.errors,
                "frame": each.frame,
            }
            for (most, least), each in self._found.items()
        ]
        return sorted(records, key=lambda record: (record["state"] == "committed", -record["errors"], -record["duration_ns"]))


def _add(names: dict[str, None], more: Iterable[Any]) -> None:
    for name in more:
        if isinstance(name, str) and len(names) < STATISTICS_ITEMS_MAX:
            names[name] = None


TABLE = ReportTable(
    "transactions",
    "Transactions",
    "messages sent and acknowledged in them",
    (
        ReportColumn("txn", "transaction", "text"),
        ReportColumn("state", "state", "text"),
        ReportColumn("duration_ns", "lasted", "duration"),
        ReportColumn("sends", "sent"),
        ReportColumn("acks", "acks"),
        ReportColumn("errors", "refused"),
        ReportColumn("topics", "topics", "topic"),
        ReportColumn("subscriptions", "subscriptions", "name", spare=True),
        ReportColumn("frame", "frame", "frame"),
    ),
    Transactions,
)
