"""State of one TCP connection, and the rules that separate it from the next one on the same 4-tuple."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, Protocol, overload

import msgspec

from pulsarscope.model.flow import FILE_SHIFT, reverse_key
from pulsarscope.model.limits import CLOSED_CONNECTION_NANOSECONDS, HOLE_NANOSECONDS_MAX, HOLE_PACKETS_MAX, IDLE_CONNECTION_NANOSECONDS
from pulsarscope.model.tcp_flags import ACK, RST, SYN
from pulsarscope.tcp.copies import identity
from pulsarscope.tcp.pieces import NO_ITEMS
from pulsarscope.tcp.sequence import SEQUENCE_MASK, UNKNOWN, sequence_difference
from pulsarscope.tcp.stream import Stream
from pulsarscope.tcp.stream_findings import DelayedOpening, Log, Where, finding

if TYPE_CHECKING:
    from pulsarscope.capture import Owner, Segment
    from pulsarscope.model.findings import Finding
    from pulsarscope.tcp.pieces import Item
    from pulsarscope.tcp.strays import Strays


OWNERS_MAX = 4
"""Socket owners of a connection that are remembered: one at each end, and processes that a socket was passed to."""

_FAST_OPEN_MAX_BYTES = 65_535
"""Largest amount of data on a SYN (RFC 7413): one segment. Data of a first window, which is never scaled, lie no further from the SYN."""


class Counts(NamedTuple):
    """Counts of a connection that late packets change."""

    end: int
    packets: int
    dropped: tuple[int, int]
    """Dropped bytes of `streams[0]` and `[1]`."""
    retransmitted: int
    out_of_order: int


class ClosedElsewhere(Protocol):
    """Closed connections that wait for late packets, in addition to those of an assembler."""

    def finish_closed(self, time: int, before: int) -> bool:
        """Finish those closed before a place that get no more late packets at this time; return True if some still wait."""


class Connection(msgspec.Struct, gc=False, eq=False):
    """TCP connection; `key`, `file`, `packet` and `start` are those of its first packet."""

    key: bytes
    name: str
    """Name of the connection: file:packet of its first packet."""
    file: int
    packet: int
    start: int
    streams: tuple[Stream, Stream]
    """Both directions; `streams[0]` is the direction of the first packet."""
    end: int
    """Latest time of its packets, ns; at least `start`."""
    opened: Literal["syn", "midstream"]
    last_file: int
    last_packet: int
    last_time: int
    """Time of the packet `last_packet` of `last_file`, ns."""
    ending: int = 0
    """Value of `end` when the connection ended; late packets do not change it."""
    ended_file: int = 0
    """File of its last packet when it ended."""
    closed_file: int = 0
    closed_packet: int = 0
    """Packet that closed it; `closed_file` is its file."""
    packets: int = 0
    """Packets of both directions, including those without data and those after the end."""
    late: int = 0
    """Greatest time by which a packet was older than `end` while the connection waited for missing bytes, ns."""
    closed: Literal["open", "fin", "rst"] = "open"
    closed_by: int | None = None
    """Index of the stream with the first FIN or RST."""
    closing_how: Literal["fin", "rst"] = "fin"
    """Whether a FIN or a RST came first."""
    closing_time: int = 0
    """Time of that packet, ns."""
    foreign: bool = False
    """True when a device between the two ends reset it."""
    closing_acknowledges: int = UNKNOWN
    """Offset up to which that FIN acknowledges the other stream; after the other side's FIN if that was sent first."""
    client: int | None = None
    """Index of the client's stream; None when no SYN was seen and `set_client` was not called."""
    ended: bool = False
    """True when no more bytes follow; late packets are counted until the connection is finished."""
    finished: bool = False
    """True when nothing changes any more."""
    closing: bool = False
    """True after the first FIN or RST, and while there are strays: packets of both directions must then be processed in capture order."""
    reset: tuple[int, int, Where] | None = None
    """Stream, sequence number and place of a RST that was not accepted, until its sender sends more."""
    strays: Strays | None = None
    announced: bool = False
    """True when `midstream-start` was reported or does not apply."""
    buffered: int = 0
    """Bytes in its reorder buffers that the assembler has accounted for."""
    delayed: DelayedOpening | None = None
    events: ConnectionEvents | None = None
    """Events of the current block."""
    owners: tuple[tuple[str, ...], tuple[str, ...]] | tuple[()] = ()
    """Processes and pods that own its sockets, if packets name them."""

    def note_owner(self, owner: Owner) -> None:
        """Record the owner of one of the sockets."""
        processes, pods = self.owners or ((), ())
        self.owners = _with_name(processes, owner.process), _with_name(pods, owner.pod)

    @property
    def keys(self) -> tuple[bytes, bytes]:
        """Return the flow keys of both directions."""
        return self.streams[0].key, self.streams[1].key

    @property
    def closed_at(self) -> int:
        """Return the place of the packet that closed it; see `FILE_SHIFT`."""
        return self.closed_file << FILE_SHIFT | self.closed_packet

    @property
    def last(self) -> Where:
        """Return file, packet and time of the last packet."""
        return self.last_file, self.last_packet, self.last_time

    @property
    def last_at(self) -> int:
        """Return the place of the last packet; see `FILE_SHIFT`."""
        return self.last_file << FILE_SHIFT | self.last_packet

    def counts(self) -> Counts:
        """Return the counts so far."""
        first, second = self.streams
        of_both = first.retransmitted + second.retransmitted, first.out_of_order + second.out_of_order
        return Counts(self.end, self.packets, (first.dropped, second.dropped), *of_both)

    def announce(self, log: Log) -> None:
        """Report that the capture begins within this connection, once it has data: before the rows of the first packet with data.

        Call this after each packet that may have data, so that the place does not depend on the blocks of the capture.
        """
        if not self.announced and (self.streams[0].segments or self.streams[1].segments):
            self.announced = True
            where = (self.file, self.packet, self.start)
            log.append((self.last_packet - 1, finding("midstream-start", "The capture begins within this connection.", {}, where)))

    def set_client(self, index: int) -> None:
        """Set the client once the protocol reveals it."""
        self.client = index

    def endpoint(self, index: int) -> str:
        """Return the sender of a stream as "ip:port" or "[v6]:port"."""
        return self.streams[index].source

    def answers_lost_fin(self, index: int) -> bool:
        """Return True when the first FIN, that of this stream, acknowledges one byte more than the other stream has: a FIN not captured."""
        other = self.streams[1 - index]
        return other.fin == UNKNOWN and self.closing_acknowledges == other.length + 1

    def is_superseded_by(self, index: int, segment: Segment) -> bool:
        """Return True when a packet on the same 4-tuple begins a new connection: by its SYN, or after long silence."""
        _, time, seq, ack, flags, *_ = segment
        if time - self.end > (CLOSED_CONNECTION_NANOSECONDS if self.ended else IDLE_CONNECTION_NANOSECONDS):
            return True
        if not flags & SYN or flags & RST or self._is_late_handshake(index, segment):
            return False
        own, other = self.streams[index], self.streams[1 - index]
        own_first = own.first_sequence()
        same = own_first == (seq + 1) & SEQUENCE_MASK
        if same or not flags & ACK:
            # The first SYN of this side completes a simultaneous open if the other SYN was seen.
            return not same and not (own_first == UNKNOWN and other.handshake and not self.ended)
        # A SYN|ACK with an unknown sequence number belongs to this connection if it acknowledges the SYN.
        if self._acknowledges(other, ack) or (own_first == UNKNOWN and other.handshake and not self.ended):
            return False
        return self.ended or other.sequence != UNKNOWN or own_first != UNKNOWN

    def _is_late_handshake(self, index: int, segment: Segment) -> bool:
        """Return True for a SYN that was captured after data of its connection: its sequence number is just below theirs.

        The SYN of a following connection does not qualify: its sequence number is random, or beyond the data.
        """
        _, time, seq, ack, flags, *_ = segment
        own, other = self.streams[index], self.streams[1 - index]
        if self.opened == "syn" or self.ended or not (own.segments or other.segments):
            return False
        if self.packets > HOLE_PACKETS_MAX or time - self.start > HOLE_NANOSECONDS_MAX:
            return False
        starts = [((seq + 1) & SEQUENCE_MASK, own, other), *([(ack, other, own)] if flags & ACK else [])]
        firsts = [(start, peer.acknowledges if of.sequence == UNKNOWN else of.first_sequence()) for start, of, peer in starts]
        distances = [sequence_difference(start, first) for start, first in firsts if first != UNKNOWN]
        return bool(distances) and all(0 <= distance <= _FAST_OPEN_MAX_BYTES for distance in distances)

    def is_overdue(self, time: int) -> bool:
        """Return True when a stream has a hole that will no longer be filled."""
        return any(stream.buffer is not None and stream.buffer.is_overdue(self.packets, time, self.late) for stream in self.streams)

    def accepts_reset(self, index: int, segment: Segment) -> bool:
        """Return True for a RST with the next sequence number (RFC 5961), or one that answers the peer's SYN (RFC 9293 section 3.5.3)."""
        _, _, seq, ack, flags, *_ = segment
        own, other = self.streams[index], self.streams[1 - index]
        if own.sequence != UNKNOWN:
            return own.is_next(seq)
        return not (flags & ACK and other.handshake) or self._acknowledges(other, ack)

    @staticmethod
    def _acknowledges(stream: Stream, ack: int) -> bool:
        """Return True when a SYN|ACK answers this stream's SYN, which may have carried data (RFC 7413)."""
        first = stream.first_sequence()
        return first != UNKNOWN and 0 <= sequence_difference(first, ack) <= min(stream.length, _FAST_OPEN_MAX_BYTES)

    def doubt_reset(self, index: int, segment: Segment, file: int) -> None:
        """Remember a RST that is not accepted: it takes effect at the end if its sender sent nothing after it."""
        packet, time, seq, *_ = segment
        if self.streams[index].sequence != UNKNOWN and self.streams[index].is_near(seq):
            self.reset = index, seq, (file, packet, time)
            self.closing = True

    def trust_reset(self, index: int, segment: Segment) -> None:
        """Forget the doubtful RST if its sender sends more after it; data before it may have been captured late."""
        _, _, seq, _, flags, _, payload, *_ = segment
        if self.reset is None or self.reset[0] != index or flags & RST:
            return
        if not payload or sequence_difference(self.reset[1], seq) + len(payload) > 0:
            self.reset = None
            self.update_closing()

    def update_closing(self) -> None:
        """Leave capture order when nothing requires it any longer."""
        self.closing = self.ended or bool(self.reset or self.strays) or any(stream.fin != UNKNOWN for stream in self.streams)

    def take_handshake(self, index: int, segment: Segment) -> bool:
        """Take sequence numbers and roles from a SYN or SYN|ACK; return False when it belongs to another connection."""
        _, _, seq, ack, flags, *_ = segment
        own, other = self.streams[index], self.streams[1 - index]
        late = self._is_late_handshake(index, segment)
        if flags & ACK and other.handshake and own.sequence == UNKNOWN and not late and not self._acknowledges(other, ack):
            return False  # answers the SYN of a connection that is not in the capture
        if own.sequence == UNKNOWN:
            own.sequence = (seq + 1) & SEQUENCE_MASK
        if own.first_sequence() != (seq + 1) & SEQUENCE_MASK and not late:
            own.alternative_start = (seq + 1) & SEQUENCE_MASK
            return False
        if not own.handshake:
            own.newest = identity(segment[8], segment[9], 0)
        own.handshake = True
        if flags & ACK and other.sequence == UNKNOWN:
            # The SYN was not captured: the acknowledged number is that of the client's first byte.
            other.sequence = ack
        if self.client is None:
            self.client = 1 - index if flags & ACK else index
        return True


