"""Ledgers: their contents, topics and bookies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from pulsarscope.dissect.contract.capabilities import BoundedFold, ReadReceipt, ReportColumn, ReportTable
from pulsarscope.model.limits import STATISTICS_NAMES_MAX
from pulsarscope.model.records import FrameRow
from pulsarscope.protocols.bookkeeper.commands import ADD, EOK, READ, RESPONSE, response
from pulsarscope.protocols.bookkeeper.session import EXPECTED, FENCED

_BOOKIES_MAX = 100
"""Bookies named for one ledger: ensembles are far smaller, and their members change one by one."""


class _Ledger:
    def __init__(self) -> None:
        self.topic: str | None = None
        self.kind: str | None = None
        """Kind of contents, in the words of the writer's protocol."""
        self.digest: str | None = None
        self.bookies: dict[str, None] = {}
        self.first: int | None = None
        self.last: int | None = None
        self.confirmed: int | None = None
        self.length: int | None = None
        self.adds = self.recovered = self.reads = self.refused = self.damaged = 0
        self.is_fenced = False


class LedgersFold(BoundedFold):
    """A fold over frames that name a ledger, and the receipts of its writers."""

    def __init__(self, receipts: Sequence[ReadReceipt]) -> None:
        self._read_receipts = receipts
        self._ledgers: dict[int, _Ledger] = {}
        self._topics: dict[int, str] = {}

    def feed(self, rows: Iterable[Any], endpoints: Mapping[str, tuple[str, str]]) -> None:
        """Take rows (see `ReportFold`)."""
        for row in rows:
            if not isinstance(row, FrameRow):
                continue
            if row.dissector != "bookkeeper":
                self._learn(row)
            elif (
                type(number := (row.fields or {}).get("ledger")) is int
                and (ledger := self.item(self._ledgers, number, _Ledger)) is not None
            ):
                _count(ledger, row, endpoints.get(row.connection, ("?", "?"))[1])

    def _learn(self, row: FrameRow) -> None:
        """Learn the topic of a ledger from a receipt."""
        if row.latency_ns is None or row.topic is None:
            return
        for read in self._read_receipts:
            place = read(row)
            if place is not None and len(self._topics) < STATISTICS_NAMES_MAX:
                self._topics.setdefault(place[0], row.topic)

    def records(self) -> list[dict[str, Any]]:
        """Return a record for each ledger, by number."""
        return [
            {
                "ledger": number,
                "topic": ledger.topic or self._topics.get(number),
                "contents": ledger.kind,
                "digest": ledger.digest,
                "bookies": sorted(ledger.bookies),
                "first": ledger.first,
                "last": ledger.last,
                "last_add_confirmed": ledger.confirmed,
                "length": ledger.length,
                "adds": ledger.adds,
                "recovered": ledger.recovered,
                "reads": ledger.reads,
                "refused": ledger.refused,
                "damaged": ledger.damaged,
                "fenced": ledger.is_fenced,
            }
            for number, ledger in sorted(self._ledgers.items())
        ]


def _count(ledger: _Ledger, row: FrameRow, bookie: str) -> None:
    command, fields = row.command or "", row.fields or {}
    if len(ledger.bookies) < _BOOKIES_MAX:
        ledger.bookies[bookie] = None
    data = fields.get("data") or {}
    ledger.topic = ledger.topic or row.topic or data.get("topic")
    ledger.kind = ledger.kind or data.get("kind")
    if row.checksum is not None:
        ledger.digest = ledger.digest or fields.get("digest")
        ledger.damaged += row.checksum.status == "bad"
    if command == ADD:
        ledger.adds += 1
        ledger.recovered += "RECOVERY_ADD" in str(fields.get("flags") or fields.get("flag"))
    ledger.reads += command == READ
    if command in (ADD, response(READ)) and row.checksum is not None:
        entry: Any = fields.get("stored_entry", fields["entry"])
        ledger.first = entry if ledger.first is None or entry < ledger.first else ledger.first
        ledger.last = _larger(ledger.last, entry)
        ledger.confirmed = _larger(ledger.confirmed, fields.get("last_add_confirmed"))
        ledger.length = _larger(ledger.length, fields.get("length"))
    if command.endswith(RESPONSE):
        status = fields.get("status", EOK)
        ledger.refused += status not in EXPECTED
        ledger.is_fenced = ledger.is_fenced or status == FENCED


def _larger(known: int | None, value: int | None) -> int | None:
    return value if known is None else known if value is None else max(known, value)


def table(receipts: Sequence[ReadReceipt]) -> ReportTable:
    """Return the table."""
    return ReportTable(
        "ledgers",
        "Ledgers",
        "entries and contents as ADDs and READs show them",
        (
            ReportColumn("ledger", "ledger", "name"),
            ReportColumn("topic", "topic", "topic"),
            ReportColumn("contents", "contents", "text"),
            ReportColumn("digest", "digest", "text", spare=True),
            ReportColumn("first", "first", "name"),
            ReportColumn("last", "last", "name"),
            ReportColumn("adds", "adds"),
            ReportColumn("reads", "reads"),
            ReportColumn("refused", "refused"),
            ReportColumn("damaged", "damaged"),
        ),
        partial(LedgersFold, receipts),
    )
