"""A filter for the rows of a redacted copy: selects the places at which another filter passed rows of the capture with the real names."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pulsarscope.filter.follow import UserFilter
from pulsarscope.filter.selection import INPUT_LAYER, Timed
from pulsarscope.model.ordered_rows import in_rows
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FindingRow, JourneyRow, MessageRow, RawFrame, Row


class ChosenRows:
    """A filter, used like `Filter`, for rows whose places are chosen beforehand. A place takes eight bytes."""

    def __init__(self, chooser: UserFilter, kinds: Collection[str]) -> None:
        self._chooser = chooser
        self.description = "match the filter"
        """Description without the name that is followed."""
        self.payload = chooser.payload
        self.learn = None
        """A copy's rows can be selected without learning anything first."""
        self.seen = dict.fromkeys(kinds, 0)
        self.kept = dict.fromkeys(kinds, 0)
        self._places = array("q")
        self._sorted = False

    def begin(self, run: Timed) -> None:
        """Restart counting."""
        del run
        self.seen, self.kept = (dict.fromkeys(self.seen, 0) for _ in range(2))

    def choose(self, rows: Sequence[Any], endpoints: Mapping[str, tuple[str, str]]) -> None:
        """Take the rows of the capture."""
        self._places.extend(_place(row) for row in self._chooser.select(rows, endpoints) if isinstance(row, Row))

    def select(self, rows: Sequence[Any], endpoints: Mapping[str, tuple[str, str]]) -> list[Any]:
        """Return the rows at chosen places, connections, and findings about the input."""
        del endpoints
        if not self._sorted:
            self._places = array("q", sorted(self._places))
            self._sorted = True
        passed = []
        chosen = True
        for row in in_rows(rows):
            if isinstance(row, Row):
                chosen = self._has(_place(row))
                if row.kind in self.seen:
                    self.seen[row.kind] += 1
                    self.kept[row.kind] += chosen
                elif type(row) is ConnectionRow or (type(row) is FindingRow and row.layer == INPUT_LAYER):
                    passed.append(row)
                    continue
            if chosen or not isinstance(row, (Row, RawFrame)):
                passed.append(row)
        return passed

    def absence(self) -> str | None:
        """Return a sentence without names if nothing has passed; else None."""
        return None if any(self.kept.values()) else f"none of {sum(self.seen.values()):,} records matches"

    def _has(self, place: int) -> bool:
        at = bisect_left(self._places, place)
        return at < len(self._places) and self._places[at] == place


def _place(row: Row) -> int:
    """Return a number for the place of a row, which also distinguishes rows at the same place, without names."""
    more: tuple[Any, ...] = ()
    if isinstance(row, MessageRow):
        more = row.direction, row.consumer_id, row.batch_index
    elif isinstance(row, ExchangeRow):
        more = row.request, row.response_file, row.response_packet, row.response_sub
    elif isinstance(row, FindingRow):
        more = (row.code,)
    elif isinstance(row, JourneyRow):
        more = row.ledger, row.entry, row.batch_index, row.delivery_frame
    return hash((row.kind, row.file, row.packet, row.sub, row.connection, *more))
