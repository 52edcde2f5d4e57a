"""One TCP connection: two streams, who began it, how it ended; and the rules that tell one connection from the next on its 4-tuple."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from pulsarscope.model.flow import reverse_key
from pulsarscope.model.limits import IDLE_CONNECTION_NANOSECONDS
from pulsarscope.tcp.sequence import SEQUENCE_MASK, sequence_difference
from pulsarscope.tcp.stream import ACK, RST, SYN, UNKNOWN, Stream
from pulsarscope.tcp.stream_findings import Log

if TYPE_CHECKING:
    from pulsarscope.capture import Segment
    from pulsarscope.model.findings import Finding
    from pulsarscope.tcp.pieces import Item


_FAST_OPEN_MAX_BYTES = 65_535
"""Data on a SYN: one segment."""


class Connection(msgspec.Struct, gc=False, eq=False):
    """One TCP connection. `key`, `file`, `packet` and `start` are those of its first packet."""

    key: bytes
    name: str
    """file:packet of its first packet."""
    file: int
    packet: int
    start: int
    streams: tuple[Stream, Stream]
    """Both directions; `streams[0]` is that of the first packet."""
    end: int
    """Latest time of its packets, ns; not before `start`."""
    opened: Literal["syn", "midstream"]
    last_file: int
    last_packet: int
    last_time: int
    """Where its last packet stands, and its time."""
    ending: int = 0
    """What `end` was when it ended: late packets do not change it."""
    packets: int = 0
    """Packets of both directions, those without data and those after its end included."""
    closed: Literal["open", "fin", "rst"] = "open"
    closed_by: int | None = None
    """Who sent the first FIN or RST: index into `streams`."""
    client: int | None = None
    """Index of the client's stream; None when no SYN told, see `set_client`."""
    ended: bool = False
    """No more bytes come; late packets are still counted until it is finished."""
    finished: bool = False
    """Nothing changes any more."""
    delicate: bool = False
    """Ended or ending: each packet of both directions has to be looked at in order."""
    announced: bool = False
    """Said that it began before the capture, or did not."""
    held: int = 0
    """Memory of what waits, bytes, as the assembler accounts for it."""
    events: ConnectionEvents | None = None
    """Of this block."""

    @property
    def last(self) -> tuple[int, int, int]:
        """File, packet and time of the last packet."""
        return self.last_file, self.last_packet, self.last_time

    def set_client(self, index: int) -> None:
        """A later layer found out which side is the client."""
        self.client = index

    def endpoint(self, index: int) -> str:
        """The sender of a stream as "ip:port" or "[v6]:port"."""
        return self.streams[index].source

    def is_superseded_by(self, index: int, segment: Segment) -> bool:
        """Whether this packet on the same 4-tuple begins another connection: after an hour of silence, or by its SYN."""
        _, time, seq, ack, flags, _, _, _ = segment
        if time - self.end > IDLE_CONNECTION_NANOSECONDS:
            return True
        if not flags & SYN or flags & RST:
            return False
        own = self.streams[index]
        other = self.streams[1 - index]
        own_first = own.first_sequence()
        same = own_first == (seq + 1) & SEQUENCE_MASK
        if same or not flags & ACK:
            # A SYN of a side not heard of before is the second half of a simultaneous open, if the other half was seen.
            return not same and not (own_first == UNKNOWN and other.handshake and not self.ended)
        # A SYN|ACK with an unknown number is of this connection if it acknowledges the SYN.
        if self._acknowledges(other, ack) or (own_first == UNKNOWN and other.handshake and not self.ended):
            return False
        return self.ended or other.sequence != UNKNOWN or own_first != UNKNOWN

    def accepts_reset(self, index: int, segment: Segment) -> bool:
        """Whether a RST is of this connection: near its sender's stream, or an answer to the other side's SYN (RFC 9293 section 3.5.3)."""
        _, _, seq, ack, flags, _, _, _ = segment
        own = self.streams[index]
        other = self.streams[1 - index]
        if own.sequence != UNKNOWN:
            return own.is_near(seq)
        return not (flags & ACK and other.handshake) or self._acknowledges(other, ack)

    @staticmethod
    def _acknowledges(stream: Stream, ack: int) -> bool:
        """Whether a SYN|ACK answers this stream's SYN, which may have carried data (RFC 7413)."""
        first = stream.first_sequence()
        return first != UNKNOWN and 0 <= sequence_difference(first, ack) <= min(stream.length, _FAST_OPEN_MAX_BYTES)

    def take_handshake(self, index: int, segment: Segment) -> bool:
        """Take the sequence numbers and roles of a SYN or SYN|ACK; false when it is not of this connection."""
        _, _, seq, ack, flags, _, _, _ = segment
        own = self.streams[index]
        other = self.streams[1 - index]
        if flags & ACK and other.handshake and own.sequence == UNKNOWN and not self._acknowledges(other, ack):
            return False  # answers an older SYN, whose connection is not in the capture
        if own.sequence == UNKNOWN:
            own.sequence = (seq + 1) & SEQUENCE_MASK
        if own.first_sequence() != (seq + 1) & SEQUENCE_MASK:
            own.second_answer = (seq + 1) & SEQUENCE_MASK
            return False
        own.handshake = True
        if flags & ACK and other.sequence == UNKNOWN:
            # The SYN was lost: what it acknowledges is the client's first byte.
            other.sequence = ack
        if self.client is None:
            self.client = 1 - index if flags & ACK else index
        return True


def open_connection(key: bytes, segment: Segment, file: int) -> Connection:
    """A connection that begins with this packet, which is still to be received."""
    packet, time, _, _, flags, _, _, _ = segment
    handshake = bool(flags & SYN and not flags & RST)
    return Connection(
        key=key,
        name=f"{file}:{packet}",
        file=file,
        packet=packet,
        start=time,
        streams=(Stream(key, 0), Stream(reverse_key(key), 1)),
        end=time,
        opened="syn" if handshake else "midstream",
        last_file=file,
        last_packet=packet,
        last_time=time,
        announced=handshake,
    )


class ConnectionEvents(msgspec.Struct, gc=False, eq=False):
    """What one block brought for one connection; all moments in it are packets of `file`."""

    connection: Connection
    file: int
    items: tuple[list[Item], list[Item]]
    """Runs and gaps of `connection.streams[0]` and `[1]`, each in stream order."""
    findings: tuple[Finding, ...] = ()
    """In the order in which they came about; filled in at the end of the block."""
    opened: bool = False
    """The connection begins here."""
    ended: bool = False
    """No items will come after these."""
    finished: bool = False
    """Counters and times are final: the connection's row can be written."""
    log: Log = []
