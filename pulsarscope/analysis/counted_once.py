"""A fold over all rows of a run that removes repetitions on other legs of a path."""

from __future__ import annotations

from collections import ChainMap, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from operator import attrgetter
from typing import Any, NamedTuple

from msgspec import Struct

from pulsarscope.dissect.contract.events import COPIES, DELIVER
from pulsarscope.dissect.contract.legs import WAITING_LIMITS, AnchorRow, LegTable
from pulsarscope.model.bounded_tables import NOTHING, remember
from pulsarscope.model.flow import SERVER
from pulsarscope.model.limits import (
    EARLY_CONNECTIONS_MAX,
    EARLY_MESSAGES_MAX,
    HELD_CONNECTIONS_MAX,
    HELD_ROWS_MAX,
    HELD_ROWS_NANOSECONDS,
    LEGS_MAX,
)
from pulsarscope.model.ordered_rows import as_ordered, others, split
from pulsarscope.model.platform import load_native
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FindingRow, FrameRow, MessageRow, RawFrame
from pulsarscope.model.row_lists import EntryMessages

CARRIED_MAX = 8_192
"""Deliveries for which the carrying connections are remembered, half a KiB each: proxies forward them within milliseconds."""

CARRIERS_MAX = 16
"""Connections remembered per delivery: each subscription of a topic gets it, on as many legs as the path has."""

UNDECIDED_ROWS_MAX = 4_096
"""Rows that wait until it is known whether a preceding message is a repetition on another leg."""

UNDECIDED_NANOSECONDS_MAX = 1_000_000_000
"""Longest time for which they wait: clients that collect acknowledgments send them ten times a second."""

QUIET_SECONDS = 1.0
"""Time without rows after which they stop waiting in a live run, where no further row may ever come."""

UNDECIDED_MAX_BYTES = 32 << 20
"""Bytes of waiting frames and payloads from which rows stop waiting."""

_IDENTITY = ("direction", "producer_id", "consumer_id", "sequence_id", "ledger", "entry", "batch_index", "redelivery_count")
"""Columns of messages that are the same on all legs, and distinguish the messages of a connection."""

_identity = attrgetter(*_IDENTITY)

IDENTIFYING = ("connection", "time", "payload_size", *_IDENTITY)
"""Columns of messages that are required."""

_connection = attrgetter("connection")

_OFTEN = frozenset({FrameRow, ExchangeRow})
"""Types of most rows."""

_TOGETHER = frozenset({EntryMessages})
"""Types of most rows if messages stay together."""

_OF_THE_LEG = frozenset({"capture", "tcp", "tls"})
"""Layers of findings that concern one leg, whatever it carries."""


class Fingerprint(NamedTuple):
    """Identity of a row that is the same on all legs of a path."""

    connection: str | None
    """Connection; None when the row is about this leg only."""
    message: Any
    """Identity of a message on all legs."""
    time: int | None
    """Time; None when the row is about a file."""
    size: int
    """Bytes of a frame, or of a payload."""


