"""Blocks of packets -> connections with ordered streams.

The tight loop (`_advance`) takes segments in order, of connections that neither begin nor end in this block; `complete_connection` those of
a connection that does both, without anything odd. All else goes one by one through `Stream.receive`: single odd segments where they
stand, and all packets of other connections that begin or end, in capture order over both directions.
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
    """The connections of one vantage point. Feed it all blocks in order, then finish it."""

    def __init__(self) -> None:
        self._table: dict[bytes, Connection] = {}
        """Connections not finished, under the keys of both directions."""
        self._open = 0
        self._closed: list[deque[Connection]] = [deque()]
        """Connections that were closed and are not finished, unless by another one on their 4-tuple: by file, the latest first."""
        self._touched: list[ConnectionEvents] = []
        self._waiting: dict[Connection, None] = {}
        """Connections with something waiting, the longest-waiting first."""
        self._held = 0
        self._kept: deque[tuple[int, int, int, list[Stream]]] = deque()
        """Per block: generation, file, last packet, and the streams that kept something for comparison."""
        self._generation = 0
        self._look_again = 0
        """When `let_go` looks through the connections again, nanoseconds since the epoch."""

    def feed(self, block: Block) -> list[ConnectionEvents]:
        """What the block brought, one item for each connection touched."""
        file = block.file
        loose, delicate, whole = self._sort_out(block)
        for connection, key, segments, latest in loose:
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
        if delicate or whole:
            entries: list[tuple[int, bytes, Segment | CompleteConnection]] = [(one.packet, one.connection.key, one) for one in whole]
            for key, segments in delicate:
                entries += zip(map(_packet_of, segments), repeat(key), segments, strict=False)
            entries.sort(key=_packet_of)  # by the number alone: half the time of comparing tuples
            for _, key, entry in entries:
                if isinstance(entry, CompleteConnection):
                    self._take(entry, file)
                else:
                    self._receive(key, entry, file)
        return self._hand_on(file, block.last_packet)

    def end_file(self, file: int) -> list[ConnectionEvents]:
        """`file` is the next one of the list: fewer of the connections closed in earlier ones wait for stray packets."""
        self._closed.insert(0, deque())
        leaving: list[Connection] = []
        for age, closed in enumerate(self._closed):
            leaving += [closed.popleft() for _ in range(len(closed) - (CLOSED_CONNECTIONS_MAX >> age))]
        while len(self._closed) > 1 and not self._closed[-1]:
            self._closed.pop()
        for connection in sorted(leaving, key=_position):
            self._finish(connection)
        return self._hand_on(file, 0)

    def let_go(self, time: int) -> list[ConnectionEvents]:
        """It is this time, of a capture without an end: connections that are idle or closed for long enough finish."""
        if time < self._look_again:
            return []
        self._look_again = time + CLOSED_CONNECTION_NANOSECONDS
        for connection in sorted(set(self._table.values()), key=_position):
            if time - connection.end > (CLOSED_CONNECTION_NANOSECONDS if connection.ended else IDLE_CONNECTION_NANOSECONDS):
                self._end(connection)
                self._finish(connection)
        for number, closed in enumerate(self._closed):
            self._closed[number] = deque(connection for connection in closed if not connection.finished)
        return self._hand_on(0, 0)

    @property
    def open(self) -> Connection | None:
        """Of the connections that are not finished, the one that was heard last."""
        return max(self._table.values(), key=_end_of, default=None)

    def forget(self) -> None:
        """No more packets of this file come: what was kept to compare them with is let go."""
        for generation, _, _, streams in self._kept:
            for stream in streams:
                stream.forget(generation)
        self._kept.clear()

    def finish(self) -> list[ConnectionEvents]:
        """The capture has ended: all that waits is handed on, all connections finish."""
        for connection in sorted(set(self._table.values()), key=_position):
            self._end(connection)
            self._finish(connection)
        return self._hand_on(0, 0)

    def _sort_out(
        self, block: Block
    ) -> tuple[list[tuple[Connection, bytes, list[Segment], int]], list[tuple[bytes, list[Segment]]], list[CompleteConnection]]:
        """The flows whose directions can be taken one after the other, those that need the order of capture, and whole connections."""
        table = self._table
        whole: list[CompleteConnection] = []
        taken: set[bytes] = set()
        careful = {table.get(key) for key in block.control}
        loose = []
        delicate = []
        resumed: set[Connection] = set()
        for key, segments in block.flows.items():
            connection = table.get(key)
            if connection is None:
                if key in taken:
                    continue
                other = reverse_key(key)
                one = complete_connection(key, segments, block.flows[other], block.file) if other in block.flows else None
                # None of the connections that close meanwhile may be the one too many, for which this one makes room.
                if one is not None and one.connection.last_packet - one.packet < CLOSED_CONNECTIONS_MAX:
                    whole.append(one)
                    taken.add(other)
                    continue
            if connection is None or connection.delicate or connection in careful:
                delicate.append((key, segments))
                continue
            latest = segments[-1][1] if block.ordered else max(map(_time_of, segments))
            if latest - connection.end > IDLE_CONNECTION_NANOSECONDS:
                resumed.add(connection)
            loose.append((connection, key, segments, latest))
        if resumed:
            delicate += [(key, segments) for connection, key, segments, _ in loose if connection in resumed]
            loose = [entry for entry in loose if entry[0] not in resumed]
        return loose, delicate, whole

    def _receive(self, key: bytes, segment: Segment, file: int) -> None:
        """One packet in order of capture."""
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
        if window and not (flags & CONTROL_FLAGS or cut or stream.shut or connection.delicate):
            # Most of them: an acknowledgment says no more than that, and data in order need none of the care below.
            if not payload:
                return
            if seq == stream.sequence and stream.waiting is None:
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
            if connection.delicate or stream.fin != UNKNOWN:
                connection.delicate = True
                if connection.closed_by is None:
                    connection.closed_by = index
                if connection.streams[0].ended and connection.streams[1].ended:
                    self._close(connection, "fin")

    def _take(self, whole: CompleteConnection, file: int) -> None:
        """A connection that begins and ends here, at the packet that closes it."""
        connection = whole.connection
        first, second = connection.streams
        self._table[first.key] = self._table[second.key] = connection
        self._open += 1
        events = self._touch(connection)
        events.opened = True
        for items, run in zip(events.items, whole.pieces, strict=True):
            if run:
                items.append(Data(file, 0, run))
        self._close(connection, "fin")
        connection.ending = whole.time

    def _reset(self, connection: Connection, index: int, segment: Segment, file: int) -> None:
        stream = connection.streams[index]
        if not connection.accepts_reset(index, segment):
            stream.ignored += 1
            return
        packet, time, seq, ack, flags, window, payload, cut = segment
        if payload or cut:
            # It may say why (RFC 9293 section 3.5.3); what was on the wire is shown.
            stream.receive((packet, time, seq, ack, flags & ACK, window or 1, payload, cut), file)
        if connection.closed_by is None:
            connection.closed_by = index
        waiting = sum(each.waiting.size for each in connection.streams if each.waiting is not None)
        text = f"{stream.source} reset the connection{f' while {waiting} bytes waited beyond a hole' if waiting else ''}."
        self._note(connection, "connection-reset", text, {"direction": index, "waiting": waiting})
        self._close(connection, "rst")

    def _close(self, connection: Connection, how: Literal["fin", "rst"]) -> None:
        """Both sides are done; the connection stays to count late packets."""
        connection.closed = how
        self._end(connection)
        closed = self._closed[0]
        closed.append(connection)
        if len(closed) > CLOSED_CONNECTIONS_MAX:
            self._finish(closed.popleft())

    def _end(self, connection: Connection) -> None:
        """No more bytes: declare, say and free what is left."""
        if connection.ended:
            return
        (connection.events or self._touch(connection)).ended = True
        first, second = connection.streams
        for stream in (first, second):
            stream.end(connection.last)
        if connection.closed == "open" and first.ended and second.ended:
            connection.closed = "fin"
        copies = first.copies + second.copies
        segments = first.segments + second.segments
        if copies and copies * 100 >= segments * DUPLICATE_SEGMENTS_PERCENT:
            text = f"{copies} of {segments} segments were captured twice."
            self._note(connection, "packet-duplicate", text, {"copies": copies, "segments": segments})
            for stream in (first, second):
                stream.retransmitted -= stream.copies
        connection.ended = connection.delicate = True
        connection.ending = connection.end

    def _finish(self, connection: Connection) -> None:
        """Its row can be written; its 4-tuple is free."""
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
        """The events of a connection in this block."""
        events = ConnectionEvents(connection, connection.last_file, ([], []))
        connection.events = events
        first, second = connection.streams
        first.touch(events.items[0], events.log)
        second.touch(events.items[1], events.log)
        self._touched.append(events)
        return events

    def _note(self, connection: Connection, code: str, text: str, evidence: dict[str, int]) -> None:
        """A finding about the connection, at its last packet."""
        events = connection.events or self._touch(connection)
        events.log.append((connection.last_packet, finding(code, text, evidence, connection.last)))

    def _hand_on(self, file: int, last_packet: int) -> list[ConnectionEvents]:
        """End of a block: bounds of the whole process, findings in order, and no reference kept that is not needed."""
        for events in self._touched:
            self._account(events.connection)
        if self._held > MEMORY_MAX_BYTES:
            self._evict_waiting()
        if self._open > OPEN_CONNECTIONS_MAX:
            self._evict_idle()
        touched = self._touched
        self._touched = []
        self._generation += 1
        kept = []
        for events in touched:
            connection = events.connection
            connection.events = None
            if not connection.announced and (connection.streams[0].segments or connection.streams[1].segments):
                connection.announced = True
                where = (connection.file, connection.packet, connection.start)
                # In front of all others, though it stands at an earlier packet.
                events.log.insert(0, (0, finding("midstream-start", "The capture begins within this connection.", {}, where)))
            if events.log:
                events.log.sort(key=_moment_of)
                events.findings = tuple(each for _, each in events.log)
                for each in events.findings:
                    each.connection = connection.name
            kept += [
                stream for stream in connection.streams if stream.release(self._generation, file, last_packet, keep=not connection.ended)
            ]
        if kept:
            self._kept.append((self._generation, file, last_packet, kept))
        while self._kept and (self._kept[0][1] != file or last_packet - self._kept[0][2] > OVERLAP_WINDOW_PACKETS):
            generation, _, _, streams = self._kept.popleft()
            for stream in streams:
                stream.forget(generation)
        return touched

    def _account(self, connection: Connection) -> None:
        """Keep count of what waits in the whole process."""
        first, second = connection.streams
        if first.waiting is None and second.waiting is None and not connection.held:
            return
        held = sum(stream.waiting.cost for stream in connection.streams if stream.waiting is not None)
        self._held += held - connection.held
        connection.held = held
        if held:
            self._waiting.setdefault(connection)
        else:
            self._waiting.pop(connection, None)

    def _evict_waiting(self) -> None:
        """Declare the holes of the connections that wait longest, until the rest is within the bound."""
        for connection in list(self._waiting):
            text = f"{self._held} bytes waited beyond holes in all connections: the holes of this one, the longest-waiting, are gaps."
            self._note(connection, "memory-cap", text, {"bytes": self._held, "freed": connection.held})
            for stream in connection.streams:
                stream.flush(connection.last)
            self._account(connection)
            if self._held <= MEMORY_MAX_BYTES:
                return

    def _evict_idle(self) -> None:
        """End the connections that are idle longest: an eighth of the bound, so that looking for them stays cheap."""
        idle = [connection for key, connection in self._table.items() if key == connection.key and not connection.ended]
        idle.sort(key=_last_of)
        del idle[OPEN_CONNECTIONS_MAX // 8 :]
        for index, connection in enumerate(idle):
            if not index:
                text = f"More than {OPEN_CONNECTIONS_MAX} connections are open: the {len(idle)} idle longest were given up."
                self._note(connection, "memory-cap", text, {"connections": len(idle)})
            self._end(connection)
            self._finish(connection)
            self._account(connection)


def _advance(stream: Stream, segments: list[Segment], file: int) -> None:
    """The tight loop: segments of a stream, in order until one is odd, which goes through `Stream.receive`.

    So does the one behind which the sequence numbers begin anew: the loop counts on without a look at their end.
    """
    rest = iter(segments)
    while True:
        odd: Segment | None = None
        if stream.waiting is None and not stream.shut:
            first = expected = stream.sequence
            pieces: list[Piece] = []
            append = pieces.append
            for segment in rest:
                packet, time, seq, _, _, window, payload, cut = segment
                if payload and seq == expected and window and not cut:
                    append((payload, packet, time, packet))
                    expected = seq + len(payload)
                elif payload or cut or not window:
                    odd = segment
                    break
            if pieces:
                stream.segments += len(pieces)
                stream.deliver(file, pieces, expected - first)
        else:
            odd = next(rest, None)
        if odd is None:
            return
        stream.receive(odd, file)


def _position(connection: Connection) -> tuple[int, int]:
    return connection.file, connection.packet


def _end_of(connection: Connection) -> int:
    return connection.end


def _last_of(connection: Connection) -> tuple[int, int, int]:
    return connection.last


def _moment_of(entry: tuple[int, Finding]) -> int:
    return entry[0]