def _with_name(names: tuple[str, ...], name: str | None) -> tuple[str, ...]:
    return names if name is None or name in names or len(names) >= OWNERS_MAX else (*names, name)


def acknowledged_offset(stream: Stream, ack: int) -> int:
    """Return the offset up to which the peer acknowledges a stream; UNKNOWN when none of the stream was seen."""
    return UNKNOWN if stream.sequence == UNKNOWN else stream.length + sequence_difference(stream.sequence, ack)


def open_connection(key: bytes, segment: Segment, file: int) -> Connection:
    """Return a connection that begins with a packet of this flow key, without processing the packet."""
    packet, time, seq, _, flags, *_ = segment
    handshake = bool(flags & SYN and not flags & RST)
    is_refusal = flags & (SYN | RST | ACK) == RST | ACK and not seq  # it answers a SYN (RFC 9293, 3.10.7.1), which was not captured
    return Connection(
        key=key,
        name=f"{file}:{packet}",
        file=file,
        packet=packet,
        start=time,
        streams=(Stream(key, 0), Stream(reverse_key(key), 1)),
        end=time,
        opened="syn" if handshake or is_refusal else "midstream",
        client=1 if is_refusal else None,
        last_file=file,
        last_packet=packet,
        last_time=time,
        announced=handshake,
    )


