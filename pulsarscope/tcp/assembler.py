"""Assembler: blocks of segments in, connections with ordered streams out.

Segments take one of three paths. `_advance` appends segments in order, of connections that neither begin nor end in the block.
`complete_connection` takes connections that do both. All other packets go through `Assembler._receive` and `Stream.receive` one by one:
single segments out of order, and all packets of other connections that begin or end, in capture order over both directions.
"""

from __future__ import annotations

from collections import deque
from itertools import repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Literal

from pulsarscope.model.flow import reverse_key
from pulsarscope.model.limits import (
    CLOSED_CONNECTION_NANOSECONDS,
    CLOSED_CONNECTIONS_MAX,
    DUPLICATE_SEGMENTS_PERCENT,
    IDLE_CONNECTION_NANOSECONDS,
    MEMORY_MAX_BYTES,
    OPEN_CONNECTIONS_MAX,
    OVERLAP_WINDOW_PACKETS,
)
from pulsarscope.tcp.complete_connections import CompleteConnection, complete_connection
from pulsarscope.tcp.connection import Connection, ConnectionEvents, open_connection
from pulsarscope.tcp.pieces import Data, Piece
from pulsarscope.tcp.stream import ACK, CONTROL_FLAGS, RST, SYN, UNKNOWN, Stream
from pulsarscope.tcp.stream_findings import finding

if TYPE_CHECKING:
    from pulsarscope.capture import Block, Segment
    from pulsarscope.model.findings import Finding

_packet_of = itemgetter(0)
_time_of = itemgetter(1)


