"""Tables of protocols in a live run: consumers, transactions, lookups, schemas, keys."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

from pulsarscope.analysis.tally import ReportRecord
from pulsarscope.dissect.capabilities import LiveFold, ReportTable

FORGET_FEEDS = 256
"""Feeds after which those that have ended are forgotten: the tables are bounded, and they would fill them."""


class LiveTables:
    """The tables that serve runs without end, which any thread may read."""

    def __init__(self, tables: Iterable[ReportTable]) -> None:
        self.tables: list[ReportTable] = []
        self._folds: dict[str, LiveFold] = {}
        for table in tables:
            if isinstance(fold := table.make(), LiveFold):
                self.tables.append(table)
                self._folds[table.name] = fold
        self._lock = threading.Lock()
        self._feeds = 0

    def feed(self, rows: list[Any], endpoints: Mapping[str, tuple[str, str]]) -> None:
        """Take rows, see `ReportFold`."""
        with self._lock:
            self._feeds += bool(rows)
            for fold in self._folds.values():
                fold.feed(rows, endpoints)
                if self._feeds % FORGET_FEEDS == 0:
                    fold.forget_ended()

    def records(self, name: str) -> list[ReportRecord]:
        """Return the records of a table; none of one that is not there."""
        with self._lock:
            return self._folds[name].records() if name in self._folds else []
