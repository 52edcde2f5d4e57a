"""Packets that are not of the connection that they seem to belong to, because a 4-tuple is used again and no handshake is in the capture.

Data behind the end of a stream, or outside any window of it, begin another connection when the peer acknowledges them: after a close also
when they, or what they acknowledge, lie outside the windows of the closed connection. Until then they are held.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pulsarscope.model.limits import (
    OUT_OF_ORDER_MAX_BYTES,
    OUT_OF_ORDER_MAX_SEGMENTS,
    RESET_WINDOW_BYTES,
    SEQUENCE_JUMP_MAX_BYTES,
)
from pulsarscope.tcp.reorder_buffer import BUFFERED_PIECE_BYTES
from pulsarscope.tcp.sequence import SEQUENCE_MASK, sequence_difference
from pulsarscope.tcp.stream import ACK, RST, SYN, UNKNOWN, Stream

if TYPE_CHECKING:
    from pulsarscope.capture import Segment
    from pulsarscope.tcp.connection import Connection


class Strays(msgspec.Struct, gc=False, eq=False):
    """Segments held, and the counts of the connection before the first of them."""

    packets: int
    end: int
    dropped: tuple[tuple[int, int], tuple[int, int]]
    """`dropped` and `late` of both streams."""
    segments: list[tuple[bytes, Segment, int]] = []
    """With their flow keys and files."""
    ends: tuple[set[int], set[int]] = msgspec.field(default_factory=lambda: (set(), set()))
    """Sequence numbers behind the segments of each stream."""
    size: int = 0

    @property
    def cost(self) -> int:
        """Return the approximate memory in bytes."""
        return self.size + BUFFERED_PIECE_BYTES * len(self.segments)

    def hold(self, stream: Stream, segment: Segment, file: int) -> None:
        """Keep a segment of a stream, as far as the bounds allow."""
        _, _, seq, _, _, _, payload, cut, _, _ = segment
        if self.size < OUT_OF_ORDER_MAX_BYTES and len(self.segments) < OUT_OF_ORDER_MAX_SEGMENTS:
            self.segments.append((stream.key, segment, file))
            self.size += len(payload)
            end = seq + len(payload) + cut
            self.ends[stream.index].update((end & SEQUENCE_MASK, (end + 1) & SEQUENCE_MASK))  # a FIN may follow


def is_stray(connection: Connection, index: int, segment: Segment) -> bool:
    """Return True for data that lie behind the end of their stream, or outside any window of it."""
    _, _, seq, ack, flags, _, payload, cut, _, _ = segment
    own, other = connection.streams[index], connection.streams[1 - index]
    if not payload or flags & (SYN | RST) or own.sequence == UNKNOWN:
        return False
    distance = sequence_difference(own.sequence, seq)
    if connection.ended or own.ended:
        return distance + len(payload) + cut > 0
    if seq == own.alternative_start and not own.length:
        return False
    if not _is_within(own, distance):
        return True
    if distance <= RESET_WINDOW_BYTES or not flags & ACK or other.sequence == UNKNOWN:
        return False
    return not _is_within(other, sequence_difference(other.sequence, ack))


def begins_another(connection: Connection, index: int, segment: Segment) -> bool:
    """Return True when a packet shows that it, and the strays before it, are of another connection."""
    _, _, seq, ack, flags, _, payload, _, _, _ = segment
    if flags & (SYN | RST):
        return False
    own, other = connection.streams[index], connection.streams[1 - index]
    if connection.strays is not None and flags & ACK and ack in connection.strays.ends[1 - index]:
        return True
    if not (connection.ended and payload):
        return False
    if own.sequence == UNKNOWN or not _lowest(own) <= sequence_difference(own.sequence, seq) <= RESET_WINDOW_BYTES:
        return True
    if not flags & ACK or other.sequence == UNKNOWN:
        return False
    return not _lowest(other) <= sequence_difference(other.sequence, ack) <= (other.fin != UNKNOWN)


def _is_within(stream: Stream, distance: int) -> bool:
    """Return True when data at a distance from the next byte of an open stream can be its own."""
    return _lowest(stream) <= distance <= SEQUENCE_JUMP_MAX_BYTES


def _lowest(stream: Stream) -> int:
    """Return how far behind the next byte of a stream its first ones lie, and those that a retransmission may bring again."""
    return -stream.length - RESET_WINDOW_BYTES