class ConnectionEvents(msgspec.Struct, gc=False, eq=False):
    """Events of one connection in one block; all moments are packets of `file`."""

    of: Connection | ClosedConnection
    file: int
    items: tuple[list[Item], list[Item]]
    """Data and gaps of `connection.streams[0]` and `[1]`, each in stream order."""
    findings: tuple[Finding, ...] = ()
    """Findings in order of detection, set at the end of the block."""
    opened: bool = False
    """True when the connection begins in this block."""
    ended: bool = False
    """True when no items will follow."""
    finished: bool = False
    """True when counters and times are final: the connection's row can be written."""
    unlisted: bool = False
    """True when it finished without a row: a finding of another connection counts it."""
    log: Log = []
    """Findings so far, not sorted."""

    @property
    def connection(self) -> Connection:
        """Return the connection; a packed one is unpacked on each access."""
        return self.of if isinstance(self.of, Connection) else self.of.connection()

    @property
    def name(self) -> str:
        """Return the name of the connection."""
        return self.of.name

    @property
    def key(self) -> bytes:
        """Return the key of the connection."""
        return self.of.key


class EventList(Sequence[ConnectionEvents]):
    """Events of connections. Events of packed connections are made on access, because very many are finished at once."""

    def __init__(self, touched: list[ConnectionEvents | ClosedConnection]) -> None:
        """Take events; a packed connection that has finished stands for its events."""
        self._touched = touched

    def __len__(self) -> int:
        return len(self._touched)

    @overload
    def __getitem__(self, index: int) -> ConnectionEvents: ...

    @overload
    def __getitem__(self, index: slice) -> list[ConnectionEvents]: ...

    def __getitem__(self, index: int | slice) -> ConnectionEvents | list[ConnectionEvents]:
        return [*map(_events_of, self._touched[index])] if isinstance(index, slice) else _events_of(self._touched[index])

    def __iter__(self) -> Iterator[ConnectionEvents]:
        return map(_events_of, self._touched)