class Assembler:
    """Connections of one vantage point; feed all blocks in order, then finish."""

    def __init__(self) -> None:
        self._table: dict[bytes, Connection] = {}
        """Unfinished connections by the flow key of either direction."""
        self._open = 0
        self._closed: list[deque[Connection]] = [deque()]
        """Connections closed in each file, the latest file first; some are finished already, by a new connection on their 4-tuple."""
        self._touched: list[ConnectionEvents] = []
        self._buffering: dict[Connection, None] = {}
        """Connections with buffered segments, the longest-waiting first."""
        self._buffered_bytes = 0
        self._comparable: deque[tuple[int, int, int, list[Stream]]] = deque()
        """Per block: generation, file, last packet, and the streams that keep delivered data for comparison."""
        self._generation = 0
        self._next_expiry = 0
        """Earliest time of the next search for expired connections, ns since the epoch."""

    def feed(self, block: Block) -> list[ConnectionEvents]:
        """Process a block; return the events of each connection that it touched."""
        file = block.file
        independent, ordered, complete = self._classify(block)
        for connection, key, segments, latest in independent:
            events = connection.events or self._touch(connection)
            if connection.last_file != file:
                connection.last_file = events.file = file
                connection.last_packet = 0
            _advance(connection.streams[0 if key == connection.key else 1], segments, file)
            connection.packets += len(segments)
            packet, time, *_ = segments[-1]
            if packet > connection.last_packet:
                connection.last_packet = packet
                connection.last_time = time
            connection.end = max(connection.end, latest)
        if ordered or complete:
            entries: list[tuple[int, bytes, Segment | CompleteConnection]] = [
                (candidate.packet, candidate.connection.key, candidate) for candidate in complete
            ]
            for key, segments in ordered:
                entries += zip(map(_packet_of, segments), repeat(key), segments, strict=False)
            entries.sort(key=_packet_of)  # by the number alone: half the time of comparing tuples
            for _, key, entry in entries:
                if isinstance(entry, CompleteConnection):
                    self._take_complete(entry, file)
                else:
                    self._receive(key, entry, file)
        return self._end_block(file, block.last_packet)

    def begin_file(self, file: int) -> list[ConnectionEvents]:
        """Begin the next file: with each file that follows, half as many closed connections of a file still wait for stray packets."""
        self._closed.insert(0, deque())
        excess: list[Connection] = []
        for age, closed in enumerate(self._closed):
            excess += [closed.popleft() for _ in range(len(closed) - (CLOSED_CONNECTIONS_MAX >> age))]
        while len(self._closed) > 1 and not self._closed[-1]:
            self._closed.pop()
        for connection in sorted(excess, key=_position):
            self._finish(connection)
        return self._end_block(file, 0)

    def expire(self, time: int) -> list[ConnectionEvents]:
        """Finish connections that have been idle or closed for long enough at `time`, in a capture without an end."""
        if time < self._next_expiry:
            return []
        self._next_expiry = time + CLOSED_CONNECTION_NANOSECONDS
        for connection in sorted(set(self._table.values()), key=_position):
            if time - connection.end > (CLOSED_CONNECTION_NANOSECONDS if connection.ended else IDLE_CONNECTION_NANOSECONDS):
                self._end(connection)
                self._finish(connection)
        for number, closed in enumerate(self._closed):
            self._closed[number] = deque(connection for connection in closed if not connection.finished)
        return self._end_block(0, 0)

    @property
    def open(self) -> Connection | None:
        """Return the unfinished connection with the latest packet, None when all are finished."""
        return max(self._table.values(), key=_end_of, default=None)

    def drop_delivered(self) -> None:
        """Drop the data kept for comparison at the end of a file."""
        for generation, _, _, streams in self._comparable:
            for stream in streams:
                stream.drop_delivered(generation)
        self._comparable.clear()

    def finish(self) -> list[ConnectionEvents]:
        """End the capture: deliver all buffered segments and finish all connections."""
        for connection in sorted(set(self._table.values()), key=_position):
            self._end(connection)
            self._finish(connection)
        return self._end_block(0, 0)

    def _classify(
        self, block: Block
    ) -> tuple[list[tuple[Connection, bytes, list[Segment], int]], list[tuple[bytes, list[Segment]]], list[CompleteConnection]]:
        """Split the flows of a block by the path that they take.

        Returns:
            Flows whose two directions can be processed one after the other, as (connection, key, segments, latest time); flows that need
            capture order; complete connections.
        """
        table = self._table
        complete: list[CompleteConnection] = []
        reverse_keys: set[bytes] = set()
        controlled = {table.get(key) for key in block.control}
        independent = []
        ordered = []
        resumed: set[Connection] = set()
        for key, segments in block.flows.items():
            connection = table.get(key)
            if connection is None:
                if key in reverse_keys:
                    continue
                other = reverse_key(key)
                candidate = complete_connection(key, segments, block.flows[other], block.file) if other in block.flows else None
                # So few packets follow its close that CLOSED_CONNECTIONS_MAX cannot finish it before its last one.
                if candidate is not None and candidate.connection.last_packet - candidate.packet < CLOSED_CONNECTIONS_MAX:
                    complete.append(candidate)
                    reverse_keys.add(other)
                    continue
            if connection is None or connection.closing or connection in controlled:
                ordered.append((key, segments))
                continue
            latest = segments[-1][1] if block.ordered else max(map(_time_of, segments))
            if latest - connection.end > IDLE_CONNECTION_NANOSECONDS:
                resumed.add(connection)
            independent.append((connection, key, segments, latest))
        if resumed:
            ordered += [(key, segments) for connection, key, segments, _ in independent if connection in resumed]
            independent = [entry for entry in independent if entry[0] not in resumed]
        return independent, ordered, complete

    def _receive(self, key: bytes, segment: Segment, file: int) -> None:
        """Process one packet in capture order."""
        packet, time, seq, _, flags, window, payload, cut = segment
        connection = self._table.get(key)
        if (
            connection is not None
            and (flags & SYN or time - connection.end > IDLE_CONNECTION_NANOSECONDS)
            and connection.is_superseded_by(0 if key == connection.key else 1, segment)
        ):
            self._end(connection)
            self._finish(connection)
            connection = None
        if connection is None:
            connection = open_connection(key, segment, file)
            self._table[key] = self._table[connection.streams[1].key] = connection
            self._open += 1
            self._touch(connection).opened = True
        events = connection.events or self._touch(connection)
        events.file = connection.last_file = file
        connection.last_packet = packet
        connection.last_time = time
        connection.packets += 1
        if time > connection.end:  # noqa: PLR1730 - half the time of a call of max
            connection.end = time
        index = 0 if key == connection.key else 1
        stream = connection.streams[index]
        if window and not (flags & CONTROL_FLAGS or cut or stream.window_closed or connection.closing):
            # The common case: a bare acknowledgment changes nothing, and data in order needs none of the checks below.
            if not payload:
                return
            if seq == stream.sequence and stream.buffer is None:
                stream.segments += 1
                stream.deliver(file, [(payload, packet, time, packet)], len(payload))
                return
        if connection.ended:
            stream.receive_late(segment)
        elif flags & RST:
            self._reset(connection, index, segment, file)
        elif flags & SYN and not connection.take_handshake(index, segment):
            stream.ignored += 1
        else:
            stream.receive(segment, file)
            if connection.closing or stream.fin != UNKNOWN:
                connection.closing = True
                if connection.closed_by is None:
                    connection.closed_by = index
                if connection.streams[0].ended and connection.streams[1].ended:
                    self._close(connection, "fin")

    def _take_complete(self, complete: CompleteConnection, file: int) -> None:
        """Take a connection that begins and ends in this block, at the packet that closes it."""
        connection = complete.connection
        first, second = connection.streams
        self._table[first.key] = self._table[second.key] = connection
        self._open += 1
        events = self._touch(connection)
        events.opened = True
        for items, pieces in zip(events.items, complete.pieces, strict=True):
            if pieces:
                items.append(Data(file, 0, pieces))
        self._close(connection, "fin")
        connection.ending = complete.time

    def _reset(self, connection: Connection, index: int, segment: Segment, file: int) -> None:
        stream = connection.streams[index]
        if not connection.accepts_reset(index, segment):
            stream.ignored += 1
            return
        packet, time, seq, ack, flags, window, payload, cut = segment
        if payload or cut:
            # A RST may carry its reason as data (RFC 9293 section 3.5.3).
            stream.receive((packet, time, seq, ack, flags & ACK, window or 1, payload, cut), file)
        if connection.closed_by is None:
            connection.closed_by = index
        waiting = sum(stream.buffer.size for stream in connection.streams if stream.buffer is not None)
        text = f"{stream.source} reset the connection{f' while {waiting} bytes were waiting for missing segments' if waiting else ''}."
        self._note(connection, "connection-reset", text, {"direction": index, "waiting": waiting})
        self._close(connection, "rst")

    def _close(self, connection: Connection, how: Literal["fin", "rst"]) -> None:
        """Close a connection; it stays in the table to count late packets."""
        connection.closed = how
        self._end(connection)
        closed = self._closed[0]
        closed.append(connection)
        if len(closed) > CLOSED_CONNECTIONS_MAX:
            self._finish(closed.popleft())

    def _end(self, connection: Connection) -> None:
        """End both streams of a connection."""
        if connection.ended:
            return
        (connection.events or self._touch(connection)).ended = True
        first, second = connection.streams
        for stream in (first, second):
            stream.end(connection.last)
        if connection.closed == "open" and first.ended and second.ended:
            connection.closed = "fin"
        duplicates = first.duplicates + second.duplicates
        segments = first.segments + second.segments
        if duplicates and duplicates * 100 >= segments * DUPLICATE_SEGMENTS_PERCENT:
            text = f"{duplicates} of {segments} segments were captured twice."
            self._note(connection, "packet-duplicate", text, {"copies": duplicates, "segments": segments})
            for stream in (first, second):
                stream.retransmitted -= stream.duplicates
        connection.ended = connection.closing = True
        connection.ending = connection.end

    def _finish(self, connection: Connection) -> None:
        """Finish a connection: its row can be written, its 4-tuple is free."""
        if connection.finished:
            return
        (connection.events or self._touch(connection)).finished = True
        connection.finished = True
        for stream in connection.streams:
            if connection.closed == "rst" and stream.ignored_bytes:
                text = f"{stream.ignored_bytes} bytes from {stream.source} came after the reset: no application read them."
                self._note(connection, "connection-reset", text, {"direction": stream.index, "bytes": stream.ignored_bytes})
        self._open -= 1
        for stream in connection.streams:
            self._table.pop(stream.key, None)

    def _touch(self, connection: Connection) -> ConnectionEvents:
        """Begin and return the events of a connection in this block."""
        events = ConnectionEvents(connection, connection.last_file, ([], []))
        connection.events = events
        first, second = connection.streams
        first.begin_block(events.items[0], events.log)
        second.begin_block(events.items[1], events.log)
        self._touched.append(events)
        return events

    def _note(self, connection: Connection, code: str, text: str, evidence: dict[str, int]) -> None:
        """Report a finding about a connection, at its last packet."""
        events = connection.events or self._touch(connection)
        events.log.append((connection.last_packet, finding(code, text, evidence, connection.last)))

    def _end_block(self, file: int, last_packet: int) -> list[ConnectionEvents]:
        """End a block: apply the process-wide bounds, sort the findings, release references; return the events."""
        for events in self._touched:
            self._account(events.connection)
        if self._buffered_bytes > MEMORY_MAX_BYTES:
            self._evict_waiting()
        if self._open > OPEN_CONNECTIONS_MAX:
            self._evict_idle()
        touched = self._touched
        self._touched = []
        self._generation += 1
        comparable = []
        for events in touched:
            connection = events.connection
            connection.events = None
            if not connection.announced and (connection.streams[0].segments or connection.streams[1].segments):
                connection.announced = True
                where = (connection.file, connection.packet, connection.start)
                # Reported first, although earlier findings may stand at later packets.
                events.log.insert(0, (0, finding("midstream-start", "The capture begins within this connection.", {}, where)))
            if events.log:
                events.log.sort(key=_moment_of)
                events.findings = tuple(row for _, row in events.log)
                for row in events.findings:
                    row.connection = connection.name
            comparable += [
                stream for stream in connection.streams if stream.end_block(self._generation, file, last_packet, keep=not connection.ended)
            ]
        if comparable:
            self._comparable.append((self._generation, file, last_packet, comparable))
        while self._comparable and (self._comparable[0][1] != file or last_packet - self._comparable[0][2] > OVERLAP_WINDOW_PACKETS):
            generation, _, _, streams = self._comparable.popleft()
            for stream in streams:
                stream.drop_delivered(generation)
        return touched

    def _account(self, connection: Connection) -> None:
        """Update the memory of buffered segments in the whole process."""
        first, second = connection.streams
        if first.buffer is None and second.buffer is None and not connection.buffered:
            return
        buffered = sum(stream.buffer.cost for stream in connection.streams if stream.buffer is not None)
        self._buffered_bytes += buffered - connection.buffered
        connection.buffered = buffered
        if buffered:
            self._buffering.setdefault(connection)
        else:
            self._buffering.pop(connection, None)

    def _evict_waiting(self) -> None:
        """Declare gaps in the longest-waiting connections until the buffered bytes are within the bound."""
        for connection in list(self._buffering):
            text = (
                f"{self._buffered_bytes} bytes were waiting for missing segments in all connections: "
                "those missing from this one, the longest-waiting, were declared gaps."
            )
            self._note(connection, "memory-cap", text, {"bytes": self._buffered_bytes, "freed": connection.buffered})
            for stream in connection.streams:
                stream.flush(connection.last)
            self._account(connection)
            if self._buffered_bytes <= MEMORY_MAX_BYTES:
                return

    def _evict_idle(self) -> None:
        """Finish the connections idle for longest: an eighth of the bound at once, so that the search stays cheap."""
        idle = [connection for key, connection in self._table.items() if key == connection.key and not connection.ended]
        idle.sort(key=_last_of)
        del idle[OPEN_CONNECTIONS_MAX // 8 :]
        for index, connection in enumerate(idle):
            if not index:
                text = f"More than {OPEN_CONNECTIONS_MAX} connections are open: the {len(idle)} idle for longest were ended."
                self._note(connection, "memory-cap", text, {"connections": len(idle)})
            self._end(connection)
            self._finish(connection)
            self._account(connection)


def _advance(stream: Stream, segments: list[Segment], file: int) -> None:
    """Append the segments of a stream in a tight loop; a segment out of order goes through `Stream.receive`.

    So does the first segment after the sequence numbers wrap, for the loop does not reduce them modulo 2^32.
    """
    rest = iter(segments)
    while True:
        exception: Segment | None = None
        if stream.buffer is None and not stream.window_closed:
            first = expected = stream.sequence
            pieces: list[Piece] = []
            append = pieces.append
            for segment in rest:
                packet, time, seq, _, _, window, payload, cut = segment
                if payload and seq == expected and window and not cut:
                    append((payload, packet, time, packet))
                    expected = seq + len(payload)
                elif payload or cut or not window:
                    exception = segment
                    break
            if pieces:
                stream.segments += len(pieces)
                stream.deliver(file, pieces, expected - first)
        else:
            exception = next(rest, None)
        if exception is None:
            return
        stream.receive(exception, file)


def _position(connection: Connection) -> tuple[int, int]:
    return connection.file, connection.packet


def _end_of(connection: Connection) -> int:
    return connection.end


def _last_of(connection: Connection) -> tuple[int, int, int]:
    return connection.last


def _moment_of(entry: tuple[int, Finding]) -> int:
    return entry[0]
