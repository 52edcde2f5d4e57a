"""A fold over all rows of a run that leaves out what comes a second time, over another leg of its path."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Any

from pulsarscope.dissect.events import COPIES
from pulsarscope.dissect.legs import AnchorRow, LegTable
from pulsarscope.model.limits import EARLY_CONNECTIONS_MAX, EARLY_MESSAGES_MAX, HELD_ROWS_MAX, HELD_ROWS_NANOSECONDS
from pulsarscope.model.records import ConnectionRow, EntryMessages, ExchangeRow, FindingRow, FrameRow, MessageRow, RawFrame
from pulsarscope.model.tables import remember

_IDENTITY = ("direction", "producer_id", "consumer_id", "sequence_id", "ledger", "entry", "batch_index", "redelivery_count")
"""Columns of messages that are the same on all legs, and tell the messages of a connection from each other."""

_identity = attrgetter(*_IDENTITY)

IDENTIFYING = ("connection", *_IDENTITY)
"""Columns of messages that must be there."""

_OF_THE_LEG = frozenset({"capture", "tcp", "tls"})
"""Layers of findings about one leg, whatever it carries."""


class CountedOnce:
    """Give it all rows, with those of anchors, in their order."""

    def __init__(self, *, shown: frozenset[str] = frozenset(), holds: bool = False) -> None:
        """Begin.

        Args:
            shown: kinds of rows that stay on all legs.
            holds: the first frames of a connection wait until it can be known for a leg, so that the order of rows changes.
        """
        self._shown = shown
        self._legs = LegTable()
        self._early: dict[str, list[Any]] = {}
        """First messages of connections that came last: they may be there before their connection is known for a leg."""
        self._repeated: dict[str, set[Any]] = {}
        """Those of inner legs, by the outer connection, on which they come again."""
        self._held: dict[str, list[Any]] | None = {} if holds else None
        self._holding: deque[tuple[int, str]] = deque()
        """Time of the first row held of each connection."""
        self._begun: set[str] = set()
        """Connections whose rows are held no more, and which have not ended."""
        self._settled: set[str] = set()
        """Connections with more messages than are remembered, of which none is known to come twice."""
        self.inner: list[Any] = []
        """The rows left out, of the latest ones."""

    @property
    def outer_of(self) -> Mapping[str, str]:
        """The outer leg of each connection that is an inner one."""
        return self._legs.outer_of

    def kept(self, rows: Iterable[Any]) -> list[Any]:
        """Return the rows without anchors and without those that inner legs repeat."""
        self.inner = []
        out: list[Any] = []
        held, begun, outer_of, settled = self._held, self._begun, self._legs.outer_of, self._settled
        for row in rows:
            kind = type(row)
            if kind is FrameRow or kind is ExchangeRow:  # most are
                if row.connection in outer_of and row.kind not in self._shown:
                    self.inner.append(row)
                elif held is None or row.connection in begun or not self._hold(held, row, out):
                    out.append(row)
            elif kind is MessageRow and row.connection in settled and row.direction not in COPIES:
                out.append(row)
            elif kind is AnchorRow:
                self.add(row)
            elif kind is RawFrame or not self.repeats(*identified(row)) or row.kind in self._shown:
                if kind is ConnectionRow:
                    settled.discard(row.connection)
                    if held is not None:
                        self._begin(row.connection, held, out)
                        begun.discard(row.connection)
                out.append(row)
            else:
                self.inner.append(row)
        return out

    def add(self, anchor: AnchorRow) -> None:
        """Take an anchor."""
        for inner in self._legs.add(*anchor):
            remember(self._repeated, self.outer_of[inner], {*self._early.pop(inner, ())}, EARLY_CONNECTIONS_MAX)
            self._settled -= {inner, self.outer_of[inner]}
            if self._held is not None:
                self.inner += self._held.pop(inner, ())

    def repeats(self, connection: str | None, message: Any) -> bool:
        """Return True for a row that another leg brings, too, as `identified` tells it, and for a copy of a message in a storage."""
        if connection is None:
            return False
        if connection in self.outer_of or (message is not None and message[0] in COPIES):
            return True
        if message is None:
            return False
        early = self._early.get(connection)
        if early is None:
            remember(self._early, connection, [message], EARLY_CONNECTIONS_MAX)
        elif len(early) < EARLY_MESSAGES_MAX:
            early.append(message)
        elif connection not in self._repeated:
            self._settled.add(connection)
        repeated = self._repeated.get(connection)
        if not repeated or message not in repeated:
            return False
        repeated.discard(message)
        return True

    def _hold(self, held: dict[str, list[Any]], row: FrameRow | ExchangeRow, out: list[Any]) -> bool:
        """Hold one of the first rows of a connection; hand on those that have waited for long, and those of connections with many."""
        name = row.connection
        rows = held.get(name)
        if rows is None:
            rows = held[name] = []
            self._holding.append((row.time, name))
            while self._holding[0][0] < row.time - HELD_ROWS_NANOSECONDS:
                self._begin(self._holding.popleft()[1], held, out)
        rows.append(row)
        if len(rows) >= HELD_ROWS_MAX:
            self._begin(name, held, out)
        return True

    def _begin(self, name: str, held: dict[str, list[Any]], out: list[Any]) -> None:
        rows = held.pop(name, None)
        if rows is not None:
            self._begun.add(name)
            out += rows

    def rest(self) -> list[Any]:
        """Return the rows that still wait: the run has ended."""
        rows = [row for held in (self._held or {}).values() for row in held]
        self._held = None
        return rows


def identified(row: Any) -> tuple[str | None, Any]:
    """Return the connection of a row, None if the row is about this leg only, and of messages what they are the same by on all legs."""
    kind = row.kind
    if kind == MessageRow.kind:
        shared = row.shared if type(row) is EntryMessages else row
        return shared.connection, _identity(shared)
    own = kind == ConnectionRow.kind or (kind == FindingRow.kind and row.layer in _OF_THE_LEG)
    return None if own else row.connection, None