def _events_of(touched: ConnectionEvents | ClosedConnection) -> ConnectionEvents:
    return touched if isinstance(touched, ConnectionEvents) else ConnectionEvents(touched, 0, NO_ITEMS, finished=True)


_APART = frozenset({"key", "name", "index", "streams", "items", "log"})
"""Fields that are not packed: they are kept elsewhere, or belong to one block."""

_SELDOM = {
    Stream: ("outside", "copies", "gaps", "buffer", "window", "resending", "ack_times", "finding_counts", "delivered", "comparison"),
    Connection: ("reset", "strays", "delayed", "owners", "events"),
}
"""Fields that are empty for most connections. A connection with a non-empty one is not packed."""

_PACKED = {kind: [name for name in kind.__struct_fields__ if name not in {*_APART, *seldom}] for kind, seldom in _SELDOM.items()}

_END, _PACKETS, _LAST_FILE, _LAST_PACKET = map(_PACKED[Connection].index, ("end", "packets", "last_file", "last_packet"))
_DROPPED, _RETRANSMITTED, _OUT_OF_ORDER = map(_PACKED[Stream].index, ("dropped", "retransmitted", "out_of_order"))

_seldom_of_stream, _seldom_of_connection = (attrgetter(*names) for names in _SELDOM.values())
_values_of_stream, _values_of_connection = (attrgetter(*names) for names in _PACKED.values())
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


