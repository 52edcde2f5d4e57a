"""Segments of a connection that were captured twice: whether there are many, and how much later the copies come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pulsarscope.model.limits import COPY_TIMES_MAX, DUPLICATE_SEGMENTS_PERCENT
from pulsarscope.tcp.copies import Copies, is_copy

if TYPE_CHECKING:
    from pulsarscope.capture import Segment
    from pulsarscope.tcp.connection import Connection


def are_many(connection: Connection, copies: int) -> bool:
    """Return True when enough segments of a connection have copies to be worth a finding."""
    return copies > 0 and copies * 100 >= DUPLICATE_SEGMENTS_PERCENT * sum(stream.segments for stream in connection.streams)


def count_duplicates(connection: Connection) -> None:
    """When there are many copies, count segments that soon followed equal ones as copies instead of retransmissions."""
    streams = connection.streams
    if are_many(connection, sum(stream.duplicates + (stream.copies.count if stream.copies else 0) for stream in streams)):
        for stream in streams:
            if stream.duplicates:
                stream.copies = stream.copies or Copies()
                stream.copies.count += stream.duplicates
                stream.retransmitted -= stream.duplicates
                stream.segments -= stream.duplicates


def note_handshake_copy(connection: Connection, index: int, segment: Segment) -> None:
    """Record how much later than the first SYN its copy came."""
    stream = connection.streams[index]
    if (
        index == 0
        and stream.handshake
        and connection.opened == "syn"
        and stream.first_sequence() == (segment[2] + 1) & 0xFFFF_FFFF
        and is_copy(segment, stream.newest)
    ):
        stream.copies = stream.copies or Copies()
        stream.copies.times.insert(0, segment[1] - connection.start)
        del stream.copies.times[COPY_TIMES_MAX:]


def typical_time(connection: Connection) -> int | None:
    """Return the typical delay of the copies of a connection's packets, ns; None if unknown."""
    times = sorted(time for stream in connection.streams if stream.copies for time in stream.copies.times)
    return times[(len(times) - 1) // 2] if times else None  # the median; importing `statistics` would take a hundredth of the start
