"""The side that closed a connection first: that of the first FIN, unless this FIN acknowledges a FIN of the other side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pulsarscope.model.tcp_flags import ACK, FIN
from pulsarscope.tcp.connection import acknowledged_offset
from pulsarscope.tcp.sequence import UNKNOWN

if TYPE_CHECKING:
    from pulsarscope.capture import Segment
    from pulsarscope.tcp.connection import Connection


def note_end(connection: Connection, index: int, segment: Segment) -> None:
    """Record a packet of a stream whose FIN is known. Packets may be captured out of order, with times of two clocks or resolutions."""
    _, time, _, ack, flags, *_ = segment
    stream, other = connection.streams[index], connection.streams[1 - index]
    if connection.closed_by is None or (flags & FIN and time < connection.closing_time):
        connection.closed_by, connection.closing_time = index, time
        connection.closing_acknowledges = acknowledged_offset(other, ack) if flags & ACK else UNKNOWN
        if other.fin != UNKNOWN and connection.closing_acknowledges > other.fin:
            _set_answered(connection, 1 - index)
    elif flags & FIN and connection.closed_by != index and connection.closing_acknowledges > stream.fin:
        _set_answered(connection, index)


def _set_answered(connection: Connection, index: int) -> None:
    """Set the closing side to the one whose FIN the other FIN answers; later copies of either FIN do not change that."""
    connection.closed_by, connection.closing_acknowledges = index, UNKNOWN