class ClosedConnection(msgspec.Struct, gc=False, eq=False):
    """An ended connection, packed into a fifth of the memory: very many wait for late packets, which most never get."""

    ended: ClassVar[bool] = True
    closing: ClassVar[bool] = True

    key: bytes
    name: str
    closed_at: int
    """Same as `Connection.closed_at`."""
    latest: int
    """The connection's `end`."""
    state: bytes
    whole: Connection | None = None
    """The unpacked connection, if a packet came after all."""
    dropped: bool = False
    """True when it was finished without a late packet."""

    @property
    def keys(self) -> tuple[bytes, bytes]:
        """Same as `Connection.keys`."""
        return self.key, reverse_key(self.key)

    @property
    def end(self) -> int:
        """Same as `Connection.end`."""
        return self.latest if self.whole is None else self.whole.end

    @property
    def finished(self) -> bool:
        """Same as `Connection.finished`."""
        return self.dropped if self.whole is None else self.whole.finished

    @property
    def last_at(self) -> int:
        """Same as `Connection.last_at`."""
        if self.whole is not None:
            return self.whole.last_at
        values = _decode(self.state)[0]
        return int(values[_LAST_FILE] << FILE_SHIFT | values[_LAST_PACKET])

    def counts(self) -> Counts:
        """Return `Connection.counts` without unpacking."""
        if self.whole is not None:
            return self.whole.counts()
        values, first, second = _decode(self.state)
        dropped = first[_DROPPED], second[_DROPPED]
        of_both = first[_RETRANSMITTED] + second[_RETRANSMITTED], first[_OUT_OF_ORDER] + second[_OUT_OF_ORDER]
        return Counts(values[_END], values[_PACKETS], dropped, *of_both)

    def connection(self) -> Connection:
        """Return the connection, unpacked on each access unless a packet has come."""
        if self.whole is not None:
            return self.whole
        values, *streams = _decode(self.state)
        first, second = (dict(zip(_PACKED[Stream], each, strict=True)) for each in streams)
        made = Stream(self.keys[0], 0, **first), Stream(self.keys[1], 1, **second)
        return Connection(key=self.key, name=self.name, streams=made, **dict(zip(_PACKED[Connection], values, strict=True)))


def pack(connection: Connection) -> ClosedConnection | None:
    """Return an ended connection in packed form, at the end of a block; None if more than numbers must be kept."""
    first, second = connection.streams
    if connection.client is None or not (first.segments or second.segments):
        return None
    if any(_seldom_of_connection(connection)) or any(_seldom_of_stream(first)) or any(_seldom_of_stream(second)):
        return None
    try:
        state = _encode((_values_of_connection(connection), _values_of_stream(first), _values_of_stream(second)))
    except OverflowError:  # a time beyond 64 bits
        return None
    return ClosedConnection(first.key, connection.name, connection.closed_at, connection.end, state)
