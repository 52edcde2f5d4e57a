"""The connections of an assembler: how they end, and the process-wide bounds on them."""

from __future__ import annotations

from bisect import insort
from collections import deque
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

from pulsarscope.model.flow import BEHIND_ALL, FILE_SHIFT
from pulsarscope.model.limits import (
    CLOSED_CONNECTION_NANOSECONDS,
    CLOSED_CONNECTIONS_MAX,
    IDLE_CONNECTION_NANOSECONDS,
    MEMORY_MAX_BYTES,
    OPEN_CONNECTIONS_MAX,
    OVERLAP_MEMORY_MAX_BYTES,
    OVERLAP_WINDOW_PACKETS,
    SILENT_CONNECTIONS_MAX,
)
from pulsarscope.model.live_limits import LIVE_UNHEARD_LEAST_NANOSECONDS, LIVE_UNHEARD_MAX, LIVE_UNHEARD_NANOSECONDS
from pulsarscope.model.text import duration, plural
from pulsarscope.tcp.captured_twice import are_many, count_duplicates, typical_time
from pulsarscope.tcp.connection import ClosedConnection, ClosedElsewhere, Connection, ConnectionEvents, EventList, acknowledged_offset, pack
from pulsarscope.tcp.copies import are_apart
from pulsarscope.tcp.delayed_opening import report_delayed_opening
from pulsarscope.tcp.delivered import let_block_go
from pulsarscope.tcp.resets import was_in_flight
from pulsarscope.tcp.sequence import UNKNOWN
from pulsarscope.tcp.stalls import report_stalls
from pulsarscope.tcp.stream import Stream
from pulsarscope.tcp.stream_findings import Where, finding

if TYPE_CHECKING:
    from pulsarscope.model.findings import Finding

_closed_at = attrgetter("closed_at")


