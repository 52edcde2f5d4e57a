"""Findings about connections in a part of a capture that wait for the rows before them."""

from __future__ import annotations

from collections import deque
from itertools import chain
from typing import Any, NamedTuple

from pulsarscope.model.records import FindingRow


class Located(NamedTuple):
    """A finding about a connection, or a row of one that was given up, with the place of the packet that showed it."""

    connection: str
    row: Any
    order: int
    sender: str | None = None
    """Endpoint whose stream it is about, if it is about one."""
    counted: bool = False
    """True when it is for the rules alone, see `Finding.counted`."""


class ExpectedFindings:
    """Findings of the layers below that rules do not know yet: a rule knows them from the packet that showed them.

    Therefore verdicts do not depend on where parts end.
    """

    def __init__(self) -> None:
        """Begin without any findings."""
        self._waiting: dict[str, deque[Located]] = {}

    def __contains__(self, connection: object) -> bool:
        return connection in self._waiting

    def add(self, found: Located) -> None:
        """Add a finding after those of the same connection."""
        self._waiting.setdefault(found.connection, deque()).append(found)

    def due(self, connection: str, order: int) -> list[tuple[FindingRow, str | None]]:
        """Remove and return the findings, with their senders, about a connection that a row of this order knows."""
        waiting = self._waiting.get(connection, ())
        found = []
        while waiting and waiting[0].order <= order:
            each = waiting.popleft()
            found.append((each.row, each.sender))
        if not waiting:
            self.drop(connection)
        return found

    def drop(self, connection: str) -> None:
        """Drop the findings about a connection that has ended."""
        self._waiting.pop(connection, None)

    def rest(self) -> list[tuple[FindingRow, str | None]]:
        """Remove and return all remaining findings, with their senders, which no row followed."""
        waiting, self._waiting = self._waiting, {}
        return [(found.row, found.sender) for found in chain.from_iterable(waiting.values())]
