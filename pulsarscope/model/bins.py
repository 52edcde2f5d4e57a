"""Cells by time bin and key, bounded in number: when they become too many, the bins double in width."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Cell = TypeVar("Cell")

FINEST = 1_000
"""Initial width of a bin, nanoseconds: hardly any capture clock is finer than this."""


class Bins(Generic[Key, Cell]):
    """Cells that grow in place."""

    def __init__(self, most: int, make: Callable[[], Cell], join: Callable[[Cell, Cell], object], width: int = FINEST) -> None:
        """Keep at most `most` cells, which must be more than there are keys; `join` adds a later cell to an earlier one."""
        self.width = width
        """Width of a bin, nanoseconds."""
        self._most = most
        self._make = make
        self._join = join
        self._cells: dict[tuple[int, Key], Cell] = {}

    def of(self, time: int, key: Key) -> Cell:
        """Return the cell of a key at a time; make it if there is none."""
        place = time // self.width, key
        if (cell := self._cells.get(place)) is None:
            while len(self._cells) >= self._most and place not in self._cells:
                self._double()
                place = time // self.width, key
            cell = self._cells.setdefault(place, self._make())
        return cell

    def widen(self, bins: int, end: int = 0) -> None:
        """Double the bins until there are at most `bins` of them from the first to the last, or to the one that holds the time `end`."""
        while self._cells and max(self._places()[-1][0], end // self.width) - self._places()[0][0] >= bins:
            self._double()

    def cells(self) -> list[tuple[int, Key, Cell]]:
        """Return each cell with the start of its bin and its key, ordered by time."""
        return [(place * self.width, key, self._cells[place, key]) for place, key in self._places()]

    def _places(self) -> list[tuple[int, Key]]:
        return sorted(self._cells, key=lambda place: place[0])

    def _double(self) -> None:
        self.width *= 2
        joined: dict[tuple[int, Key], Cell] = {}
        for bin_, key in self._places():
            cell = self._cells[bin_, key]
            if (earlier := joined.setdefault((bin_ // 2, key), cell)) is not cell:
                self._join(earlier, cell)
        self._cells = joined
