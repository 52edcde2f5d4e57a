"""Sections of statistics: those common to all protocols, and tables from dissectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from pulsarscope.analysis.counted_once import CountedOnce
from pulsarscope.analysis.statistics import SECTIONS, Statistics
from pulsarscope.analysis.tally import ReportRecord, table_records
from pulsarscope.dissect.contract.capabilities import IntervalFold, LegFold, ReportTable
from pulsarscope.model.bounded_tables import NOTHING
from pulsarscope.model.errors import UsageError
from pulsarscope.model.records import ExchangeRow, FindingRow, FrameRow


class Selection(Protocol):
    """A filter of rows."""

    def select(self, rows: Sequence[Any], endpoints: Mapping[str, tuple[str, str]]) -> Sequence[Any]:
        """Return the rows that pass; `endpoints` are client and server of their connections."""


class _CountedFromTheFirst(CountedOnce):
    """The fold, with the time of the first frame or exchange, which may be kept after others because it is held."""

    first: int | None = None

    def kept(self, rows: Sequence[Any], endpoints: Mapping[str, tuple[str, str]] = NOTHING) -> list[Any]:
        """Return the rows that count, see `CountedOnce`."""
        if self.first is None:
            self.first = next((row.time for row in rows if isinstance(row, (FrameRow, ExchangeRow))), None)
        return super().kept(rows, endpoints)


class Sections:
    """A fold over the rows of a run that makes the named sections."""

    def __init__(
        self, names: Sequence[str], tables: Mapping[str, ReportTable], *, interval: int | None = None, selection: Selection | None = None
    ) -> None:
        """Take `tables` by name from dissectors; `interval` (nanoseconds) is that of time series, `selection` chooses what is counted.

        Raises UsageError for a table with the name of a common section.
        """
        if shared := sorted(tables.keys() & set(SECTIONS)):
            raise UsageError(f"a dissector has a table {shared[0]}, which statistics have for all protocols")
        self._names = names
        self._selection = selection
        self._folds = {name: table.make() for name, table in tables.items() if name in names}
        self.kinds = frozenset[str]().union(*(tables[name].kinds for name in self._folds))
        """Kinds of rows that the tables need in addition to those of all statistics."""
        if interval is not None:
            for fold in self._folds.values():
                if isinstance(fold, IntervalFold):
                    fold.divide(interval)
        self.plain = selection is None and not self._folds
        """True when only numbers of rows are read, whatever their order."""
        self.takes_columns = self.plain and interval is None
        """True when it also takes ordered rows of a compiled reader."""
        self.once = _CountedFromTheFirst(holds=self.plain)  # others depend on the order of rows, and on the ends of connections
        self.statistics = Statistics(interval=interval, filtered=selection is not None, outer_of=self.once.outer_of)

    def feed(self, rows: Sequence[Any]) -> None:
        """Count rows that `once` has kept."""
        selection, statistics, endpoints = self._selection, self.statistics, self.once.endpoints
        selected = rows if selection is None else list(selection.select(rows, endpoints))
        for fold in self._folds.values():
            fold.feed(selected, endpoints)
        if self.plain and statistics.series is not None and self.once.first is not None:
            statistics.series.begin(self.once.first)
        if selection is None:
            statistics.feed_batch(rows)
        else:
            statistics.feed(row for row in selected if type(row) is not FindingRow)
            statistics.feed(row for row in rows if type(row) is FindingRow)
        inner = self.once.inner if selection is None else selection.select(self.once.inner, endpoints)
        statistics.feed_inner(inner)
        for fold in self._folds.values():
            if isinstance(fold, LegFold):
                fold.feed_inner(inner, endpoints)

    def records(self) -> dict[str, list[ReportRecord]]:
        """Return the records of each section."""
        records = self.statistics.sections(self._names)
        for name, fold in self._folds.items():  # their folds have the first frames of inner legs
            records[name] = table_records(fold, self.once.outer_of)
        return records
