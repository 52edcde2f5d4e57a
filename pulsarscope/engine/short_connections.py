"""Short connections that the compiled reader reads itself, TCP and session included, as long as all of them is plain.

It takes those that begin with a SYN, many of them at a call, and keeps their packets while they are open. Where a connection turns out not
to be plain, or grows long, the assembler and the session get its packets from its first one on: what they know of it then is what they
would have known, and the rows of these packets have been given before.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from pulsarscope.dissect.column_batch import ColumnBatch
from pulsarscope.engine.connection import nothing_left
from pulsarscope.engine.plain_connection import PlainConnection, ended_timeline
from pulsarscope.model.flow import CLIENT, FILE_SHIFT, SERVER
from pulsarscope.model.limits import (
    CLOSED_CONNECTION_NANOSECONDS,
    IDLE_CONNECTION_NANOSECONDS,
    OPEN_CONNECTIONS_MAX,
    RESET_WINDOW_BYTES,
    SILENT_CONNECTIONS_MAX,
)
from pulsarscope.model.platform import load_native
from pulsarscope.model.records import ConnectionRow
from pulsarscope.tcp.complete_connections import closed_connection
from pulsarscope.tcp.connection import pack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pulsarscope.capture import Block, Inputs, Segment
    from pulsarscope.dissect.contract import Dissector
    from pulsarscope.engine.timelines import Timelines
    from pulsarscope.tcp import Assembler
    from pulsarscope.tcp.assembler import Resumed
    from pulsarscope.tcp.connection import ClosedConnection, Connection

Read = tuple[int, int | None, "Sequence[Resumed]"]
"""See `ShortConnections.read`."""

NOTHING_READ: Read = (0, None, ())
"""What is returned where nobody reads short connections."""

AT_A_TIME = 1_024
"""Closed connections that become objects at a time."""


class ShortConnections:
    """Short connections of one vantage point, beside those of an assembler."""

    def __init__(self, dissector: Dissector, inputs: Inputs, timelines: Timelines) -> None:
        """Begin without any; `timelines` must be in columns."""
        native, _ = load_native()
        largest, padding = dissector.compiled.sizes
        bounds = IDLE_CONNECTION_NANOSECONDS, CLOSED_CONNECTION_NANOSECONDS, RESET_WINDOW_BYTES
        opens = timelines.settings[None].session.payloads
        self._compiled: Any = native.ShortConnections(bounds, (dissector.framing.smallest, largest, padding), opens)
        self._dissector = dissector
        self._inputs = inputs
        self._timelines = timelines
        self._file = 0

    def read(self, block: Block, following_start: int | None, assembler: Assembler) -> Read:
        """Read the flows of a block that are of these connections, and leave it the others.

        Return how many connections began, less those that the assembler counts itself, `oldest`, and these, to resume: a RST ends them.

        `following_start`: see `Assembler.feed`.
        """
        time = block.last_time if following_start is None else min(block.last_time, following_start)
        if block.file != self._file:
            self.hand_over(assembler)
            self._file = block.file
        source = self._inputs.source(block.file)
        columns = self._dissector.compiled.frames()
        names = source, block.file, self._dissector.name, CLIENT, SERVER
        found = self._compiled.read(columns, block.flows, assembler.table, names, time)
        block.flows, begun, (with_frames, ended), packets, closed, resets = found
        self._catch_up(packets, assembler)
        assembler.put_back(sorted(self._made(closed), key=attrgetter("closed_at")))
        if len(columns):
            recognised = {name: PlainConnection(key, self._dissector.name) for name, key in with_frames.items()}
            self._timelines.add_columns(block.file << FILE_SHIFT | block.last_packet, ColumnBatch(columns), recognised)
        for _, _, name, key, begin, recognised in resets:
            if recognised:
                ended.append(name)
            self._end_timeline(PlainConnection(key, self._dissector.name), name, block.file, begin, recognised=recognised)
        self._timelines.note_ended(ended)
        if self._compiled.open + assembler.unfinished > min(OPEN_CONNECTIONS_MAX, SILENT_CONNECTIONS_MAX):
            self.hand_over(assembler)
        if self._compiled.closed > assembler.closed_room(len(block.control)):
            self._hand_over_closed(assembler)
        return begun, self.oldest, [(first, packets) for first, packets, *_ in resets]

    @property
    def oldest(self) -> int | None:
        """`closed_at` of the first connection that waits here for late packets, None when there is none."""
        found = self._compiled.oldest
        return None if found is None else found[0] << FILE_SHIFT | found[1]

    def hand_over(self, assembler: Assembler, *, closed: bool = False) -> None:
        """Let the assembler go on with all open connections; with those that are `closed`, too."""
        self._catch_up(self._compiled.end(all=True), assembler)
        if closed:
            self._hand_over_closed(assembler)

    def end(self, assembler: Assembler) -> None:
        """End all connections, as their capture does; let the assembler go on with those of which there is something to say."""
        self._catch_up(self._compiled.end(all=False), assembler)
        self._timelines.forget_added()

    def _catch_up(self, packets: list[tuple[bytes, Segment]], assembler: Assembler) -> None:
        """Bring connections to where they are, by their packets."""
        if packets:
            self._timelines.catch_up(assembler.replay(packets, self._file))

    def _end_timeline(self, of: PlainConnection, name: str, file: int, begin: tuple[int, int], *, recognised: bool) -> None:
        """Note that there is no more to read of a connection than late packets; `begin`: its first packet and the time of that."""
        rest = self._inputs.source(file), self._dissector.name if recognised else None
        introduced = recognised and ConnectionRow.kind in self._timelines.settings[None].session.kinds
        self._timelines.table[name] = ended_timeline(of, name, (file, *begin), *rest) if introduced else nothing_left(*rest)

    def _hand_over_closed(self, assembler: Assembler) -> None:
        """Let the assembler wait for late packets of all closed connections: some at a time, packed, as there may be very many."""
        closed: list[Connection | ClosedConnection] = []
        while found := self._compiled.take_closed(AT_A_TIME):
            closed += (pack(connection) or connection for connection in self._made(found))
        assembler.put_back(closed)

    def _made(self, closed: Iterable[tuple[Any, ...]]) -> Iterator[Connection]:
        """Make closed connections, in the order in which they were closed."""
        for key, recognised, file, found in closed:
            connection = closed_connection(key, file, found)
            begin = connection.packet, connection.start
            self._end_timeline(PlainConnection(key, self._dissector.name), connection.name, file, begin, recognised=recognised)
            yield connection
