"""A run whose rows come from an index: those that a filter may pass, without reading the captures."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Generator
from typing import Any

from pulsarscope.capture import Inputs
from pulsarscope.dissect.generic_codes import RULE_FAILED
from pulsarscope.dissect.registry import finding_codes
from pulsarscope.engine.options import Options
from pulsarscope.engine.row_batch import RowBatch, Totals
from pulsarscope.engine.rule_engine import JUDGED_EARLY
from pulsarscope.filter import Filter, FollowFilter, JoinedFilter
from pulsarscope.index.candidates import candidates
from pulsarscope.index.reader import Index
from pulsarscope.model.records import ConnectionRow, FindingRow, FrameRow

SERVED = frozenset({FrameRow.kind, ConnectionRow.kind, FindingRow.kind})
"""Kinds of rows that an index has."""


class IndexRun(Totals):
    """The rows of an index that a filter may pass, used as a run of the engine is. Iterate it once."""

    def __init__(self, index: Index, inputs: Inputs, options: Options, chosen: dict[int, list[int]]) -> None:
        """Give the frames at these positions of each chunk, and all rows of other kinds that are asked for."""
        super().__init__()
        self.inputs = inputs
        self.evaluates_rules = False
        self.complete = False
        made = options.dissectors(show_secrets=False)
        self.dissectors = {dissector.name: dissector for dissector in made}
        self.endpoints: dict[str, tuple[str, str]] = {}
        self.dissector_of: dict[str, str] = {}
        self._index = index
        self._chosen = chosen
        self._kinds = options.records
        codes = finding_codes(made, rules=False)
        self._others = [(at, row) for at, row in index.others if type(row) is not FindingRow or (row.code in codes and not _of_rules(row))]
        for _, row in self._others:
            if type(row) is ConnectionRow and row.connection is not None:
                self.endpoints[row.connection] = (row.client or "?", row.server or "?")
                if row.dissector is not None:
                    self.dissector_of[row.connection] = row.dissector
        totals = index.totals
        self.start, self.packets, self.connections, self.damaged = totals.start, totals.packets, totals.connections, totals.damaged
        self.severities = Counter(row.severity or "" for _, row in self._others if type(row) is FindingRow)

    @property
    def skipped(self) -> int:
        """Number of frames that are not given: no filter passes them."""
        return len(self._index) - sum(map(len, self._chosen.values()))

    def __iter__(self) -> Generator[RowBatch, None, None]:
        others = deque((at, row) for at, row in self._others if row.kind in self._kinds)
        chunks = sorted(self._chosen.items())
        starts = [self._index.start(number) + positions[0] for number, positions in chunks]
        rows = _before(others, starts[0] if starts else None)
        for (number, positions), following in zip(chunks, [*starts[1:], None], strict=True):
            start = self._index.start(number)
            frames = self._index.some(number, positions)
            for frame, after in zip(frames, [*(start + at for at in positions[1:]), following], strict=True):
                rows.append(frame)
                if others:  # what is said behind a frame stays in one batch with it
                    rows += _before(others, after)
            yield self._batch(rows)
            if self.stopped:
                return
            rows = []
        if rows:
            yield self._batch(rows)
        self.complete = True

    def _batch(self, rows: list[Any]) -> RowBatch:
        last = next((row for row in reversed(rows) if isinstance(row, FrameRow)), None)
        return RowBatch(rows, 0 if last is None else last.file or 0, 0, 0 if last is None else last.packet or 0)


def _of_rules(row: FindingRow) -> bool:
    """Return True for a finding about the rules themselves, which such a run does not evaluate."""
    return row.code == RULE_FAILED or JUDGED_EARLY in (row.evidence or {})


def _before(others: deque[tuple[int, Any]], position: int | None) -> list[Any]:
    """Take the rows that came before the frame at a position; None: all."""
    rows = []
    while others and (position is None or others[0][0] <= position):
        rows.append(others.popleft()[1])
    return rows


def indexed_run(index: Index, inputs: Inputs, options: Options, row_filter: Filter | FollowFilter | JoinedFilter) -> IndexRun | None:
    """Return the run of the rows that a filter may pass; None when an index cannot serve it."""
    if not options.records <= SERVED or options.rules or options.raw or options.places or options.anchors:
        return None
    row_filter.begin(index.totals)
    chosen = candidates(index, row_filter)
    if not chosen:  # only who has seen all frames can say what there is instead
        return None
    run = IndexRun(index, inputs, options, chosen)
    row_filter.seen[FrameRow.kind] += run.skipped
    return run
