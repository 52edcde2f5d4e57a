"""The connections of a run in progress: open ones with counts from their frames, ended ones as reported."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from threading import Lock
from typing import Any

from pulsarscope.model.connection_name import first_packet
from pulsarscope.model.flow import CLIENT
from pulsarscope.model.records import ConnectionRow, FrameRow


class Connections:
    """Connections by name. One thread may feed while another takes changes."""

    def __init__(self, maximum: int, *, forgets: bool) -> None:
        """Keep at most `maximum`. Beyond that, forget those that ended first if `forgets`; else leave out further ones."""
        self._revision = 0
        self._rows: dict[str, ConnectionRow] = {}
        self._open: set[str] = set()
        self._ended: deque[str] = deque()
        self._changed: dict[str, None] = {}
        self._maximum, self._forgets = maximum, forgets
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._rows)

    def feed(self, rows: Iterable[Any], endpoints: Mapping[str, tuple[str, str]]) -> None:
        """Take the rows of a run."""
        with self._lock:
            for row in rows:
                if isinstance(row, FrameRow):
                    self._count(row, endpoints)
                elif isinstance(row, ConnectionRow):
                    self._end(row)

    def order(self) -> None:
        """Put the connections, which are now complete, in the order of their first packets."""
        with self._lock:
            names = sorted(self._rows, key=_place)
            if names != [*self._rows]:
                self._rows = {name: self._rows[name] for name in names}
                self._begin_anew()

    def take_changed(self, maximum: int) -> tuple[int, Sequence[ConnectionRow]]:
        """Return the number of times that rows were removed or reordered, and the rows that are new or changed since they were taken.

        After each removal or reordering, all rows count as changed.
        """
        with self._lock:
            names = [name for name, _ in zip(self._changed, range(maximum), strict=False)]
            for name in names:
                del self._changed[name]
            return self._revision, [self._rows[name] for name in names]

    def _count(self, frame: FrameRow, endpoints: Mapping[str, tuple[str, str]]) -> None:
        name = frame.connection
        if name not in self._rows:
            client, server = endpoints.get(name, ("?", "?"))
            begun = ConnectionRow(connection=name, client=client, server=server, client_bytes=0, server_bytes=0, closed="open")
            if not self._put(begun):
                return
            self._open.add(name)
        if name in self._open:
            row = self._rows[name]
            if frame.direction == CLIENT:
                row.client_bytes += frame.size
            else:
                row.server_bytes += frame.size
            self._changed[name] = None

    def _end(self, row: ConnectionRow) -> None:
        name = row.connection or ""
        if self._put(row):
            self._open.discard(name)
            if self._forgets:
                self._ended.append(name)

    def _put(self, row: ConnectionRow) -> bool:
        """Keep a connection; return False when there is no room for it."""
        name = row.connection or ""
        if name not in self._rows and len(self._rows) >= self._maximum and not self._make_room():
            return False
        self._rows[name] = row
        self._changed[name] = None
        return True

    def _make_room(self) -> bool:
        """Forget ended connections, up to a tenth of all."""
        forgotten = [self._ended.popleft() for _ in range(min(len(self._ended), self._maximum // 10 + 1))]
        for name in forgotten:
            self._rows.pop(name, None)
        if forgotten:
            self._begin_anew()
        return bool(forgotten)

    def _begin_anew(self) -> None:
        self._changed = dict.fromkeys(self._rows)
        self._revision += 1


def _place(name: str) -> tuple[str, int]:
    """Return the sort key of a connection: its first packet."""
    file = name.partition(":")[0]
    return file.rjust(9, "0"), first_packet(name)
