"""Connections that opened late: their SYN, or its answer, had to be sent again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pulsarscope.model.tcp_flags import ACK
from pulsarscope.model.text import duration, plural
from pulsarscope.tcp.copies import is_copy
from pulsarscope.tcp.sequence import SEQUENCE_MASK
from pulsarscope.tcp.stream_findings import DelayedOpening, finding

if TYPE_CHECKING:
    from pulsarscope.capture import Segment
    from pulsarscope.tcp.connection import Connection

_AGAIN_NANOSECONDS_MIN = 900_000_000
"""Time after which a packet of the handshake is one that was sent again (after 1 s, RFC 6298), and not one that was captured twice."""


def note_handshake_again(connection: Connection, index: int, segment: Segment) -> None:
    """Record a SYN, or its answer, that was sent again while its connection was to open."""
    _, time, seq, _, flags, *_ = segment
    stream, known = connection.streams[index], connection.delayed
    if connection.opened != "syn" or not stream.handshake or stream.first_sequence() != (seq + 1) & SEQUENCE_MASK:
        return
    if time - (connection.start if known is None else known.latest) < _AGAIN_NANOSECONDS_MIN or is_copy(segment, stream.newest):
        return
    known = connection.delayed = known or DelayedOpening()
    if flags & ACK:
        known.answers += 1
    else:
        known.syns += 1
    known.latest = time


def report_delayed_opening(connection: Connection) -> None:
    """Report that a connection with data opened late; what never opened has no protocol, and is for rules on attempts."""
    known, connection.delayed = connection.delayed, None
    if known is None or not any(stream.segments for stream in connection.streams):
        return
    client = connection.client or 0
    sent = [f"{connection.endpoint(client)} sent its SYN again {plural(known.syns, 'time')}"] if known.syns else []
    if known.answers:
        sent.append(f"{connection.endpoint(1 - client)} sent its answer to the SYN again {plural(known.answers, 'time')}")
    took = known.latest - connection.start
    evidence = {"syns": known.syns, "answers": known.answers, "took_ns": took}
    text = f"{' and '.join(sent)}: the connection was not open after {duration(took)}."
    where = (connection.file, connection.packet, connection.start)
    connection.streams[client].log.append((connection.last_packet, finding("connect-delayed", text, evidence, where)))
