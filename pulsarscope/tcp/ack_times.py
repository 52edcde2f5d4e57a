"""Times until data are acknowledged.

A host acknowledges within a fraction of a second, however slow its programs are, so these times are those of the path between the two
hosts. One segment of a stream is measured at a time, from its packet to the first one that acknowledges it, wherever packets are captured.
After a segment out of order, the acknowledgment tells more about losses (Karn's algorithm): not how long the path is, but for how long it
held up the stream.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import msgspec

from pulsarscope.model.tcp_flags import ACK, FIN, RST, SYN
from pulsarscope.tcp.losses import longest
from pulsarscope.tcp.sequence import SEQUENCE_MASK, UNKNOWN, sequence_difference

if TYPE_CHECKING:
    from pulsarscope.capture import Segment
    from pulsarscope.tcp.stream_findings import Where

ACK_PAUSE_NANOSECONDS = 100_000_000
"""Time from the beginning of one measurement to the next: a few each second tell enough, and cost nothing."""

ACK_LATE_NANOSECONDS = 750_000_000
"""Time from which an acknowledgment is late: by satellite it takes 0.6 s, and hosts wait up to 0.5 s for data to send with it."""

ACK_BOUNDS = ACK_PAUSE_NANOSECONDS, ACK_LATE_NANOSECONDS

_packet_of = itemgetter(0)
_Late = tuple[int, int, int, bool]
"""Packet and time of a late acknowledgment, what it took in ns, and whether a segment out of order came before it."""


class LateAcks(msgspec.Struct, gc=False):
    """Late acknowledgments of a stream."""

    first: Where
    """Packet of the first one."""
    count: int = 0
    took: int = 0
    longest: int = 0
    """Their number, their total time and that of the slowest, ns."""
    times: list[tuple[int, int]] = []
    """Times and beginnings of the slowest, ns."""
    held_up: list[tuple[int, int]] = []
    """The same of those after a segment out of order, which are not counted."""


class AckTimes(msgspec.Struct, gc=False):
    """Measurement of a stream, and its late acknowledgments: kept apart, because most streams have none."""

    end: int = UNKNOWN
    """Sequence number behind the segment that is measured; -1: none is."""
    sent: int = -ACK_PAUSE_NANOSECONDS
    """Time of that segment, or the previous one, ns."""
    again: bool = False
    """True when a segment out of order came after it."""
    bare: bool = False
    """True when a packet without data acknowledged one: the capture has such packets."""
    late: LateAcks | None = None
    ahead: tuple[int, int] | None = None
    """Bytes that the sender had sent beyond the stream according to its latest packet, without data, and the time from which on (ns)."""

    def send(self, segment: Segment, acknowledged: int, *, in_order: bool) -> None:
        """Take a packet of the stream; `acknowledged`: number in the other side's packet before it, UNKNOWN for none."""
        _, time, seq, _, flags, _, payload, cut, _, _ = segment
        if not (payload or cut) or flags & (SYN | RST):
            return
        if not in_order:
            self.again = True
            if len(payload) + cut <= 1:  # a keep-alive, as the compiled reader takes it
                self.end = UNKNOWN
        elif self.end == UNKNOWN and time >= self.sent + ACK_PAUSE_NANOSECONDS:
            end = (seq + len(payload) + cut) & SEQUENCE_MASK
            if acknowledged == UNKNOWN or sequence_difference(end, acknowledged) < 0:  # else the acknowledgment was captured first
                self.end, self.sent, self.again = end, time, False

    def answer(self, segment: Segment) -> _Late | None:
        """Take a packet of the other side; return the acknowledgment if it is late."""
        packet, time, _, ack, flags, _, payload, cut, _, _ = segment
        if self.end == UNKNOWN or flags & (SYN | RST) or not flags & ACK or sequence_difference(self.end, ack) < 0:
            return None
        self.end = UNKNOWN
        self.bare = self.bare or not (payload or cut or flags & FIN)
        took = time - self.sent
        return (packet, time, took, self.again) if took >= ACK_LATE_NANOSECONDS else None

    def add(self, late: _Late, file: int) -> None:
        """Count a late acknowledgment."""
        packet, time, took, again = late
        acks = self.late = self.late or LateAcks((file, packet, time))
        if again:
            acks.held_up = longest([*acks.held_up, (took, time - took)])
            return
        acks.first = acks.first if acks.count else (file, packet, time)
        acks.times = longest([*acks.times, (took, time - took)])
        acks.count += 1
        acks.took += took
        acks.longest = max(acks.longest, took)

    def follow(self, segments: Sequence[Segment], answers: Sequence[Segment], acknowledged: int) -> list[_Late]:
        """Take segments of the stream, all in order, and those of the other side; return the late acknowledgments.

        `acknowledged`: number that the other side acknowledged before these packets, UNKNOWN for none.
        """
        if not segments and hasattr(answers, "cut"):
            segments = answers.cut(0)[0]  # none of the compiled reader's: it makes no copies of payloads
        compiled: Any = getattr(segments, "acknowledged", None)
        if compiled is not None and (not answers or type(answers) is type(segments)):
            sent = self.sent if self.again else None
            (self.end, self.sent, self.bare), found = compiled(answers or None, acknowledged, (self.end, self.sent, self.bare), ACK_BOUNDS)
            self.again = self.sent == sent
            return [(packet, time, took, time - took == sent) for packet, time, took in found]
        place, reply = 0, 0
        late: list[_Late] = []
        while True:
            if self.end == UNKNOWN:
                while place < len(segments) and self.end == UNKNOWN:
                    segment, place = segments[place], place + 1
                    if segment[1] >= self.sent + ACK_PAUSE_NANOSECONDS:
                        reply = bisect_right(answers, segment[0], key=_packet_of)
                        ack, flags = answers[reply - 1][3:5] if reply else (acknowledged, ACK)
                        self.send(segment, ack if flags & ACK else UNKNOWN, in_order=True)
                if self.end == UNKNOWN:
                    return late
            while self.end != UNKNOWN:
                if reply >= len(answers):
                    return late
                if (found := self.answer(answers[reply])) is not None:
                    late.append(found)
                reply += 1
            place = bisect_right(segments, answers[reply - 1][0], key=_packet_of)
