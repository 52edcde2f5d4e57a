"""Delivered entries that wait for their acknowledgment."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Generic, TypeVar

from pulsarscope.protocols.pulsar.rules.message_ids import Position

_SETTLED_MAX = 100
"""Settled positions that stay in their order until it is made anew."""

Entry = TypeVar("Entry")


class Waiting(Generic[Entry]):
    """Entries by position."""

    def __init__(self) -> None:
        self.entries: dict[Position, Entry] = {}
        self._order: list[Position] = []
        """Positions of `entries`, ascending, with some that are settled."""

    def add(self, position: Position, entry: Entry) -> None:
        """Let an entry wait."""
        self.entries[position] = entry
        if len(self._order) > 2 * len(self.entries) + _SETTLED_MAX:
            self._order = sorted(self.entries)
        else:
            insort(self._order, position)

    def take_order_before(self, position: Position) -> list[Position]:
        """Take the positions before one from the order; each is looked at once, however many cumulative acknowledgments come."""
        count = bisect_left(self._order, position)
        earlier = self._order[:count]
        del self._order[:count]
        return earlier


def is_stored(position: Position) -> bool:
    """Tell the positions of stored entries from the 0:0 and -1:-1 that all messages of non-persistent topics have."""
    return position > (0, 0)
