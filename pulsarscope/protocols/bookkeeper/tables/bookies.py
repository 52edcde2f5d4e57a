"""Bookies: the requests to them, their refusals, and their latencies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pulsarscope.dissect.contract.capabilities import BoundedFold, ReportColumn, ReportTable
from pulsarscope.model.latency import Latencies
from pulsarscope.model.limits import STATISTICS_NAMES_MAX
from pulsarscope.model.records import ExchangeRow, FrameRow
from pulsarscope.protocols.bookkeeper.commands import ADD, BATCH_READ, EOK, READ, RESPONSE, response
from pulsarscope.protocols.bookkeeper.session import EXPECTED

_OPERATIONS = {response(ADD): "add", response(READ): "read", response(BATCH_READ): "read"}


class _Bookie:
    def __init__(self) -> None:
        self.clients: dict[str, None] = {}
        self.latencies = {"add": Latencies(), "read": Latencies()}
        self.refused: dict[str, int] = {}
        """Number of answers by unexpected status."""
        self.unanswered = self.added = self.damaged = 0


class BookiesFold(BoundedFold):
    """A fold over the answers of bookies, and unanswered requests."""

    def __init__(self) -> None:
        self._bookies: dict[str, _Bookie] = {}

    def feed(self, rows: Iterable[Any], endpoints: Mapping[str, tuple[str, str]]) -> None:
        """Take rows (see `ReportFold`)."""
        for row in rows:
            is_unanswered = type(row) is ExchangeRow and row.status == "unanswered"
            if not (is_unanswered or isinstance(row, FrameRow)) or row.dissector != "bookkeeper":
                continue
            if (bookie := self._bookie(row.connection, endpoints)) is None:
                continue
            if is_unanswered:
                bookie.unanswered += 1
            else:
                _count(bookie, row)

    def _bookie(self, connection: str | None, endpoints: Mapping[str, tuple[str, str]]) -> _Bookie | None:
        client, server = endpoints.get(connection or "", ("?", "?"))
        bookie = self.item(self._bookies, server, _Bookie)
        if bookie is not None and len(bookie.clients) < STATISTICS_NAMES_MAX:
            bookie.clients[client.rpartition(":")[0]] = None
        return bookie

    def records(self) -> list[dict[str, Any]]:
        """Return a record for each bookie, slowest ADDs first."""
        records = []
        for name, bookie in self._bookies.items():
            record: dict[str, Any] = {"bookie": name, "clients": len(bookie.clients), "added_bytes": bookie.added}
            for operation, latencies in bookie.latencies.items():
                record[f"{operation}s"] = latencies.count
                record |= latencies.percentiles(f"{operation}_")
            refused = dict(sorted(bookie.refused.items()))
            damage = {"refused": sum(refused.values()), "refusals": refused, "unanswered": bookie.unanswered, "damaged": bookie.damaged}
            records.append(record | damage)
        return sorted(records, key=lambda record: (-(record["add_p99_ns"] or 0), record["bookie"]))


def _count(bookie: _Bookie, row: FrameRow) -> None:
    command, fields = row.command or "", row.fields or {}
    bookie.damaged += row.checksum is not None and row.checksum.status == "bad"
    if command == ADD:
        bookie.added += fields.get("data_size") or 0
    if not command.endswith(RESPONSE):
        return
    status = fields.get("status", EOK)
    if status not in EXPECTED and (status in bookie.refused or len(bookie.refused) < STATISTICS_NAMES_MAX):
        bookie.refused[status] = bookie.refused.get(status, 0) + 1
    operation = _OPERATIONS.get(command)
    if operation is not None and row.latency_ns is not None:
        bookie.latencies[operation].add(row.latency_ns)


TABLE = ReportTable(
    "bookies",
    "Bookies",
    "from a request to its answer",
    (
        ReportColumn("bookie", "bookie", "name"),
        ReportColumn("adds", "adds"),
        ReportColumn("add_p50_ns", "add p50", "duration"),
        ReportColumn("add_p99_ns", "p99", "duration"),
        ReportColumn("add_max_ns", "max", "duration"),
        ReportColumn("reads", "reads"),
        ReportColumn("read_p50_ns", "read p50", "duration", spare=True),
        ReportColumn("read_p99_ns", "p99", "duration"),
        ReportColumn("refused", "refused"),
        ReportColumn("unanswered", "unanswered"),
    ),
    BookiesFold,
)
