"""Cells by bin of time and key, of which there are never more than a bound: the bins double instead."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Cell = TypeVar("Cell")

FINEST = 1_000
"""Nanoseconds of a bin at first: no clock of a capture is finer than this by much."""


class Bins(Generic[Key, Cell]):
    """Cells that grow in place."""

    def __init__(self, most: int, make: Callable[[], Cell], join: Callable[[Cell, Cell], object], width: int = FINEST) -> None:
        """Keep at most `most` cells, which must be more than there are keys; `join` adds a later cell to an earlier one."""
        self.width = width
        """Nanoseconds of a bin."""
        self._most = most
        self._make = make
        self._join = join
        self._cells: dict[tuple[int, Key], Cell] = {}

    def of(self, time: int, key: Key) -> Cell:
        """Return the cell of a key at a time."""
        place = time // self.width, key
        if (cell := self._cells.get(place)) is None:
            while len(self._cells) >= self._most and place not in self._cells:
                self._double()
                place = time // self.width, key
            cell = self._cells.setdefault(place, self._make())
        return cell

    def widen(self, bins: int, end: int = 0) -> None:
        """Double the bins until there are at most so many from the first to the last, or to that of the time `end`."""
        while self._cells and max(self._places()[-1][0], end // self.width) - self._places()[0][0] >= bins:
            self._double()

    def cells(self) -> list[tuple[int, Key, Cell]]:
        """Return the start of its bin, the key and the cell of each, in order of time."""
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