class ConnectionTable:
    """Connections by flow key, from the first packet until the row can be written, and the events of the current block."""

    def __init__(self) -> None:
        self._table: dict[bytes, Connection | ClosedConnection] = {}
        """Unfinished connections by the flow key of either direction."""
        self._open = 0
        """Connections that have not ended."""
        self._closed: deque[Connection | ClosedConnection] = deque()
        """Closed connections in the order of `closed_at`; a new connection on their 4-tuple may already have finished some."""
        self._closed_in_block = 0
        """Number of connections at the end of `_closed` among which are those closed by the current block."""
        self._silent: dict[Connection, None] = {}
        """Connections that began with a SYN, the oldest first; some have since sent data."""
        self._unlisted = 0
        """Connections without data that have no rows and are not yet reported; the first of them represents all, and has a row."""
        self._first_unlisted: Connection | None = None
        self._touched: list[ConnectionEvents | ClosedConnection] = []
        """Events of the current block; a packed connection stands for one that has finished without other events."""
        self._buffering: dict[Connection, None] = {}
        """Connections with buffered segments, the longest-waiting first."""
        self.buffered_bytes = 0
        """Memory of the segments that wait for missing ones."""
        self._comparable: deque[tuple[int, int, int, list[Stream]]] = deque()
        """Per block: generation, file, last packet, and the streams that keep delivered data for comparison."""
        self._comparable_bytes = 0
        self._generation = 0
        self._full = False
        """True once CLOSED_CONNECTIONS_MAX was reached."""
        self._next_expiry = 0
        """Earliest time of the next search for expired connections, ns since the epoch."""
        self._skipped_until = 0
        """Capture time up to which a live capture attributes holes to packets that it skipped."""
        self._skipped_at = 0
        """Capture time after the latest packets that a live capture skipped."""
        self._expired_at = 0
        """Capture time of a live capture's last search for overdue holes and connections."""

    @property
    def table(self) -> dict[bytes, Connection | ClosedConnection]:
        """Unfinished connections by the flow key of either direction."""
        return self._table

    @property
    def unfinished(self) -> int:
        """Number of connections that may still get packets."""
        return len(self._table) // 2

    def drop_delivered(self) -> None:
        """Drop the data kept for comparison at the end of a file."""
        while self._comparable:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        """Drop the data kept for comparison from the oldest block."""
        generation, _, _, streams = self._comparable.popleft()
        self._comparable_bytes -= sum(stream.drop_delivered(generation) for stream in streams)

    def take_closed(self, least: int, after: int) -> list[Connection | ClosedConnection]:
        """Remove and return the closed connections with data that ended after a time (ns since the epoch), if there are at least `least`.

        `put_back` must return them before one of their packets comes, and before they are due to be finished.
        """
        self._closed = deque(map(_present, self._closed))
        closed = [
            connection
            for connection in self._closed
            if connection.end > after
            and (isinstance(connection, ClosedConnection) or any(stream.segments for stream in connection.streams))
            and all(self._table.get(key) is connection for key in connection.keys)
        ]
        if len(closed) < least:
            return []
        for connection in closed:
            if isinstance(connection, Connection):
                self._silent.pop(connection, None)
            for key in connection.keys:
                del self._table[key]
        taken = set(closed)
        self._closed = deque(connection for connection in self._closed if connection not in taken)
        return closed

    def closed_room(self, closing: int = 0) -> int:
        """Return how many closed connections may still be taken when `closing` more close."""
        return CLOSED_CONNECTIONS_MAX - len(self._closed) - closing

    def put_back(self, closed: list[Connection | ClosedConnection]) -> None:
        """Take back closed connections, in the order in which they were closed."""
        self._table |= {key: connection for connection in closed for key in connection.keys}
        newest = self._closed[-1].closed_at if self._closed else 0
        self._closed.extend(closed)
        if closed and closed[0].closed_at < newest:
            self._closed = deque(sorted(self._closed, key=_closed_at))

    def finish(self) -> list[ConnectionEvents]:
        """End the capture: deliver all buffered segments and finish all connections."""
        return [*self.finished()]

    def finished(self) -> EventList:
        """End the capture like `finish`, without an object for each of very many closed connections."""
        for connection in self._in_order():
            self._end_and_finish(connection)
        self._report_unlisted()
        return self._end_block(0, 0)

    def _in_order(self) -> list[Connection | ClosedConnection]:
        """Return the unfinished connections in the order in which they began, without events: there may be very many."""
        return sorted((connection for key, connection in self._table.items() if key == connection.key), key=position)

    def finish_idle(self, time: int) -> list[ConnectionEvents]:
        """Finish connections that were closed, or had their last packet, so long before `time` that no more packets will follow.

        A connection that has been silent since packets were skipped may have been closed unseen, and is finished earlier.
        """
        connections = self._in_order()
        unheard = {connection for connection in connections if not connection.ended and connection.end < self._skipped_at}
        silent = sorted((connection.end for connection in unheard if time - connection.end > LIVE_UNHEARD_LEAST_NANOSECONDS), reverse=True)
        since = max(time - LIVE_UNHEARD_NANOSECONDS, *silent[LIVE_UNHEARD_MAX:][:1], 0)
        for connection in connections:
            longest = CLOSED_CONNECTION_NANOSECONDS if connection.ended else IDLE_CONNECTION_NANOSECONDS
            if time - connection.end > longest or (connection in unheard and connection.end < since):
                self._end_and_finish(connection)
        self._closed = deque(connection for connection in self._closed if not connection.finished)
        self._report_unlisted()
        return [*self._end_block(0, 0)]

    def _close(self, connection: Connection, how: Literal["fin", "rst"], file: int, packet: int) -> None:
        """Close a connection at a packet; it stays in the table to count late packets."""
        connection.closed = how
        self._end(connection)
        self._note_closed(connection, file, packet)

    def _note_closed(self, connection: Connection, file: int, packet: int) -> None:
        """Make a connection that this packet of the block has closed wait for late packets."""
        connection.closed_file, connection.closed_packet = file, packet
        if self._closed and self._closed[-1].closed_at > connection.closed_at:  # put back in this block
            insort(self._closed, connection, key=_closed_at)
            self._closed_in_block = len(self._closed)
        else:
            self._closed.append(connection)
            self._closed_in_block += 1

    def _pack_closed(self) -> None:
        """Pack the connections that this block has closed."""
        closed = self._closed
        for place in range(max(len(closed) - self._closed_in_block, 0), len(closed)):
            connection = closed[place]
            if isinstance(connection, Connection) and not connection.finished and (packed := pack(connection)) is not None:
                closed[place] = packed
                self._silent.pop(connection, None)
                for stream in connection.streams:
                    self._table[stream.key] = packed
        self._closed_in_block = 0

    def _unpack(self, packed: ClosedConnection) -> Connection:
        """Unpack and return a packed connection: a packet has come."""
        packed.whole = connection = packed.connection()
        for stream in connection.streams:
            self._table[stream.key] = connection
        return connection

    def _end(self, connection: Connection) -> None:
        """End both streams of a connection."""
        if connection.ended:
            return
        self._open -= 1
        (connection.events or self._touch(connection)).ended = True
        if connection.closed == "open" and connection.reset is not None:
            self._note_reset(connection, connection.reset[0], connection.reset[2])
            connection.closed = "rst"
        for stream, peer in zip(connection.streams, connection.streams[::-1], strict=True):
            if not stream.captured and peer.segments:
                text = f"The capture has no packet from {stream.source}: what it answered cannot be judged."
                self._note(connection, "one-sided-capture", text, {"direction": stream.index})
            acknowledged = UNKNOWN if peer.acknowledges == UNKNOWN else acknowledged_offset(stream, peer.acknowledges)
            self._comparable_bytes -= stream.drop_delivered(stream.generation)
            report_stalls(stream, peer, None if acknowledged == UNKNOWN else acknowledged, connection.last)
            stream.end(connection.last, acknowledged, reset=connection.closed == "rst" and connection.closed_by == 1 - stream.index)
        report_delayed_opening(connection)
        if connection.closed_by is not None and connection.answers_lost_fin(connection.closed_by):
            connection.closed_by = 1 - connection.closed_by
        if connection.closed == "open" and all(stream.ended for stream in connection.streams):
            connection.closed = "fin"
        count_duplicates(connection)
        connection.ended = connection.closing = True
        connection.ending = connection.end
        connection.ended_file = connection.last_file

    def _note_copies(self, connection: Connection) -> None:
        """Report segments that were captured twice, if there are many."""
        found = [stream.copies for stream in connection.streams if stream.copies is not None]
        if not are_many(connection, copies := sum(each.count for each in found)):
            return
        segments = sum(stream.segments for stream in connection.streams)
        evidence = {"copies": copies, "segments": segments}
        later = typical_time(connection)
        code, how = "captured-twice", ""
        if not are_apart(later) or not any(each.proven for each in found):
            code = "packet-duplicate"
        elif later is not None:
            how = f", the copies typically {duration(abs(later))} {'later' if later > 0 else 'earlier'}"
            evidence["later_ns"] = later
        # One point may have retransmissions that the other one lacks.
        self._note(connection, code, f"{min(copies, segments):,} of {segments:,} segments were captured twice{how}.", evidence)

    def _end_and_finish(self, connection: Connection | ClosedConnection) -> None:
        """End a connection, and finish it."""
        if isinstance(connection, Connection):
            self._end(connection)
            self._finish(connection)
        elif connection.whole is not None:
            self._finish(connection.whole)
        elif not connection.dropped:
            connection.dropped = True
            self._touched.append(connection)
            for key in connection.keys:
                del self._table[key]

    def _finish(self, connection: Connection) -> None:
        """Finish a connection: its row can be written, and its 4-tuple is free."""
        if connection.finished:
            return
        (connection.events or self._touch(connection)).finished = True
        connection.finished = True
        self._silent.pop(connection, None)
        for stream in connection.streams:
            if stream.late and not was_in_flight(connection, stream):
                text = f"{plural(stream.late, 'byte')} from {stream.source} came after the end of its stream: not decoded."
                self._note(connection, "data-after-close", text, {"direction": stream.index, "bytes": stream.late})
            if stream.early:
                code = "sequence-jump" if connection.opened == "syn" else "midstream-start"
                text = f"{plural(stream.early, 'byte')} from {stream.source} came from before the first byte of its stream: not decoded."
                self._note(connection, code, text, {"direction": stream.index, "bytes": stream.early})
            if self._table.get(stream.key) is connection:
                del self._table[stream.key]
        self._note_copies(connection)
        connection.strays = None

    def _finish_closed(self, time: int, taken: int, elsewhere: ClosedElsewhere | None) -> None:
        """Finish the connections that get no more late packets; for `taken` and `elsewhere`, see `feed`."""
        closed = self._closed
        while True:
            full = self.closed_room() < taken
            waits = elsewhere is not None and elsewhere.finish_closed(time, closed[0].closed_at if closed else BEHIND_ALL)
            if not closed or (not full and (waits or time - closed[0].end <= 2 * CLOSED_CONNECTION_NANOSECONDS)):
                break
            if (connection := closed.popleft()).finished:
                continue
            if full and not self._full:
                self._full = True
                text = f"More than {CLOSED_CONNECTIONS_MAX} connections wait for late packets: the oldest wait no longer."
                connection = connection if isinstance(connection, Connection) else self._unpack(connection)
                self._note(connection, "memory-cap", text, {"connections": CLOSED_CONNECTIONS_MAX})
            self._end_and_finish(connection)

    def _unlist_silent(self) -> None:
        """Finish the oldest connections without data if there are too many: an eighth at once, so that the search stays cheap."""
        self._silent = {
            connection: None for connection in self._silent if not (connection.streams[0].segments or connection.streams[1].segments)
        }
        if len(self._silent) <= SILENT_CONNECTIONS_MAX:
            return
        for connection in list(self._silent)[: -SILENT_CONNECTIONS_MAX * 7 // 8]:
            self._end(connection)
            if self._first_unlisted is None:
                self._first_unlisted = connection
                for stream in connection.streams:
                    del self._table[stream.key]
            else:
                self._finish(connection)
                (connection.events or self._touch(connection)).unlisted = True
            self._unlisted += 1
            self._silent.pop(connection, None)

    def _report_unlisted(self) -> None:
        """Report the connections without data that have no rows."""
        first, count = self._first_unlisted, self._unlisted
        if first is not None:
            self._first_unlisted = None
            self._unlisted = 0
            if count > 1:
                text = f"{count - 1} more connections carried no data, and have no rows of their own: usually a scan or a flood of SYNs."
                self._note(first, "memory-cap", text, {"connections": count - 1})
            self._finish(first)

    def _touch(self, connection: Connection) -> ConnectionEvents:
        """Return the events of a connection in this block; begin them if there are none."""
        events = ConnectionEvents(connection, connection.last_file, ([], []))
        connection.events = events
        first, second = connection.streams
        first.begin_block(events.items[0], events.log)
        second.begin_block(events.items[1], events.log)
        self._touched.append(events)
        return events

    def _note(self, connection: Connection, code: str, text: str, evidence: dict[str, Any], where: Where | None = None) -> None:
        """Report a finding about a connection, at its last packet by default."""
        events = connection.events or self._touch(connection)
        events.log.append((connection.last_packet, finding(code, text, evidence, where or connection.last)))

    def _note_reset(self, connection: Connection, index: int, where: Where) -> None:
        """Report a RST."""
        if connection.closed_by is None:
            connection.closed_by, connection.closing_how, connection.closing_time = index, "rst", where[2]
        waiting = sum(stream.buffer.size for stream in connection.streams if stream.buffer is not None)
        more = f" while {plural(waiting, 'byte')} waited for missing segments" if waiting else ""
        text = f"{connection.endpoint(index)} reset the connection{more}."
        self._note(connection, "connection-reset", text, {"direction": index, "waiting": waiting}, where)

    def _end_block(self, file: int, last_packet: int) -> EventList:
        """End a block: apply the process-wide bounds, sort the findings, release references; return the events."""
        for events in self._touched:
            if isinstance(events, ConnectionEvents) and isinstance(events.of, Connection):
                self._account(events.of)
        if self.buffered_bytes > MEMORY_MAX_BYTES:
            self._evict_waiting()
        if len(self._silent) > SILENT_CONNECTIONS_MAX:
            self._unlist_silent()
        if self._open > OPEN_CONNECTIONS_MAX:
            self._evict_idle()
        touched, self._touched = self._touched, []
        self._generation += 1
        comparable = []
        for events in touched:
            if not isinstance(events, ConnectionEvents) or not isinstance(connection := events.of, Connection):
                continue
            connection.announce(events.log)
            connection.events = None
            if events.log:
                events.log.sort(key=_moment_of)
                events.findings = tuple(row for _, row in events.log)
                for packet, row in events.log:
                    row.connection, row.order = connection.name, events.file << FILE_SHIFT | packet
            for stream in connection.streams:
                self._comparable_bytes += stream.end_block(self._generation, file, last_packet, keep=not connection.ended)
                if stream.generation == self._generation:
                    comparable.append(stream)
        if comparable:
            let_block_go(self._comparable)
            self._comparable.append((self._generation, file, last_packet, comparable))
        while self._comparable and (self._comparable_bytes > OVERLAP_MEMORY_MAX_BYTES or self._is_past(file, last_packet)):
            self._drop_oldest()
        self._pack_closed()
        return EventList(touched)

    def _is_past(self, file: int, packet: int) -> bool:
        """Return True when packets of a file from `packet` on are no longer compared with the data of the oldest block."""
        _, oldest_file, oldest, _ = self._comparable[0]
        return oldest_file != file or packet - oldest > OVERLAP_WINDOW_PACKETS

    def waiting(self) -> tuple[int, int]:
        """Return the number of streams that wait for missing bytes, and the number of bytes that wait there, including overhead."""
        streams = sum(stream.buffer is not None for connection in list(self._buffering) for stream in connection.streams)
        return streams, self.buffered_bytes

    def _account(self, connection: Connection) -> None:
        """Update the memory of buffered segments in the whole process."""
        first, second = connection.streams
        if first.buffer is None and second.buffer is None and connection.strays is None and not connection.buffered:
            return
        buffered = sum(waiting.cost for waiting in (first.buffer, second.buffer, connection.strays) if waiting is not None)
        self.buffered_bytes += buffered - connection.buffered
        connection.buffered = buffered
        if buffered:
            self._buffering.setdefault(connection)
        else:
            self._buffering.pop(connection, None)

    def _evict_waiting(self) -> None:
        """Declare gaps in the longest-waiting connections until the buffered bytes are within the bound."""
        for connection in list(self._buffering):
            text = (
                f"{plural(self.buffered_bytes, 'byte')} waited for missing segments in all connections: "
                "those missing from this one, the longest-waiting, were declared gaps."
            )
            self._note(connection, "memory-cap", text, {"bytes": self.buffered_bytes, "freed": connection.buffered})
            for stream in connection.streams:
                stream.flush(connection.last)
            connection.strays = None
            self._account(connection)
            if self.buffered_bytes <= MEMORY_MAX_BYTES:
                return

    def _evict_idle(self) -> None:
        """Finish the connections idle for longest until a sixteenth of the bound is free: few searches, and few rows at once."""
        table = self._table.items()
        idle = [found for key, found in table if isinstance(found, Connection) and key == found.key and not found.ended]
        idle.sort(key=attrgetter("last"))
        del idle[self._open - OPEN_CONNECTIONS_MAX * 15 // 16 :]
        for index, connection in enumerate(idle):
            if not index:
                text = f"More than {OPEN_CONNECTIONS_MAX} connections are open: the {len(idle)} idle for longest were ended."
                self._note(connection, "memory-cap", text, {"connections": len(idle)})
            self._end(connection)
            self._finish(connection)
            self._account(connection)


def position(connection: Connection | ClosedConnection) -> int:
    """Return file and packet of a connection's beginning as one number, since there may be very many connections."""
    file, _, packet = connection.name.partition(":")
    return int(file) << FILE_SHIFT | int(packet)


def _present(connection: Connection | ClosedConnection) -> Connection | ClosedConnection:
    """Return a closed connection in its current form: unpacked if a late packet has come."""
    return connection if isinstance(connection, Connection) or connection.whole is None else connection.whole


def _moment_of(entry: tuple[int, Finding]) -> int:
    return entry[0]
