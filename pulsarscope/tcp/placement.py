"""Position of each packet in its connection, for commands that select or copy packets.

A packet belongs to the latest connection opened on its 4-tuple, and its sequence number determines the position of its bytes. Duplicates,
late segments and segments that the assembler ignored also have a place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

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

    def feed(self, block: Block, events: Sequence[ConnectionEvents]) -> Mapping[int, PacketPlace]:
        """Return the places of the TCP packets of a block, by packet number; `events` is what `Assembler.feed` returned for the block."""
        opened: dict[bytes, list[Connection]] = {}
        connection: Connection | _EndedStream | None
        for event in events:
            if event.opened:
                for stream in event.connection.streams:
                    opened.setdefault(stream.key, []).append(event.connection)
        places: dict[int, PacketPlace] = {}
        for key, segments in block.flows.items():
            connection = self._connections.get(key)
            source = source_endpoint(key)
            rest = iter(opened.get(key, ()))
            following = next(rest, None)
            for segment in segments:
                while following is not None and following.packet <= segment[0]:
                    connection = following
                    following = next(rest, None)
                if connection is not None:
                    of_flow = _stream(connection, key)
                    place = (0, 0) if of_flow.sequence == UNKNOWN else bytes_of(segment, of_flow.sequence, of_flow.length)
                    places[segment[0]] = PacketPlace(connection.name, source, segment[4], *place)
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


def bytes_of(segment: Segment, sequence: int, length: int) -> tuple[int, int]:
    """Return start and end offset of a segment in its stream, which has this sequence number at the offset `length`."""
    payload = segment[6]
    if payload:
        distance = sequence_difference(sequence, segment[2] + bool(segment[4] & SYN))
        if abs(distance) <= SEQUENCE_JUMP_MAX_BYTES:
            start = length + distance
            return start, start + len(payload)
    return 0, 0
