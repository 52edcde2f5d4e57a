"""Assembler: blocks of segments in, connections with ordered streams out.

Segments take one of two paths. `_in_order` appends in-order segments of connections that neither begin nor end in the block. All other
packets go through `Assembler._receive` and `Stream.receive` one by one, in capture order over both directions: those of connections that
begin, end, or have a segment out of order in the block. When the compiled reader holds the segments and few are out of order, the runs of
in-order segments between these are taken together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from pulsarscope.model.limits import (
    CLOSED_CONNECTION_NANOSECONDS,
    IDLE_CONNECTION_NANOSECONDS,
    SEQUENCE_JUMP_MAX_BYTES,
    STRAY_PACKETS_MAX,
)
from pulsarscope.model.live_limits import LIVE_HOLE_NANOSECONDS_MAX, LIVE_UNHEARD_LEAST_NANOSECONDS, LIVE_UNHEARD_NANOSECONDS
from pulsarscope.model.tcp_flags import ACK, CONTROL_FLAGS, RST, SYN
from pulsarscope.tcp.captured_twice import note_handshake_copy
from pulsarscope.tcp.connection import ClosedConnection, ClosedElsewhere, Connection, ConnectionEvents, open_connection
from pulsarscope.tcp.connection_table import ConnectionTable
from pulsarscope.tcp.copies import Identity, identity
from pulsarscope.tcp.delayed_opening import note_handshake_again
from pulsarscope.tcp.first_close import note_end
from pulsarscope.tcp.measured_acks import note_in_order, note_packet
from pulsarscope.tcp.pieces import Piece, at_moment
from pulsarscope.tcp.resets import begun_after, foreign_reset
from pulsarscope.tcp.sequence import UNKNOWN, sequence_difference
from pulsarscope.tcp.strays import Strays
from pulsarscope.tcp.stream import Stream
from pulsarscope.tcp.tuple_reuse import begins_another, is_stray, note_acknowledgment, take_back

if TYPE_CHECKING:
    from pulsarscope.capture import Block, Segment
    from pulsarscope.tcp.stream_findings import Where

MIXED_RUN_PACKETS = 16
"""Average number of packets per out-of-order one from which in-order runs are taken together; below that, one by one is faster."""

MIXED_LOOKS_MAX = 200
"""Number of times that each packet may be examined on this path. Beyond that, in blocks of very many packets, one by one is faster."""

_packet_of = itemgetter(0)
_time_of = itemgetter(1)

Run = tuple[int, list[Piece], int, int]
"""Pieces in order, after their size, then the bytes that the snap length cut off behind them, and the packet that lacks these."""

Resumed = tuple[int, list[tuple[bytes, "Segment"]]]
"""A connection handed over to the assembler: its first packet in the block, and its packets so far, with their flow keys."""


class Assembler(ConnectionTable):
    """Connections of one vantage point; feed all blocks in order, then finish."""

    def feed(
        self,
        block: Block,
        following_start: int | None = None,
        taken: int = 0,
        elsewhere: ClosedElsewhere | None = None,
        resumed: Sequence[Resumed] = (),
    ) -> list[ConnectionEvents]:
        """Process a block; return the events of each connection that it touched.

        Args:
            block: the next block.
            following_start: time from which later files may hold late packets of a closed connection; None if there are no such files.
            taken: number of closed connections that were taken and not put back.
            elsewhere: closed connections that wait for late packets elsewhere.
            resumed: connections that another reader has followed up to packets of this block.
        """
        file = block.file
        independent, ordered = self._classify(block)
        mixed: list[tuple[int, bytes, ConnectionEvents]] = []
        for connection, flows in independent.items():
            if self._take_in_order(connection, flows, file):
                continue
            if not all(hasattr(segments, "odd") for _, segments, _ in flows):
                ordered += [(stream.key, segments) for stream, segments, _ in flows]
            else:
                ordered += self._take_mixed(connection, [(stream, segments) for stream, segments, _ in flows], file)
                if connection.events is not None:
                    mixed.append((min(segments[0][0] for _, segments, _ in flows), b"", connection.events))
        if ordered or resumed or mixed:
            entries: list[tuple[int, bytes, Segment | ConnectionEvents | list[tuple[bytes, Segment]]]]
            entries = [(first, b"", packets) for first, packets in resumed]
            if mixed:
                later = {id(events) for _, _, events in mixed}
                self._touched = [events for events in self._touched if id(events) not in later]
                entries += mixed
            for key, segments in ordered:
                entries += zip(map(_packet_of, segments), repeat(key), segments, strict=False)
            entries.sort(key=_packet_of)  # by number only: half the time of comparing tuples
            for _, key, entry in entries:
                if isinstance(entry, ConnectionEvents):  # as if its packets had come one by one as well
                    self._touched.append(entry)
                elif isinstance(entry, list):
                    for of, segment in entry:
                        self._receive(of, segment, file)
                else:
                    self._receive(key, entry, file)
        self._finish_closed(block.last_time if following_start is None else min(block.last_time, following_start), taken, elsewhere)
        if block.owners:
            _note_owners(block, self._touched)
        return [*self._end_block(file, block.last_packet)]

    def replay(self, packets: Iterable[tuple[bytes, Segment]], file: int) -> list[ConnectionEvents]:
        """Process packets, with their flow keys, of connections that another reader has followed so far; return the events of each."""
        last = 0
        for key, segment in packets:
            self._receive(key, segment, file)
            last = segment[0]
        return [*self._end_block(file, last)]

    def expire(self, time: int, *, skipped: bool = False) -> list[ConnectionEvents]:
        """Declare gaps and finish connections that are due at `time`, without a packet, in a capture without an end.

        `skipped`: packets were skipped before the latest block, so no hole will be filled.
        """
        if skipped:
            self._skipped_until = time + LIVE_HOLE_NANOSECONDS_MAX
            self._skipped_at = time
            self._next_expiry = min(self._next_expiry, time + LIVE_UNHEARD_LEAST_NANOSECONDS)
        oldest = time if time <= self._skipped_until else time - LIVE_HOLE_NANOSECONDS_MAX
        if time < self._expired_at - LIVE_HOLE_NANOSECONDS_MAX:  # the clock was set back: the age of waiting segments is unknown
            oldest = self._expired_at + IDLE_CONNECTION_NANOSECONDS
            self._skipped_until = self._skipped_at = self._next_expiry = 0
        self._expired_at = time
        for connection in list(self._buffering):
            if connection.is_overdue(time):
                self._give_up_holes(connection, time, connection.last)
            if any(stream.buffer is not None and stream.buffer.waits_since(oldest) for stream in connection.streams):
                events = connection.events or self._touch(connection)
                events.file = connection.last_file
                for stream in connection.streams:
                    stream.give_up_before(oldest, connection.last)
                if not connection.ended and all(stream.ended for stream in connection.streams):
                    self._close(connection, "fin", connection.last_file, connection.last_packet)
        if time < self._next_expiry:
            return [*self._end_block(0, 0)] if self._touched else []
        lossy = time - self._skipped_at < LIVE_UNHEARD_NANOSECONDS
        self._next_expiry = time + (LIVE_UNHEARD_LEAST_NANOSECONDS if lossy else CLOSED_CONNECTION_NANOSECONDS)
        return self.finish_idle(time)

    def _classify(
        self, block: Block
    ) -> tuple[dict[Connection, list[tuple[Stream, list[Segment], int]]], list[tuple[bytes, list[Segment]]]]:
        """Split the flows of a block by the path that they take.

        Returns:
            Flows whose two directions can be processed one after the other if in order, as (stream, segments, latest time) by connection;
            and flows that need capture order.
        """
        table = self._table
        controlled = {table.get(key) for key in block.control}
        independent: dict[Connection, list[tuple[Stream, list[Segment], int]]] = {}
        ordered = []
        resumed: set[Connection] = set()
        for key, segments in block.flows.items():
            connection = table.get(key)
            if not isinstance(connection, Connection) or connection.closing or connection.buffered or connection in controlled:
                ordered.append((key, segments))
                continue
            latest = segments[-1][1] if block.ordered else _latest(segments)
            if latest - connection.end > IDLE_CONNECTION_NANOSECONDS:
                resumed.add(connection)
            stream = connection.streams[0 if key == connection.key else 1]
            independent.setdefault(connection, []).append((stream, segments, latest))
        for connection in resumed:
            ordered += [(stream.key, segments) for stream, segments, _ in independent.pop(connection)]
        return independent, ordered

    def _take_in_order(self, connection: Connection, flows: list[tuple[Stream, list[Segment], int]], file: int) -> bool:
        """Take segments of both directions if all are in order; otherwise take none, and return False."""
        runs = [_in_order(stream, segments) for stream, segments, _ in flows]
        if None in runs:
            return False
        events = connection.events or self._touch(connection)
        connection.announce(events.log)
        if connection.last_file != file:
            connection.last_file = events.file = file
            connection.last_packet = 0
        acknowledges = [stream.acknowledges for stream in connection.streams]
        for (stream, segments, latest), run in zip(flows, runs, strict=True):
            stream.captured = True
            if run:
                parts, count, newest = run
                stream.segments += count
                times = _times(segments, {packet for _, _, missing, packet in parts if missing})
                for size, pieces, missing, _ in parts:
                    stream.deliver_run(file, pieces, size, missing, times)
                stream.newest = newest
            connection.packets += len(segments)
            packet, time, *_ = segments[-1]
            note_acknowledgment(stream, segments)
            if packet > connection.last_packet:
                connection.last_packet, connection.last_time = packet, time
            if latest > connection.end:
                connection.end = time if latest == time else latest  # share one object: there are very many connections
        note_in_order(connection, flows, acknowledges, file)
        return True

    def _take_mixed(self, connection: Connection, flows: list[tuple[Stream, Any]], file: int) -> list[tuple[bytes, Any]]:
        """Take segments of the compiled reader, few of which are out of order: these one by one, the in-order runs between them together.

        Return flows of the remaining segments; when many are out of order, all segments remain.
        """
        apart = MIXED_RUN_PACKETS // 2
        looks = MIXED_LOOKS_MAX * sum(len(segments) for _, segments in flows)
        while flows:
            odd = [segments.odd(stream.sequence) for stream, segments in flows]
            size = sum(len(segments) for _, segments in flows)
            looks -= size  # all are examined
            if sum(count for count, _ in odd) * MIXED_RUN_PACKETS > size or looks < 0:
                break
            first = min((packet for _, packet in odd if packet is not None), default=None)
            if first is None:
                taken = self._take_in_order(connection, [(*flow, flow[1].latest()) for flow in flows], file)
                return [] if taken else [(stream.key, segments) for stream, segments in flows]
            parts = [(stream, *segments.cut(first)) for stream, segments in flows]
            before = [(stream, segments, segments.latest()) for stream, segments, _ in parts if len(segments)]
            if before and not self._take_in_order(connection, before, file):
                break
            flows, count = [(stream, segments) for stream, _, segments in parts if len(segments)], 1
            while flows:
                flows = self._take_apart(flows, count, file)
                if connection.closing or self._table.get(connection.key) is not connection:
                    return [(stream.key, segments) for stream, segments in flows]
                if not any(stream.buffer or stream.window_closed for stream in connection.streams):
                    break
                count, apart = apart, 2 * apart
        return [(stream.key, segments) for stream, segments in flows]

    def _take_apart(self, flows: list[tuple[Stream, Any]], count: int, file: int) -> list[tuple[Stream, Any]]:
        """Take at most the first `count` packets of all flows one by one, and return the remaining flows."""
        entries = [(segment[0], stream.key, segment) for stream, segments in flows for segment in segments[:count]]
        entries.sort(key=_packet_of)
        for _, key, segment in entries[:count]:
            self._receive(key, segment, file)
        behind = [(stream, segments.cut(entries[:count][-1][0] + 1)[1]) for stream, segments in flows]
        return [flow for flow in behind if len(flow[1])]

    def _receive(self, key: bytes, segment: Segment, file: int) -> None:
        """Process one packet in capture order."""
        packet, time, seq, ack, flags, window, payload, cut, identification, options = segment
        found = self._table.get(key)
        connection = self._unpack(found) if isinstance(found, ClosedConnection) else found
        if (
            connection is not None
            and (flags & SYN or time - connection.end > CLOSED_CONNECTION_NANOSECONDS)
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
            if flags & SYN:
                self._silent[connection] = None
        index = 0 if key == connection.key else 1
        stream, other = connection.streams[index], connection.streams[1 - index]
        events = connection.events or self._touch(connection)
        if stream.buffer is not None or other.buffer is not None:
            self._give_up_holes(connection, time, (file, packet, time))
        if (connection.closing or (payload and seq != stream.sequence)) and self._begins_again(connection, index, segment, file):
            return
        connection.announce(events.log)
        stream.captured = True
        if connection.strays is None and not flags & RST:
            note_acknowledgment(stream, (segment,))
            note_packet(connection, index, segment, file)
        events.file = connection.last_file = file
        connection.last_packet, connection.last_time = packet, time
        connection.packets += 1
        if time > connection.end:  # noqa: PLR1730 - half the time of a call of max
            connection.end = time
        if other.buffer is not None and flags & ACK:
            distance = sequence_difference(other.sequence, ack)
            if 0 <= distance <= SEQUENCE_JUMP_MAX_BYTES:
                other.buffer.acknowledge(other.length + distance, connection.packets, time)
        if window and not (flags & CONTROL_FLAGS or cut or stream.window_closed or connection.closing):
            # The common case: a bare acknowledgment changes nothing, and in-order data needs none of the checks below.
            if not payload:
                return
            if seq == stream.sequence and stream.buffer is None:
                stream.segments += 1
                stream.deliver(file, [(payload, packet, time, packet)], len(payload))
                stream.newest = identity(identification, options, len(payload))
                return
        if flags & SYN:
            note_handshake_copy(connection, index, segment)
            note_handshake_again(connection, index, segment)
        if connection.ended:
            stream.receive_late(segment, copied=file > connection.ended_file or time < connection.ending)
        elif flags & RST:
            self._reset(connection, index, segment, file)
        elif not flags & SYN or connection.take_handshake(index, segment):
            stream.receive(segment, file)
            if stream.fin != UNKNOWN:
                connection.closing = True
                note_end(connection, index, segment)
                if stream.ended and other.ended:
                    self._close(connection, "fin", file, packet)

    def _give_up_holes(self, connection: Connection, time: int, where: Where) -> None:
        """Declare as gaps, at this packet, the holes that the peer acknowledged long before `time`."""
        (connection.events or self._touch(connection)).file = where[0]
        connection.late = max(connection.late, connection.end - time)
        for stream in connection.streams:
            if stream.buffer is not None and stream.buffer.is_overdue(connection.packets, time, connection.late):
                stream.give_up_acknowledged(where)
        if not connection.ended and all(stream.ended for stream in connection.streams):
            self._close(connection, "fin", where[0], where[1])

    def _begins_again(self, connection: Connection, index: int, segment: Segment, file: int) -> bool:
        """Hold a stray; return True when the packet, and the strays before it, were taken as packets of another connection."""
        connection.trust_reset(index, segment)
        strays = connection.strays
        if not begins_another(connection, index, segment):
            if strays is not None and not connection.ended and connection.packets - strays.packets > STRAY_PACKETS_MAX:
                strays = connection.strays = None
                connection.update_closing()
            if is_stray(connection, index, segment):
                if strays is None:
                    counts = [(stream.dropped, stream.late) for stream in connection.streams]
                    strays = connection.strays = Strays(connection.packets, connection.end, (counts[0], counts[1]))
                    connection.closing = True
                strays.hold(connection.streams[index], segment, file)
            return False
        held = []
        if strays is not None:
            held = strays.segments
            connection.packets -= len(held)
            connection.end = strays.end
            for stream, (dropped, late) in zip(connection.streams, strays.dropped, strict=True):
                stream.dropped, stream.late = dropped, late
                for stray_key, stray, stray_file in held:
                    if stray_key == stream.key:
                        take_back(stream, stray, stray_file)
        self._end(connection)
        self._finish(connection)
        key = connection.streams[index].key
        for held_key, stray, held_file in [*held, (key, segment, file)]:
            self._receive(held_key, stray, held_file)
        another = self._table[key]
        assert isinstance(another, Connection)  # noqa: S101 - it has just received a packet
        for items in (another.events or self._touch(another)).items:
            items[:] = [at_moment(item, segment[0]) for item in items]
        self._note(another, *begun_after(connection, [*((stray_key, stray) for stray_key, stray, _ in held), (key, segment)]))
        return True

    def _reset(self, connection: Connection, index: int, segment: Segment, file: int) -> None:
        stream = connection.streams[index]
        if not connection.accepts_reset(index, segment):
            stream.receive_late(segment)
            connection.doubt_reset(index, segment, file)
            return
        was_sending = (connection.reset is not None and connection.reset[0] == index) or connection.streams[1 - index].window_closed
        connection.reset = None
        packet, time, seq, ack, flags, window, payload, cut, identification, options = segment
        if payload or cut:
            # A RST may carry its reason as data (RFC 9293 section 3.5.3).
            stream.receive((packet, time, seq, ack, flags & ACK, window or 1, payload, cut, identification, options), file)
        if (foreign := foreign_reset(connection, index, segment, was_sending=was_sending)) is not None:
            self._note(connection, *foreign)
        self._note_reset(connection, index, connection.last)
        self._close(connection, "rst", file, packet)
        stream.acknowledges = ack if flags & ACK else stream.acknowledges  # of data that may be captured behind it


def _latest(segments: list[Segment]) -> int:
    """Return the latest time of segments."""
    compiled: Any = getattr(segments, "latest", None)
    return max(map(_time_of, segments)) if compiled is None else compiled()  # type: ignore[no-any-return]


def _note_owners(block: Block, events: Iterable[ConnectionEvents | ClosedConnection]) -> None:
    """Record the owners of the sockets in the connections of a block."""
    for connection in (event.of for event in events if isinstance(event, ConnectionEvents) and isinstance(event.of, Connection)):
        first = connection.packet if connection.file == block.file else 0
        packets = [packet for stream in connection.streams for packet, *_ in block.flows.get(stream.key, ())]
        for packet in sorted(packets):  # in packet order, wherever blocks end
            if first <= packet <= connection.last_packet and (owner := block.owners.get(packet)) is not None:
                connection.note_owner(owner)


def _times(segments: list[Segment], packets: set[int]) -> Iterator[tuple[int, int]]:
    """Yield the numbers and times of some packets."""
    return ((packet, time) for packet, time, *_ in segments if packet in packets)


def _in_order(stream: Stream, segments: list[Segment]) -> tuple[list[Run], int, Identity] | tuple[()] | None:
    """Return runs of the segments of a stream, the number of those with data, and the identity of the newest one; () if there are none.

    Return None if a segment is not in order or needs closer examination. This includes the first segment after the sequence numbers wrap,
    because the loop does not reduce them modulo 2^32.
    """
    if stream.buffer is not None or stream.window_closed:
        return None
    compiled: Any = getattr(segments, "in_order", None)
    if compiled is not None:
        found = compiled(stream.sequence)
        if found is None or not found[1]:
            return None if found is None else ()
        return found[0], found[1], identity(found[2], found[4], found[3])
    first = expected = stream.sequence
    pieces: list[Piece] = []
    append = pieces.append
    for packet, time, seq, _, _, window, payload, cut, _, _ in segments:
        if payload and seq == expected and window and not cut:
            append((payload, packet, time, packet))
            expected = seq + len(payload)
        elif payload or cut or not window:
            return None
    if not pieces:
        return ()
    last = next(segment for segment in reversed(segments) if segment[6])
    return [(expected - first, pieces, 0, 0)], len(pieces), identity(last[8], last[9], len(last[6]))
