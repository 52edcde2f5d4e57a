"""Position of each packet in its connection, for commands that select or copy packets.

A packet belongs to the latest connection opened on its 4-tuple, and its sequence number determines the position of its bytes. Duplicates,
late segments and segments that the assembler ignored also have a place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from pulsarscope.model.byte_ranges import ByteRanges, Ranges
from pulsarscope.model.flow import reverse_key, source_endpoint
from pulsarscope.model.limits import SEQUENCE_JUMP_MAX_BYTES
from pulsarscope.tcp.sequence import sequence_difference
from pulsarscope.tcp.stream import SYN, UNKNOWN, Stream

if TYPE_CHECKING:
    from pulsarscope.capture import Block, Segment
    from pulsarscope.tcp.connection import Connection, ConnectionEvents


class PacketPlace(NamedTuple):
    """Position of one packet's payload in a stream."""

    connection: str
    """Name of the connection, file:packet."""
    source: str
    """Endpoint of the sender."""
    flags: int
    """TCP flags."""
    start: int
    """Offset of the first captured byte in the sender's stream."""
    end: int
    """Offset after the last captured byte; equal to `start` for a packet without payload."""


class _EndedStream(Struct, gc=False, frozen=True):
    """The part of a stream with a FIN that placing late packets requires; there may be very many such streams."""

    name: str
    """Name of the connection."""
    sequence: int
    length: int


class Placement:
    """Places of the packets of a capture, computed block by block in order."""

    def __init__(self) -> None:
        self._connections: dict[bytes, Connection | _EndedStream] = {}
        """Unfinished connections by the flow key of either direction."""

    def feed(
        self,
        block: Block,
        events: Sequence[ConnectionEvents],
        ranges: Ranges | None = None,
        named: AbstractSet[int] = frozenset(),
        copies: Any = None,
    ) -> Mapping[int, PacketPlace]:
        """Return the places of the TCP packets of a block, by packet number; `events` is what `Assembler.feed` returned for the block.

        With `ranges`, return only packets of streams with ranges, which are selected by these or by number (`named`). The compiled reader's
        `PacketCopies` receive those whose comments consist only of names of frames.
        """
        opened: dict[bytes, list[Connection]] = {}
        connection: Connection | _EndedStream | None
        for event in events:
            if event.opened:
                for stream in event.connection.streams:
                    opened.setdefault(stream.key, []).append(event.connection)
        places: dict[int, PacketPlace] = {}
        for key, segments in block.flows.items():
            connection = self._connections.get(key)
            following_ones = opened.get(key, ())
            source = source_endpoint(key)
            if ranges is not None and len(following_ones) < 2:
                if following_ones and following_ones[0].packet <= segments[0][0]:
                    connection, following_ones = following_ones[0], ()
                if not following_ones:
                    if connection is not None and (looked_for := _looked_for(ranges, connection.name, source, key, block)) is not None:
                        into = None if looked_for.apart else copies
                        of_flow = _stream(connection, key)
                        for packet, flags, start, end in _carriers(segments, of_flow, looked_for, named, block.file, into):
                            places[packet] = PacketPlace(connection.name, source, flags, start, end)
                    continue
            rest = iter(following_ones)
            following = next(rest, None)
            for segment in segments:
                while following is not None and following.packet <= segment[0]:
                    connection = following
                    following = next(rest, None)
                if connection is not None:
                    place = PacketPlace(connection.name, source, segment[4], *_bytes_of(segment, _stream(connection, key)))
                    if ranges is not None:
                        looked_for = _looked_for(ranges, connection.name, source, key, block)
                        if looked_for is None or not _is_looked_for(looked_for, named, segment[0], place.start, place.end):
                            continue
                    places[segment[0]] = place
        for key, connections in opened.items():
            self._connections[key] = connections[-1]
        self.forget(events)
        for event in events:
            if event.ended and not event.finished:
                self._keep_less(event.connection)
        return places

    def _keep_less(self, connection: Connection) -> None:
        """Keep only the positions of a connection that has ended, once they no longer change."""
        if all(stream.fin == stream.length and stream.sequence != UNKNOWN for stream in connection.streams):
            for stream in connection.streams:
                if self._connections.get(stream.key) is connection:
                    self._connections[stream.key] = _EndedStream(connection.name, stream.sequence, stream.length)

    def forget(self, events: Sequence[ConnectionEvents]) -> None:
        """Drop the connections that finish in these events."""
        for event in events:
            if event.finished:
                for key in (event.key, reverse_key(event.key)):
                    if (connection := self._connections.get(key)) is not None and connection.name == event.name:
                        del self._connections[key]


def _stream(connection: Connection | _EndedStream, key: bytes) -> Stream | _EndedStream:
    """Return the stream of a flow."""
    return connection if isinstance(connection, _EndedStream) else connection.streams[0 if key == connection.key else 1]


def _looked_for(ranges: Ranges, connection: str, source: str, key: bytes, block: Block) -> ByteRanges | None:
    """Return the ranges of a stream, and whether all its packets in a block are examined."""
    looked_for = ranges(connection, source)
    if looked_for is None or looked_for.apart is not None:
        return looked_for
    looks = key in block.control or reverse_key(key) in block.control
    return looked_for._replace(complete=looked_for.complete or looks, apart=looks)


def _is_looked_for(ranges: ByteRanges, named: AbstractSet[int], packet: int, start: int, end: int) -> bool:
    return ranges.complete or packet in named or ranges.meet(start, end)


def _carriers(
    segments: Sequence[Segment], stream: Stream | _EndedStream, ranges: ByteRanges, named: AbstractSet[int], file: int, copies: Any
) -> Iterable[tuple[int, int, int, int]]:
    """Return packet, flags, start and end of the selected segments, except those that `copies` take."""
    compiled: Any = segments
    if hasattr(compiled, "copies") and stream.sequence != UNKNOWN and not ranges.starts:
        position = stream.sequence, stream.length, SEQUENCE_JUMP_MAX_BYTES
        found: list[tuple[int, int, int, int]] = compiled.copies(
            position, ranges.compiled, (ranges.complete, named), *ranges.at_packets, file, copies
        )
        return found
    all_segments = ranges.complete or bool(named)
    carriers = []
    for segment in segments:
        if all_segments or segment[6]:
            packet = segment[0]
            start, end = _bytes_of(segment, stream)
            if _is_looked_for(ranges, named, packet, start, end):
                carriers.append((packet, segment[4], start, end))
    return carriers


def _bytes_of(segment: Segment, stream: Stream | _EndedStream) -> tuple[int, int]:
    """Return start and end offset of a segment in its stream, from the stream's position after the block."""
    payload = segment[6]
    if payload and stream.sequence != UNKNOWN:
        distance = sequence_difference(stream.sequence, segment[2] + bool(segment[4] & SYN))
        if abs(distance) <= SEQUENCE_JUMP_MAX_BYTES:
            start = stream.length + distance
            return start, start + len(payload)
    return 0, 0
