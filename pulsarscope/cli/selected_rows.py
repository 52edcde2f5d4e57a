"""The rows of a run that a command writes: those that pass the filter, each once, up to a limit or from some position on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

import msgspec

from pulsarscope.analysis.counted_once import CountedOnce
from pulsarscope.model.limits import ROWS_MAX
from pulsarscope.model.ordered_rows import in_columns, in_parts, in_rows, opened
from pulsarscope.model.records import FrameRow, RawFrame

if TYPE_CHECKING:
    from pulsarscope.cli.indexes import RowsRun
    from pulsarscope.engine.row_batch import RowBatch
    from pulsarscope.filter import RowFilter


class SelectedRows(msgspec.Struct):
    """The selection of rows from one run."""

    kinds: tuple[str, ...]
    """The kinds of records to write; only these are counted. Rows of other kinds pass through to the output."""
    row_filter: RowFilter | None = None
    limit: int | None = None
    skip: int | None = None
    """Counted rows to leave out at the beginning, with all other rows before the next one; None: no row is left out."""
    once: CountedOnce | None = None
    """Removes rows that occur a second time."""
    one_by_one: bool = False
    """What takes the rows takes each as an object of its own."""
    watch: Callable[[RowBatch], None] | None = None
    """A function that gets each batch of a live run first, and may remove rows."""
    limited: bool = False
    """True when the limit was reached, and the rest of the run was not requested."""

    def batches(self, run: RowsRun) -> Generator[tuple[Any, list[Any]], None, None]:
        """Yield each batch of a run with its selected rows, until the limit is reached."""
        remaining = self.limit
        with closing(self._batches(run)) as batches:
            for batch, selected in batches:
                rows = selected
                if remaining is not None:
                    rows, counted = self._counted(rows)
                    self.limited = len(counted) >= remaining
                    rows = _part(rows, 0, counted[remaining]) if len(counted) > remaining else rows
                    remaining -= len(counted)
                yield batch, in_rows(rows) if self.one_by_one and batch.prepared is None else rows
                if self.limited:
                    return

    def count(self, run: RowsRun) -> int:
        """Return the number of counted rows."""
        with closing(self._batches(run)) as batches:
            return sum(len(self._counted(rows)[1]) for _, rows in batches)

    def _batches(self, run: RowsRun) -> Generator[tuple[Any, list[Any]], None, None]:
        if self.row_filter is not None:
            self.row_filter.begin(run)
        with closing(iter(run)) as batches:
            for batch in batches:
                if self.once is None or batch.prepared is not None:
                    yield batch, self._selected(batch, run)
                else:
                    yield from self._in_parts(batch, self.once.kept(batch.rows, run.endpoints), run)
            if self.once is not None and (rest := self.once.rest()):
                yield from self._in_parts(batch, rest, run)

    def _in_parts(self, batch: RowBatch, rows: list[Any], run: RowsRun) -> Iterator[tuple[RowBatch, list[Any]]]:
        """Yield a batch with these rows; rows that waited together are split into parts."""
        for part in in_parts(rows, ROWS_MAX if self.watch is None else sys.maxsize):
            batch.rows = part
            yield batch, self._selected(batch, run)

    def _selected(self, batch: RowBatch, run: RowsRun) -> list[Any]:
        """Return the rows of a batch that pass the watch and the filter, except those to skip."""
        if self.watch is not None:
            self.watch(batch)
        endpoints = run.endpoints if self.once is None else self.once.endpoints
        rows: list[Any] = batch.rows if self.row_filter is None else self.row_filter.select(batch.rows, endpoints)
        if self.skip is None:
            return rows
        rows, counted = self._counted(rows)
        if self.skip >= len(counted):
            self.skip -= len(counted)
            return []
        rows, self.skip = _part(rows, counted[self.skip], None), None
        return rows

    def _counted(self, rows: list[Any]) -> tuple[list[Any], Sequence[int]]:
        """Return the rows, of which each that counts has a position, and these positions."""
        if not in_columns(rows):
            rows = in_rows(rows)
            return rows, [index for index, row in enumerate(rows) if self._counts(row)]
        ordered = opened(rows)
        if FrameRow.kind not in self.kinds:
            return [ordered], [place for place, row in ordered.placed() if self._counts(row)]
        uncounted = {place for place, row in ordered.placed() if not self._counts(row)}
        places = range(len(ordered))
        return [ordered], [place for place in places if place not in uncounted] if uncounted else places

    def _counts(self, row: Any) -> bool:
        return type(row) is not RawFrame and row.kind in self.kinds


def _part(rows: list[Any], start: int, stop: int | None) -> list[Any]:
    """Return the rows between two positions, as `SelectedRows` counts them."""
    if not in_columns(rows):
        return rows[start:stop]
    ordered = rows[0]
    return [ordered.chosen([*range(start, len(ordered) if stop is None else stop)])]
