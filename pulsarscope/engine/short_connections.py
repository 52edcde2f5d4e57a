"""Short connections that the compiled reader reads by itself, TCP and session included, as long as all of them is plain.

It takes connections that begin with a SYN, many at a call, and keeps their packets while they are open. If a connection turns out not to be
plain, or grows long, the assembler and the session get its packets from the first one on: this gives them the state that they would have
had; the rows of these packets have already been yielded.
"""

from __future__ import annotations

from functools import partial
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol

from pulsarscope.dissect.contract.legs import ANCHOR, AnchorRow
from pulsarscope.dissect.framing.column_batch import ColumnBatch
from pulsarscope.engine.ended_timeline import nothing_left
from pulsarscope.engine.plain_connection import PlainConnection, PlainEnd, ended_timeline
from pulsarscope.model.flow import CLIENT, FILE_SHIFT, SERVER
from pulsarscope.model.limits import (
    ANCHORS_MAX,
    CLOSED_CONNECTION_NANOSECONDS,
    IDLE_CONNECTION_NANOSECONDS,
    OPEN_CONNECTIONS_MAX,
    RESET_WINDOW_BYTES,
    SILENT_CONNECTIONS_MAX,
)
from pulsarscope.model.platform import load_native
from pulsarscope.model.records import ConnectionRow, ExchangeRow
from pulsarscope.tcp.ack_times import ACK_BOUNDS
from pulsarscope.tcp.closed_connections import closed_connection
from pulsarscope.tcp.connection import pack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pulsarscope.capture import Block, Inputs, Segment
    from pulsarscope.dissect.contract.dissector import Dissector
    from pulsarscope.engine.row_batch import Totals
    from pulsarscope.engine.timelines import Timelines
    from pulsarscope.tcp import Assembler
    from pulsarscope.tcp.connection import ClosedConnection, Connection, ConnectionEvents

Given = tuple[list[tuple[bytes, "Segment"]], list[tuple[str, bytes, int]]]
"""Packets with their flow keys, in order; and of each of their connections its name, the flow key of the client, and its engine."""

AT_A_TIME = 256
"""Connections that become objects together."""


class ConnectionShare(Protocol):
    """The connections that an engine decodes, if other engines decode the others of a run; all of them read all packets."""

    number: int
    """Number of the engine, from zero."""

    def select(self, events: Sequence[ConnectionEvents]) -> Iterable[tuple[int, ConnectionEvents]]:
        """Yield the connections of the engine, each with its position among all."""

    def assign(self, key: bytes) -> int:
        """Return the number of the engine that decodes a connection that begins, by the flow key of its client."""

    def note_owner(self, name: str, key: bytes, owner: int, *, closed: bool = False) -> None:
        """Remember the engine of a connection that was assigned before; its events follow."""


