"""Resets that did not come from the host in whose name they were sent: a device between the two ends made them.

The end of a connection that it knows announces itself by a FIN, or by a RST with an ACK that has the sender's timestamps and numbers.
A RST without an ACK answers a packet of an unknown connection (RFC 9293 section 3.5.2), or of one whose process is gone while its FIN
waits behind unsent data. No host continues after its own RST.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pulsarscope.model.findings import RESET_BETWEEN
from pulsarscope.model.tcp_flags import ACK
from pulsarscope.tcp.copies import is_foreign
from pulsarscope.tcp.sequence import UNKNOWN, sequence_difference

if TYPE_CHECKING:
    from pulsarscope.capture import Segment
    from pulsarscope.tcp.connection import Connection
    from pulsarscope.tcp.stream import Stream

_CONTINUES_MAX_BYTES = 65_535
"""Distance from the end of a stream within which data continue it; the first sequence number of another connection is random."""

_FLIGHT_NANOSECONDS_MAX = 2_000_000_000
"""Time for which data of a sender that has not got its peer's RST may follow: a round trip, and a retransmission (RFC 6298)."""

Note = tuple[str, str, dict[str, Any]]
"""Code, text and evidence of a finding."""


def foreign_reset(connection: Connection, index: int, segment: Segment, *, was_sending: bool) -> Note | None:
    """Return the finding about a RST in the middle of a connection that its supposed sender, the one of a stream, did not make.

    `was_sending`: RSTs before it name an earlier place in the stream, or the other side's window is closed. When the process of a client
    exits, its host sends the rest, and answers with such RSTs what it gets meanwhile.
    """
    own, other = connection.streams[index], connection.streams[1 - index]
    if not own.segments or own.fin != UNKNOWN or other.fin != UNKNOWN:
        return None
    if not segment[4] & ACK:
        if index == connection.client and was_sending:
            return None
        proof, reason = "acknowledges nothing", "it acknowledges nothing, like that of a host that does not know the connection"
    elif is_foreign(segment, own.newest):
        proof, reason = "other numbers", "it has no timestamp, and its IP identification does not continue that host's"
    else:
        return None
    connection.foreign = True
    text = f"A RST in the name of {own.source} ended the connection: {reason}."
    return RESET_BETWEEN, text, {"direction": index, "host": own.source, "proof": proof}


def begun_after(connection: Connection, segments: Iterable[tuple[bytes, Segment]]) -> Note:
    """Return the finding about the packets, with their flow keys, that follow a connection on the same ports without a handshake."""
    evidence: dict[str, Any] = {"connection": connection.name, "closed": connection.closed}
    if connection.closed_by is not None and connection.closing_how == "rst" and _is_continued(connection, connection.closed_by, segments):
        host = connection.endpoint(connection.closed_by)
        text = f"Packets of connection {connection.name} follow the RST in the name of {host} that ended it."
        return RESET_BETWEEN, text, {**evidence, "connections": [connection.name], "host": host, "proof": "continued"}
    how = {"open": "did not end in the capture", "fin": "ended with FINs", "rst": "ended with a RST"}[connection.closed]
    text = f"Connection {connection.name} {how}, and packets of another, without its handshake, follow on the same ports."
    return "data-after-close", text, evidence


def was_in_flight(connection: Connection, stream: Stream) -> bool:
    """Return True when the bytes after the end of a stream were on their way when its receiver ended the connection.

    A host without unread data sends a FIN when its application exits, and answers what then arrives with RSTs.
    """
    by_receiver = connection.closed == "rst" and connection.closed_by == 1 - stream.index
    by_receiver = by_receiver and (stream.fin == UNKNOWN or stream.late <= stream.missing)  # a FIN may overtake data
    acknowledged = connection.streams[1 - stream.index].acknowledges
    if acknowledged != UNKNOWN and sequence_difference(stream.sequence, acknowledged) > 0:
        return False  # the RST was captured before data that it acknowledges
    return by_receiver and not connection.foreign and connection.end - connection.ending <= _FLIGHT_NANOSECONDS_MAX


def _is_continued(connection: Connection, closed_by: int, segments: Iterable[tuple[bytes, Segment]]) -> bool:
    """Return True when the named sender of a RST continues at its sequence number, or before it if another host sent it."""
    stream = connection.streams[closed_by]
    lowest = -_CONTINUES_MAX_BYTES if connection.foreign else 0
    return stream.segments > 0 and any(
        key == stream.key and lowest <= sequence_difference(stream.sequence, segment[2]) <= _CONTINUES_MAX_BYTES
        for key, segment in segments
    )
