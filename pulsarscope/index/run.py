"""A run that takes the rows that a filter may pass from an index, without reading the captures."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Generator, Iterator
from typing import Any

from pulsarscope.capture import Inputs
from pulsarscope.dissect.contract.generic_codes import RULE_FAILED
from pulsarscope.dissect.plugins.registry import finding_codes
from pulsarscope.engine.local import SelectedPackets
from pulsarscope.engine.options import Options
from pulsarscope.engine.row_batch import RowBatch, Totals
from pulsarscope.engine.rule_engine import JUDGED_EARLY
from pulsarscope.filter import Filter, FollowFilter, JoinedFilter
from pulsarscope.index.candidates import candidates, opening
from pulsarscope.index.reader import Index
from pulsarscope.index.selected_packets import FrameSelection, selected_packets
from pulsarscope.model.records import ConnectionRow, FindingRow, FrameRow

SERVED = frozenset({FrameRow.kind, ConnectionRow.kind, FindingRow.kind})
"""Kinds of rows in an index."""


class IndexRun(Totals):
    """The rows of an index that a filter may pass, used like a run of the engine. Iterate over it once."""

    def __init__(self, index: Index, inputs: Inputs, options: Options, chosen: dict[int, list[int]]) -> None:
        """Yield the frames at these positions of each chunk, and all rows of other requested kinds."""
        super().__init__()
        self.inputs = inputs
        self.evaluates_rules = options.rules
        self.complete = False
        made = options.dissectors(show_secrets=False)
        self.dissectors = {dissector.name: dissector for dissector in made}
        self.endpoints: dict[str, tuple[str, str]] = {}
        self.dissector_of: dict[str, str] = {}
        self._index = index
        self._chosen = chosen
        self._kinds = options.records
        codes = finding_codes(made, rules=False)
        self._others = [
            (at, row)
            for at, row in index.others
            if options.rules or type(row) is not FindingRow or (row.code in codes and not _of_rules(row))
        ]
        for _, row in self._others:
            if type(row) is ConnectionRow and row.connection is not None:
                self.endpoints[row.connection] = (row.client or "?", row.server or "?")
                if row.dissector is not None:
                    self.dissector_of[row.connection] = row.dissector
        totals = index.totals
        self.start, self.packets, self.connections, self.damaged = totals.start, totals.packets, totals.connections, totals.damaged
        self.fragmented = totals.fragmented
        self.severities = Counter(row.severity for _, row in self._others if type(row) is FindingRow)

    def again(self, options: Options) -> IndexRun:
        """Return a run over the frames that open connections: a second run needs no other frames."""
        commands = frozenset[str]().union(*(dissector.opening for dissector in self.dissectors.values()))
        return IndexRun(self._index, self.inputs, options, opening(self._index, commands))

    def selected(self, selection: FrameSelection, *, all_flags: bool) -> Iterator[SelectedPackets]:
        """Yield the packets of selected frames in order; see `selected_packets`."""
        return selected_packets(self._index, self.inputs, selection, all_flags=all_flags)

    def place(self, row: FrameRow) -> tuple[int, int]:
        """Return start and end of the bytes of a frame in the TCP stream."""
        start = row.offset
        return start, start + row.size

    def in_tls(self, _connection: str) -> bool:
        """Return False: an index has no places inside TLS."""
        return False

    def preamble(self, _connection: str) -> tuple[int, int]:
        """Return an empty range: reading a connection without TLS needs no preamble."""
        return 0, 0

    @property
    def skipped(self) -> int:
        """Number of frames that are left out, because the filter cannot pass them."""
        return len(self._index) - sum(map(len, self._chosen.values()))

    def __iter__(self) -> Generator[RowBatch, None, None]:
        others = deque((at, row) for at, row in self._others if row.kind in self._kinds)
        chunks = sorted(self._chosen.items())
        starts = [self._index.start(number) + positions[0] for number, positions in chunks]
        rows = _before(others, starts[0] if starts else None)
        for (number, positions), following in zip(chunks, [*starts, None][1:], strict=True):
            start = self._index.start(number)
            frames = self._index.some(number, positions)
            for frame, after in zip(frames, [*(start + at for at in positions[1:]), following], strict=True):
                rows.append(frame)
                if others:  # the rows after a frame stay in one batch with it
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


def _knows_places(index: Index) -> bool:
    """Return True when each frame lies where its row says: neither inside TLS nor in packet fragments."""
    decrypted = any(row.tls and row.dissector for _, row in index.others if type(row) is ConnectionRow)
    return not (decrypted or index.totals.fragmented)


def _of_rules(row: FindingRow) -> bool:
    """Return True for a finding about the rules themselves: such a run does not evaluate rules."""
    return row.code == RULE_FAILED or JUDGED_EARLY in (row.evidence or {})


def _before(others: deque[tuple[int, Any]], position: int | None) -> list[Any]:
    """Remove and return the rows before the frame at a position; None: all."""
    rows = []
    while others and (position is None or others[0][0] <= position):
        rows.append(others.popleft()[1])
    return rows


def indexed_run(index: Index, inputs: Inputs, options: Options, row_filter: Filter | FollowFilter | JoinedFilter) -> IndexRun | None:
    """Return a run over the rows that a filter may pass; None when an index cannot serve it."""
    if not options.records <= SERVED or options.raw or options.anchors:
        return None
    if options.places and not _knows_places(index):
        return None
    if options.rules and not options.places:  # filters pass a finding only right after its frame, and findings of rules come later
        return None
    row_filter.begin(index.totals)
    chosen = candidates(index, row_filter)
    if not chosen:  # only a run over all frames can say what there is instead
        return None
    run = IndexRun(index, inputs, options, chosen)
    row_filter.seen[FrameRow.kind] += run.skipped
    return run
