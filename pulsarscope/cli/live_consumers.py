"""Consumers that are open in a live run."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from pulsarscope.analysis.tally import ReportRecord
from pulsarscope.dissect.capabilities import LiveFold

FORGET_FEEDS = 256
"""Feeds after which those that have ended are forgotten: the table is bounded, and they would fill it."""


class LiveConsumers:
    """The table of consumers of a protocol, which any thread may read."""

    def __init__(self, fold: LiveFold) -> None:
        self._fold = fold
        self._lock = threading.Lock()
        self._feeds = 0

    def feed(self, rows: list[Any], endpoints: Mapping[str, tuple[str, str]]) -> None:
        """Take rows, see `ReportFold`."""
        with self._lock:
            self._fold.feed(rows, endpoints)
            self._feeds += bool(rows)
            if self._feeds % FORGET_FEEDS == 0:
                self._fold.forget_ended()

    def records(self) -> list[ReportRecord]:
        """Return a record for each that is open, those with the most unacknowledged messages first."""
        with self._lock:
            return [record for record in self._fold.records() if record["state"] == "open"]
