"""Which packet carried which bytes of which connection: what the assembler settles, told packet by packet for who copies packets.

A packet belongs to the latest connection that opened on its 4-tuple, and its bytes lie where its sequence number says: so copies, late
segments and those that nobody needed have their place, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pulsarscope.model.flow import source_endpoint
from pulsarscope.model.limits import SEQUENCE_JUMP_MAX_BYTES
from pulsarscope.tcp.sequence import sequence_difference
from pulsarscope.tcp.stream import SYN, UNKNOWN, Stream

if TYPE_CHECKING:
    from pulsarscope.capture import Block, Segment
    from pulsarscope.tcp.connection import Connection, ConnectionEvents


class Place(NamedTuple):
    """Where a packet belongs."""

    connection: str
    """Name of the connection."""
    source: str
    """Endpoint of the sender."""
    flags: int
    """TCP flags."""
    start: int
    """Offset in the sender's stream of the first byte captured; equal to `end` when there is none."""
    end: int


class Placement:
    """Feed it all blocks in order, each with what `Assembler.feed` gave for it."""

    def __init__(self) -> None:
        self._connections: dict[bytes, Connection] = {}
        """Connections not finished, under the keys of both directions."""

    def feed(self, block: Block, events: Sequence[ConnectionEvents]) -> Mapping[int, Place]:
        """The place of each TCP packet of the block, by its number."""
        opened: dict[bytes, list[Connection]] = {}
        for event in events:
            if event.opened:
                for stream in event.connection.streams:
                    opened.setdefault(stream.key, []).append(event.connection)
        places: dict[int, Place] = {}
        for key, segments in block.flows.items():
            connection = self._connections.get(key)
            rest = iter(opened.get(key, ()))
            following = next(rest, None)
            source = source_endpoint(key)
            for segment in segments:
                while following is not None and following.packet <= segment[0]:
                    connection = following
                    following = next(rest, None)
                if connection is not None:
                    stream = connection.streams[0 if key == connection.key else 1]
                    places[segment[0]] = Place(connection.name, source, segment[4], *_bytes_of(segment, stream))
        for key, connections in opened.items():
            self._connections[key] = connections[-1]
        self.forget(events)
        return places

    def forget(self, events: Sequence[ConnectionEvents]) -> None:
        """Connections that are finished among these have no more packets."""
        for event in events:
            if event.finished:
                for stream in event.connection.streams:
                    if self._connections.get(stream.key) is event.connection:
                        del self._connections[stream.key]


def _bytes_of(segment: Segment, stream: Stream) -> tuple[int, int]:
    """Start and end in the stream, as that stands after the block: less than 2^31 bytes away."""
    _, _, sequence, _, flags, _, payload, _ = segment
    if payload and stream.sequence != UNKNOWN:
        distance = sequence_difference(stream.sequence, sequence + bool(flags & SYN))
        if abs(distance) <= SEQUENCE_JUMP_MAX_BYTES:
            start = stream.length + distance
            return start, start + len(payload)
    return 0, 0
