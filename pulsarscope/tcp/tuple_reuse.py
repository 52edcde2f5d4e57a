"""Packets that belong to a later connection than it seems, because a 4-tuple is reused and the capture lacks the handshake.

Data after the end of a stream, or outside all its windows, begin another connection when the peer acknowledges them. After a close, they
also do so when they, or the bytes that they acknowledge, are outside the windows of the closed connection. Until then they are held.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from pulsarscope.model.limits import RESET_WINDOW_BYTES, SEQUENCE_JUMP_MAX_BYTES
from pulsarscope.model.tcp_flags import ACK, RST, SYN
from pulsarscope.tcp.ack_times import AckTimes
from pulsarscope.tcp.sequence import UNKNOWN, sequence_difference
from pulsarscope.tcp.stream import Stream

if TYPE_CHECKING:
    from pulsarscope.capture import Segment
    from pulsarscope.tcp.connection import Connection


def is_stray(connection: Connection, index: int, segment: Segment) -> bool:
    """Return True for data after the end of its stream, or outside all its windows."""
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
    # Within one connection, a later packet never acknowledges less.
    acknowledges_less = own.acknowledges != UNKNOWN and sequence_difference(own.acknowledges, ack) < 0
    return acknowledges_less or not _is_within(other, sequence_difference(other.sequence, ack))


def begins_another(connection: Connection, index: int, segment: Segment) -> bool:
    """Return True when a packet shows that it and the strays before it belong to another connection."""
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


def note_acknowledgment(stream: Stream, segments: Sequence[Segment]) -> None:
    """Record what the sender of a stream acknowledges, but not in a distant segment without data: it may be of another connection.

    `segments`: its latest ones; any data among them are delivered.
    """
    _, _, seq, ack, flags, _, payload, *_ = segments[-1]
    ahead = 0 if payload or stream.sequence in (seq, UNKNOWN) else sequence_difference(stream.sequence, seq)
    if ahead > 1:  # one may be a FIN
        times = stream.ack_times = stream.ack_times or AckTimes()
        same = [*takewhile(lambda each: not each[6] and sequence_difference(stream.sequence, each[2]) > 1, reversed(segments))]
        times.ahead = ahead, same[-1][1] if times.ahead is None or len(same) < len(segments) else times.ahead[1]
    elif stream.ack_times is not None:
        stream.ack_times.ahead = None
    if abs(ahead) <= RESET_WINDOW_BYTES:
        stream.acknowledges = ack if flags & ACK else UNKNOWN


def take_back(stream: Stream, segment: Segment, file: int) -> None:
    """Remove a stray that waits in a stream behind a hole: it belongs to another connection."""
    packet, _, seq, _, _, _, payload, cut, _, _ = segment
    if stream.buffer is not None:
        end = stream.length + sequence_difference(stream.sequence, seq) + len(payload)
        stream.out_of_order -= stream.buffer.forget(file, packet, (end, end + cut))
        stream.buffer = stream.buffer if len(stream.buffer) else None


def _is_within(stream: Stream, distance: int) -> bool:
    """Return True when data at a distance from the next byte of an open stream may belong to it."""
    return _lowest(stream) <= distance <= SEQUENCE_JUMP_MAX_BYTES


def _lowest(stream: Stream) -> int:
    """Return the lowest distance, from the next byte of a stream, at which a retransmission in it may begin."""
    return -stream.length - RESET_WINDOW_BYTES