class ShortConnections:
    """Short connections of one vantage point, in addition to those of an assembler."""

    def __init__(
        self, dissector: Dissector, inputs: Inputs, timelines: Timelines, totals: Totals, share: ConnectionShare | None = None
    ) -> None:
        """Begin without any connections.

        Args:
            dissector: reads the frames.
            inputs: captures of the run.
            timelines: the timelines of the engine, which must be in columns.
            totals: receive what is counted of these connections.
            share: the connections whose rows are made, if not all are.
        """
        native, _ = load_native()
        compiled = dissector.compiled
        largest, padding = compiled.sizes
        bounds = IDLE_CONNECTION_NANOSECONDS, CLOSED_CONNECTION_NANOSECONDS, RESET_WINDOW_BYTES, ACK_BOUNDS
        session = timelines.settings[None].session
        self._gives_rows = timelines.gives_connections
        self._evaluates = timelines.evaluates
        anchors = ANCHORS_MAX if ANCHOR in session.kinds else 0
        asked = ExchangeRow.kind in session.kinds, self._gives_rows, self._evaluates, anchors, AnchorRow, compiled.described
        sizes = dissector.framing.smallest, largest, padding
        assigned = None if share is None else (share.number, share.assign)
        self._compiled: Any = native.ShortConnections(bounds, sizes, session.payloads, asked, totals.starts is not None, assigned)
        self._share = share
        self._dissector = dissector
        self._inputs = inputs
        self._timelines = timelines
        self._totals = totals
        self._file = 0

    def feed(self, block: Block, following_start: int | None, taken: int, assembler: Assembler) -> list[ConnectionEvents]:
        """Read the flows of these connections in a block, and feed the others to the assembler; return its result.

        For `following_start` and `taken`, see `Assembler.feed`.
        """
        if block.file != self._file:
            self.hand_over(assembler)
            self._file = block.file
        source = self._inputs.source(block.file)
        columns = self._dissector.compiled.frames()
        names = source, block.file, self._dissector.name, CLIENT, SERVER
        block.flows, begun, (with_frames, ended), given, closed, resets, closing = self._compiled.read(
            columns, block.flows, assembler.table, names
        )
        if self._share is None or not self._share.number:
            self._totals.connections += begun
        self._note_starts()
        self._catch_up(given, assembler)
        assembler.put_back(sorted(self._made(closed), key=attrgetter("closed_at")))
        if len(columns):
            recognised = {name: PlainConnection(key, self._dissector.name) for name, key in with_frames.items()}
            self._timelines.add_columns(block.file << FILE_SHIFT | block.last_packet, ColumnBatch(columns), recognised)
        for each in map(self._ended, closing):
            self._timelines.add_end(each)
        for _, _, name, key, begin, recognised, owner in resets:
            if not self._note_owner(name, key, owner, closed=True):
                continue
            if recognised:
                ended.append(name)
            self._end_timeline(PlainConnection(key, self._dissector.name), name, block.file, begin, recognised=recognised)
        self._timelines.note_ended(ended)
        if self._compiled.open + assembler.unfinished > min(OPEN_CONNECTIONS_MAX, SILENT_CONNECTIONS_MAX):
            self.hand_over(assembler)
        if self._compiled.closed > assembler.closed_room(len(block.control)):
            self._hand_over_closed(assembler)
        return assembler.feed(block, following_start, taken, self, [(first, packets) for first, packets, *_ in resets])

    def finish_closed(self, time: int, before: int) -> bool:
        """See `tcp.connection.ClosedElsewhere`."""
        place = before >> FILE_SHIFT, before & (1 << FILE_SHIFT) - 1
        while found := self._compiled.forget(time - 2 * CLOSED_CONNECTION_NANOSECONDS, place, AT_A_TIME):
            self._timelines.add_finished(self._own_ends(found))
        oldest = self._compiled.oldest
        return oldest is not None and oldest < place

    def hand_over(self, assembler: Assembler, *, closed: bool = False) -> None:
        """Hand over all open connections to the assembler; with `closed`, closed ones, too."""
        self._compiled.end(all=True)
        self._take_given_up(assembler)
        if closed:
            self._hand_over_closed(assembler)

    def end(self, assembler: Assembler) -> Iterator[PlainEnd]:
        """End all connections, as their capture ends; hand over those with something to report to the assembler.

        Yield the closed ones whose rows are to be written, ordered by their last packets: some at a time, as there may be very many.
        """
        self._compiled.end(all=False)
        self._take_given_up(assembler)
        self._note_starts()
        self._timelines.forget_added()
        return self._own_ends(chain.from_iterable(iter(partial(self._compiled.take_finished, AT_A_TIME), [])))

    def _note_starts(self) -> None:
        """Record where the streams of connections begin that have ended here."""
        if self._totals.starts is not None:
            self._totals.starts.extend(*self._compiled.take_starts())

    def _take_given_up(self, assembler: Assembler) -> None:
        """Hand over the connections that the compiled reader gives up: some at a time, as there may be very many."""
        while (given := self._compiled.take_given_up(AT_A_TIME))[1]:
            self._catch_up(given, assembler)

    def _catch_up(self, given: Given, assembler: Assembler) -> None:
        """Bring connections to their current state, by their packets."""
        packets, of = given
        own = {name for name, key, owner in of if self._note_owner(name, key, owner)}
        if packets:
            events = assembler.replay(packets, self._file)
            if self._totals.starts is not None:
                self._totals.starts.note(events)
            self._timelines.catch_up([event for event in events if event.name in own])

    def _note_owner(self, name: str, key: bytes, owner: int, *, closed: bool = False) -> bool:
        """Record the engine of a connection whose events follow; return True if it is this one."""
        if self._share is None:
            return True
        self._share.note_owner(name, key, owner, closed=closed)
        return owner == self._share.number

    def _own_ends(self, ended: Iterable[tuple[Any, ...]]) -> Iterator[PlainEnd]:
        """Yield the state of the closed connections of this engine."""
        return (self._ended(found) for found in ended if self._share is None or found[-1] == self._share.number)

    def _end_timeline(self, of: PlainConnection, name: str, file: int, begin: tuple[int, int], *, recognised: bool) -> None:
        """Record that only late packets of a connection may follow; `begin`: its first packet and the time of that packet."""
        rest = self._inputs.source(file), self._dissector.name if recognised else None
        introduced = recognised and ConnectionRow.kind in self._timelines.settings[None].session.kinds
        self._timelines.table[name] = ended_timeline(of, name, (file, *begin), *rest) if introduced else nothing_left(*rest)

    def _hand_over_closed(self, assembler: Assembler) -> None:
        """Make the assembler wait for late packets of all closed connections: some at a time, packed, as there may be very many."""
        closed: list[Connection | ClosedConnection] = []
        while found := self._compiled.take_closed(AT_A_TIME):
            closed += (pack(connection) or connection for connection in self._made(found))
        assembler.put_back(closed)

    def _made(self, closed: Iterable[tuple[Any, ...]]) -> Iterator[Connection]:
        """Make closed connections, in the order in which they were closed."""
        for found in closed:
            key, recognised, file, state, _, owner = found
            connection = closed_connection(key, file, state)
            is_own = self._note_owner(connection.name, key, owner, closed=True)
            if is_own and self._gives_rows:
                self._timelines.add_ended(self._ended(found))
            elif is_own:
                begin = connection.packet, connection.start
                self._end_timeline(PlainConnection(key, self._dissector.name), connection.name, file, begin, recognised=recognised)
            yield connection

    def _ended(self, found: tuple[Any, ...]) -> PlainEnd:
        """Return the state of a closed connection."""
        key, _, file, state, told, _ = found
        return PlainEnd(PlainConnection(key, self._dissector.name), self._inputs.source(file), file, state, told)
