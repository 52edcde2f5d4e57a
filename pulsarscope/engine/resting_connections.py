"""Closed connections that wait for late packets, as bytes: they are most of the state of a stream, which each batch restores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pulsarscope.tcp import Assembler

if TYPE_CHECKING:
    from pulsarscope.engine.snapshot import Shared

RESTING_LEAST = 128
"""Minimum number of closed connections that are stored together."""

Tables = Sequence[dict[str, Any]]
"""State by connection."""


class _Group(NamedTuple):
    first: int
    """Time of the last packet of the connection that ended first."""
    last: int
    """Time of the last packet of the connection that ended last."""
    keys: frozenset[bytes]
    """Flow keys of both directions."""
    state: bytes


class RestingConnections:
    """Groups of closed connections of one vantage point, the earliest ones first."""

    def __init__(self) -> None:
        """Begin without any."""
        self._groups: list[_Group] = []

    def __len__(self) -> int:
        return sum(len(group.keys) for group in self._groups) // 2

    def add(self, assembler: Assembler, tables: Tables, shared: Shared) -> None:
        """Take closed connections from an assembler if there are many, but none that were stored before."""
        closed = assembler.take_closed(RESTING_LEAST, max((group.last for group in self._groups), default=0))
        if closed:
            names, ends = [connection.name for connection in closed], [connection.end for connection in closed]
            keys = frozenset(key for connection in closed for key in connection.keys)
            of_names = [{name: table.pop(name) for name in names if name in table} for table in tables]
            self._groups.append(_Group(min(ends), max(ends), keys, shared.dumps((closed, of_names))))

    def wake(self, flows: Iterable[bytes], time: int, room: int) -> list[bytes]:
        """Remove and return the groups in which a connection has a packet among flows, or had its last one before a time.

        When more connections than `room` are stored, the first groups are returned as well. The last group comes first. Each consists of
        the connections and their part of the tables, as stored by `Shared`.
        """
        groups, self._groups = self._groups, []
        woken = []
        flows = set(flows)  # with other iterables, each group would look at all of them
        for group in groups[::-1]:
            room -= len(group.keys) // 2
            if room >= 0 and group.first >= time and group.keys.isdisjoint(flows):
                self._groups.append(group)
            else:
                woken.append(group.state)
        self._groups.reverse()
        return woken
