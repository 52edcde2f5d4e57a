"""Lookups: how clients find the broker of a topic, hop by hop, across their connections."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from pulsarscope.dissect.contract.capabilities import BoundedFold, ReportColumn, ReportTable
from pulsarscope.model.limits import STATISTICS_NAMES_MAX
from pulsarscope.model.records import ExchangeRow, FrameRow

_HOPS_MAX = 16
"""Hops of a chain shown in a record; clients give up after 20 redirects."""


class _Chain(msgspec.Struct):
    lookups: int = 0
    redirects: int = 0
    refused: int = 0
    unanswered: int = 0
    answer: str | None = None
    hops: list[str] = []
    hops_max: int = 0
    redirected: bool = False
    slowest_ns: int | None = None


class Lookups(BoundedFold):
    """A fold over LOOKUP and its answers."""

    def __init__(self) -> None:
        self._chains: dict[tuple[str, str | None], _Chain] = {}

    def feed(self, rows: Iterable[Any], endpoints: Mapping[str, tuple[str, str]]) -> None:
        """Take rows (see `ReportFold`)."""
        for row in rows:
            if isinstance(row, FrameRow):
                if row.command == "LOOKUP_RESPONSE" and (chain := self._chain(row, endpoints)) is not None:
                    self._answer(chain, row.fields or {})
            elif isinstance(row, ExchangeRow) and row.request == "LOOKUP" and (chain := self._chain(row, endpoints)) is not None:
                chain.lookups += 1
                chain.unanswered += row.status == "unanswered"
                if row.latency_ns is not None:
                    chain.slowest_ns = max(chain.slowest_ns or 0, row.latency_ns)

    def _chain(self, row: FrameRow | ExchangeRow, endpoints: Mapping[str, tuple[str, str]]) -> _Chain | None:
        client = endpoints.get(row.connection, ("", ""))[0].rpartition(":")[0]
        return self.item(self._chains, (client, row.topic), _Chain)

    @staticmethod
    def _answer(chain: _Chain, fields: Mapping[str, Any]) -> None:
        if not chain.redirected:
            chain.hops.clear()
        response = str(fields.get("response", "Failed" if "error" in fields else "Connect"))
        place = str(fields.get("brokerServiceUrl") or fields.get("brokerServiceUrlTls") or fields.get("error") or "")
        chain.redirected = response == "Redirect"
        chain.redirects += chain.redirected
        chain.refused += response == "Failed"
        chain.answer = response
        if len(chain.hops) < _HOPS_MAX:
            chain.hops.append(f"{response.lower()} {place}".strip())
        chain.hops_max = max(chain.hops_max, len(chain.hops))

    def forget_ended(self) -> None:
        """Drop clients and topics whose latest lookup found the broker, once the table is half full."""
        if len(self._chains) > STATISTICS_NAMES_MAX // 2:
            self._chains = {name: chain for name, chain in self._chains.items() if chain.answer != "Connect"}

    def records(self) -> list[dict[str, Any]]:
        """Return a record for each client and topic: those without a usable answer first, then the longest chains."""
        records = [
            {
                "client": client or None,
                "topic": topic,
                "lookups": chain.lookups,
                "redirects": chain.redirects,
                "refused": chain.refused,
                "unanswered": chain.unanswered,
                "answer": chain.answer,
                "hops_max": chain.hops_max,
                "latest": ", ".join(chain.hops),
                "slowest_ns": chain.slowest_ns,
            }
            for (client, topic), chain in self._chains.items()
        ]
        return sorted(records, key=lambda record: (record["answer"] == "Connect", -record["hops_max"], -record["lookups"]))


TABLE = ReportTable(
    "lookups",
    "Lookups",
    "by client and topic; the latest answers, hop by hop",
    (
        ReportColumn("client", "client", "name"),
        ReportColumn("topic", "topic", "topic"),
        ReportColumn("lookups", "lookups"),
        ReportColumn("redirects", "redirects"),
        ReportColumn("refused", "refused"),
        ReportColumn("unanswered", "open", spare=True),
        ReportColumn("slowest_ns", "slowest", "duration", spare=True),
        ReportColumn("latest", "answers", "name"),
    ),
    Lookups,
)
