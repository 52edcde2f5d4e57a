"""All folds of a report over one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pulsarscope.analysis.activity import Activity
from pulsarscope.analysis.diagnosis import Diagnosis
from pulsarscope.analysis.statistics import Statistics
from pulsarscope.analysis.tally import ReportRecord, table_records
from pulsarscope.dissect.contract.capabilities import Course, CourseFold, Lane, LaneFold, LegFold, ReportFold, ReportTable

FIRST_INTERVAL = 1_000_000
"""Initial interval of the time series, nanoseconds; it grows with the capture."""


class Overview(msgspec.Struct):
    """A fold over the rows of a run."""

    statistics: Statistics
    diagnosis: Diagnosis
    tables: Mapping[str, ReportTable]
    """Tables of protocols, by name."""
    folds: dict[str, ReportFold] = {}
    activity: Activity = msgspec.field(default_factory=Activity)

    def __post_init__(self) -> None:
        self.folds = {name: table.make() for name, table in self.tables.items()}
        for fold in self.folds.values():
            if isinstance(fold, CourseFold):
                fold.keep_courses()

    def feed(self, rows: Sequence[Any], endpoints: Mapping[str, tuple[str, str]]) -> None:
        """Count rows; `endpoints` are (client, server) of their connections."""
        self.statistics.feed(rows)
        self.activity.feed(rows)
        for fold in self.folds.values():
            fold.feed(rows, endpoints)

    def feed_inner(self, rows: Sequence[Any], endpoints: Mapping[str, tuple[str, str]]) -> None:
        """Count rows of connections that are inner legs."""
        self.statistics.feed_inner(rows)
        for fold in self.folds.values():
            if isinstance(fold, LegFold):
                fold.feed_inner(rows, endpoints)

    def table_records(self, outer_of: Mapping[str, str]) -> dict[str, list[ReportRecord]]:
        """Return the records of each table, without connections that are inner legs."""
        return {name: table_records(fold, outer_of) for name, fold in self.folds.items()}

    def courses(self) -> list[Course]:
        """Return the courses of consumers."""
        return [course for fold in self.folds.values() if isinstance(fold, CourseFold) for course in fold.courses()]

    def lanes(self) -> list[Lane]:
        """Return the most significant journeys."""
        return [lane for fold in self.folds.values() if isinstance(fold, LaneFold) for lane in fold.lanes()]