class CountedOnce:
    """The fold. It takes all rows, including those of anchors, in order.

    If the capture begins after the connections did, only acknowledgments show that two of them are legs of one path. Therefore a delivery
    that came earlier on another connection waits, with everything that follows, until it is known whether it is the same one.
    """

    def __init__(
        self,
        *,
        shown: frozenset[str] = frozenset(),
        holds: bool = False,
        clock: Callable[[], float] | None = None,
        mark: Callable[[Any], Fingerprint] | None = None,
    ) -> None:
        """Begin.

        Args:
            shown: kinds of rows that are kept on all legs.
            holds: the first frames of a connection wait until it may be recognised as a leg, which changes the order of rows.
            clock: returns the seconds of a clock, in a live run.
            mark: returns the identity of rows in another form.
        """
        self._shown = shown
        self._clock = clock
        self._heard = 0.0
        """Time of the clock when rows came last."""
        self._quiet = False
        """True when no rows have come for a long time, and none may follow."""
        self._frames_wait = FrameRow.kind not in shown
        self._mark = mark or mark_of
        self._looked: deque[Any] = deque()
        """Waiting rows whose anchors have been taken out."""
        self._unseen: deque[Any] = deque()
        """Rows after those."""
        self._sizes: deque[int] = deque()
        """Bytes of each row in `_looked`."""
        self._looked_bytes = 0
        self._ends: dict[str, tuple[str, str]] = {}
        """Client and server of the connections of waiting rows; the connections may already have ended."""
        self.endpoints: Mapping[str, tuple[str, str]] = {}
        """Client and server of the connections of the latest kept rows."""
        self._carriers: dict[Any, list[str]] = {}
        """Connections with a delivery among their first messages, by delivery."""
        self._strangers: dict[tuple[str, str], None] = {}
        """Pairs of connections that were not recognised as legs in time."""
        self._frames: dict[str, int] = {}
        """Number of first frames with messages so far, by connection."""
        self._carried: set[str] = set()
        """Connections with more frames with messages than these."""
        self._ended = False
        self._legs = LegTable()
        self._early: dict[str, list[Any]] = {}
        """First messages of the latest connections: they may precede the recognition of their connection as a leg."""
        self._repeated: dict[str, set[Any]] = {}
        """Messages of inner legs, by the outer connection that repeats them."""
        self._held: dict[str, list[Any]] | None = {} if holds else None
        self._holding: deque[tuple[int, str]] = deque()
        """Time of the first held row of each connection."""
        self._begun: set[str] = set()
        """Unfinished connections whose rows are no longer held."""
        self._settled: set[str] = set()
        """Connections with more messages than are remembered, none of which is known to be a repetition."""
        self.inner: list[Any] = []
        """The latest rows that were removed."""
        self._columns: Any = None
        """`KeptOnce` of the compiled reader, once rows in columns have come."""
        self._holds_places = False
        """True when held rows may be places in columns."""

    @property
    def outer_of(self) -> Mapping[str, str]:
        """The outer leg of each inner leg."""
        return self._legs.outer_of

    def kept(self, rows: Sequence[Any], endpoints: Mapping[str, tuple[str, str]] = NOTHING) -> list[Any]:
        """Return the rows without anchors and without repetitions on inner legs, up to one that is not yet decided."""
        self.inner = []
        self._look_at_clock(rows)
        ordered, following = split(rows)
        waits = bool(self._sizes or self._unseen)
        if ordered is not None:
            of_python = others(rows)
            if not waits and _OFTEN.issuperset(map(type, of_python)):
                carrying = ordered.connections()
                names = carrying.union(map(_connection, of_python))
                carrying.update(row.connection for row in of_python if type(row) is FrameRow and row.num_messages)
                if carrying <= self._carried and self._are_counted(names):
                    self.endpoints = endpoints
                    return [*rows]
        if not (waits or self._shown) and (ordered is not None or self._columns is not None):
            kept = self._kept_in_columns(as_ordered(rows))
            if kept is not None:
                self.endpoints = endpoints
                return [kept]
        if ordered is not None:
            rows = [*ordered.all(), *following]
        if self._holds_places:
            self._holds_places = False
            for rows_held in (self._held or {}).values():
                rows_held[:] = _in_rows(rows_held)
        out: list[Any] = []
        held, begun, outer_of, carried = self._held, self._begun, self._legs.outer_of, self._carried
        unseen = self._unseen
        unseen.extend(rows)
        self.endpoints = ChainMap(self._ends, endpoints) if self._ends else endpoints  # type: ignore[arg-type]  # nobody changes it
        if not self._sizes and _OFTEN.issuperset(map(type, unseen)):  # in that case, nothing changes what is known about connections
            names = set(map(_connection, unseen))
            if (names <= carried or not self._frames_wait) and self._are_counted(names):
                out += unseen
                unseen.clear()
        elif not self._sizes and _TOGETHER.issuperset(map(type, unseen)):
            named = {(each.shared.connection, each.shared.direction) for each in unseen}
            if all(connection in self._settled and direction not in COPIES for connection, direction in named):
                out += unseen
                unseen.clear()
        while self._sizes or unseen:
            row = self._next_looked() if self._sizes else self._next_unseen()
            kind = type(row)
            if kind is FrameRow or kind is ExchangeRow:  # most rows
                if kind is FrameRow and row.num_messages and row.connection not in carried and self._frame_must_wait(row):
                    return self._put_off(rows, endpoints, out)
                if row.connection in outer_of and row.kind not in self._shown:  # possibly only known since looking ahead
                    self.inner.append(row)
                elif held is None or row.connection in begun or not self._hold(held, row, out):
                    out.append(row)
            elif (kind is MessageRow or kind is EntryMessages) and self._is_settled(row if kind is MessageRow else row.shared):
                out.append(row)
            elif kind is AnchorRow:
                self.add(row)
            elif self._must_wait(row, mark := self._mark(row)):
                return self._put_off(rows, endpoints, out)
            elif not self._repeats(mark) or row.kind in self._shown:
                if kind is ConnectionRow:
                    self._settled.discard(row.connection)
                    carried.discard(row.connection)
                    self._frames.pop(row.connection, None)
                    if held is not None:
                        self._begin(row.connection, held, out)
                        begun.discard(row.connection)
                out.append(row)
            else:
                self.inner.append(row)
        self._ends = {}
        return out

    def _is_settled(self, message: MessageRow) -> bool:
        """Return True for a message without repetitions: none is known for its connection, and it is not a copy in storage."""
        return message.connection in self._settled and message.direction not in COPIES

    def _are_counted(self, names: AbstractSet[str]) -> bool:
        """Return True when frames and exchanges of these connections are kept, unless a message in them may have to wait."""
        return (self._held is None or names <= self._begun) and names.isdisjoint(self.outer_of)

    def _kept_in_columns(self, ordered: Any) -> Any:
        """Do the same as `kept` for ordered rows, and return ordered rows; None if some of them may have to wait."""
        if self._columns is None:
            self._columns = load_native()[0].KeptOnce(
                (self._held, self._holding, self._begun),
                (self._carried, self._settled, self._frames),
                self._legs.outer_of,
                (self._legs.waiting, WAITING_LIMITS),
                (HELD_ROWS_MAX, HELD_ROWS_NANOSECONDS, HELD_CONNECTIONS_MAX, EARLY_MESSAGES_MAX),
                [FrameRow, ExchangeRow, ConnectionRow, FindingRow, AnchorRow],
            )
        self._holds_places = True
        return self._columns.kept(ordered, self.inner, self.add, lambda finding: self._repeats(self._mark(finding)), self._ended)

    def add(self, anchor: AnchorRow, equal: Sequence[Any] | None = None) -> Sequence[str]:
        """Take an anchor; `equal` are the earlier ones, if it is already waiting. Return the connections found to be inner legs."""
        found = self._legs.add_row(anchor) if equal is None else self._legs.join(anchor, equal)
        for inner in found:
            self._leave_out(inner, self.outer_of[inner])
        return found

    def _leave_out(self, inner: str, outer: str) -> None:
        """Remove the following rows of an inner leg; on the outer leg, remove messages that came on the inner one and are still to come."""
        coming = {*self._early.pop(inner, ())}.difference(self._early.get(outer, ()))
        remember(self._repeated, outer, coming.union(self._repeated.get(outer, ())), EARLY_CONNECTIONS_MAX)
        self._settled -= {inner, outer}
        if self._held is not None:
            self.inner += _in_rows(self._held.pop(inner, ()))

    def selected(self, rows: Sequence[Any]) -> list[Any]:
        """Do the same as `kept` for rows in another form, whose frames are not held."""
        out: list[Any] = []
        self._look_at_clock(rows)
        unseen = self._unseen
        unseen.extend(rows)
        while self._sizes or unseen:
            row = self._next_looked() if self._sizes else self._next_unseen()
            if type(row) is AnchorRow:
                self.add(row)
            elif self._must_wait(row, mark := self._mark(row)):
                break
            elif not self._repeats(mark):
                out.append(row)
        return out

    def _look_at_clock(self, rows: Sequence[Any]) -> None:
        if self._clock is not None:
            now = self._clock()
            self._heard = now if rows else self._heard
            self._quiet = now - self._heard > QUIET_SECONDS

    def _put_off(self, rows: Sequence[Any], endpoints: Mapping[str, tuple[str, str]], out: list[Any]) -> list[Any]:
        """Remember the ends of the connections of waiting rows, and return the kept rows."""
        names = {self._mark(each).connection for each in rows if type(each) is not AnchorRow}
        self._ends.update((name, endpoints[name]) for name in names if name is not None and name in endpoints)
        return out

    def _next_looked(self) -> Any:
        self._looked_bytes -= self._sizes.popleft()
        row = self._looked.popleft()
        if self._is_to_split(row):
            row, *others = row.rows()
            sizes = [self._mark(other).size for other in others]
            self._looked.extendleft(reversed(others))
            self._sizes.extendleft(reversed(sizes))
            self._looked_bytes += sum(sizes)
        return row

    def _next_unseen(self) -> Any:
        row = self._unseen.popleft()
        if self._is_to_split(row):
            row, *others = row.rows()
            self._unseen.extendleft(reversed(others))
        return row

    def _is_to_split(self, row: Any) -> bool:
        """Return True for messages that are separate entries, each of which may also come on another leg."""
        return type(row) is EntryMessages and row.is_run and not self._is_settled(row.shared)

    def _frame_must_wait(self, row: FrameRow) -> bool:
        """Do the same as `_must_wait` for one of the first frames with messages of a connection, identified by their data on these."""
        if not self._frames_wait:
            return False
        name = row.connection
        content = DELIVER, row.command, row.size, row.payload_size, row.num_messages, row.producer_name
        if row.direction == SERVER and self._must_wait(row, Fingerprint(name, content, row.time, row.size)):
            return True
        self._frames[name] = number = self._frames.get(name, 0) + 1
        if number >= EARLY_MESSAGES_MAX:
            del self._frames[name]
            self._carried.add(name)
        return False

    def _must_wait(self, row: Any, mark: Fingerprint) -> bool:
        """Look ahead until it is known whether a message is a repetition; if more rows are needed, put it back and return True."""
        connection, message, *_ = mark
        if message is None or message[0] != DELIVER or connection is None or connection in self._settled or connection in self.outer_of:
            return False
        carriers = self._carriers.get(message)
        if carriers is None:
            remember(self._carriers, message, [connection], CARRIED_MAX)
            return False
        for other in carriers:
            if not self._decided(other, connection) and not self._look_ahead(mark, other, connection):
                self._looked.appendleft(row)
                self._sizes.appendleft(mark.size)
                self._looked_bytes += mark.size
                return True
        if connection not in carriers and len(carriers) < CARRIERS_MAX:
            carriers.append(connection)
        return False

    def _decided(self, first: str, second: str) -> bool:
        """Return True when it is known whether `second` is the outer leg of `first`, on which a message came earlier."""
        return first == second or first in self.outer_of or (first, second) in self._strangers

    def _look_ahead(self, mark: Fingerprint, first: str, second: str) -> bool:
        """Take the anchors after a message until two connections are decided, or it is too late; return False if more rows are needed."""
        looked, unseen = self._looked, self._unseen
        while self._looked_bytes <= UNDECIDED_MAX_BYTES and len(looked) < UNDECIDED_ROWS_MAX:
            if not unseen:
                if not (self._ended or self._quiet):
                    return False
                break
            row = self._next_unseen()
            if type(row) is AnchorRow:
                self.add(row)
                time: int | None = row.time
            else:
                looked.append(row)
                seen = self._mark(row)
                time = seen.time
                self._sizes.append(seen.size)
                self._looked_bytes += seen.size
            if self._decided(first, second):
                return True
            if time is not None and mark.time is not None and time - mark.time > UNDECIDED_NANOSECONDS_MAX:
                break
        if self._legs.weight(second, first) > 0:  # all acknowledgments so far are evidence for it
            self._legs.presume(second, first)
            self._leave_out(first, second)
        else:
            remember(self._strangers, (first, second), None, LEGS_MAX)
        return True

    def _repeats(self, mark: Fingerprint) -> bool:
        """Return True for a row that another leg also has, and for a copy of a message in storage."""
        connection, message, *_ = mark
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
        """Hold one of the first rows of a connection; release rows that have waited for long, or of too many connections or rows."""
        name = row.connection
        rows = held.get(name)
        if rows is None:
            rows = held[name] = []
            self._holding.append((row.time, name))
            while len(held) > HELD_CONNECTIONS_MAX or self._holding[0][0] < row.time - HELD_ROWS_NANOSECONDS:
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
        self._ended = True
        rows = self.kept(())
        rows += [row for held in (self._held or {}).values() for row in _in_rows(held)]
        self._held = None
        return rows

    def rest_of_selected(self) -> list[Any]:
        """Do the same as `rest` for rows in another form."""
        self._ended = True
        return self.selected(())


def _in_rows(held: Iterable[Any]) -> list[Any]:
    """Return held items as rows."""
    return [row for each in held for row in ((each,) if isinstance(each, Struct) else each.rows())]


def mark_of(row: Any) -> Fingerprint:
    """Return the identity of a row."""
    kind = type(row)
    if kind is RawFrame:
        return Fingerprint(None, None, 0, len(row.data))
    if kind is EntryMessages or row.kind == MessageRow.kind:
        shared = row.shared if kind is EntryMessages else row
        return Fingerprint(shared.connection, _identity(shared), shared.time, shared.payload_size or 0)
    own = row.kind == ConnectionRow.kind or (row.kind == FindingRow.kind and row.layer in _OF_THE_LEG)
    return Fingerprint(None if own else row.connection, None, row.time, row.size or 0 if kind is FrameRow else 0)
