"""Packets captured twice: how copies of one packet, from two vantage points or interfaces, are distinguished from retransmissions.

A sender numbers its packets: by TCP timestamps (RFC 7323), and by the IPv4 identification. A retransmission is sent after the bytes that
are already in the stream, so its numbers are higher; those of a copy are at most those of the newest data, regardless of its time.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

import msgspec

from pulsarscope.model.limits import COPY_TIMES_MAX, DUPLICATE_NANOSECONDS
from pulsarscope.tcp.sequence import sequence_difference

if TYPE_CHECKING:
    from pulsarscope.capture import Segment

_head = Struct("<HI")

Identity = bytes
"""Identification, payload size and options of a segment, packed: each stream keeps one."""

UNKNOWN_IDENTITY: Identity = bytes(_head.size)

_TIMESTAMP, _NO_OPERATION = 8, 1
_ALIGNED = b"\1\1\x08\x0a"
_SEGMENT_MAX_BYTES = 1460
"""Largest segment on Ethernet; a capture on the sender has larger ones, which the network card splits and numbers individually."""


_NEAR = 1024
"""Largest meaningful distance between identifications of a sender. An identification of 0 counts only within this distance."""


def identity(identification: int, options: bytes, size: int) -> Identity:
    """Return the identity of a segment with `size` bytes of payload."""
    return _head.pack(identification & 0xFFFF, size) + options


def is_copy(segment: Segment, newest: Identity) -> bool | None:
    """Return True when a segment of old bytes was sent no later than the newest data; None if neither number tells."""
    identification: int
    size: int
    identification, size = _head.unpack_from(newest)
    options = newest[_head.size :]
    before, now = _timestamp(options), _timestamp(segment[9])
    if before is not None and now is not None and before != now:
        return sequence_difference(before, now) < 0
    ahead = (segment[8] - identification + 0x8000 & 0xFFFF) - 0x8000
    # 0 often means that there is no number: it counts only next to a similar one.
    if ahead < _NEAR and ((identification and segment[8]) or (identification != segment[8] and ahead > -_NEAR)):
        return ahead <= size // (_SEGMENT_MAX_BYTES + 1)
    return None if before is None or now is None else True


def is_foreign(segment: Segment, newest: Identity) -> bool:
    """Return True when a segment lacks the timestamps of its stream's newest data, and its identification does not continue theirs."""
    identification: int = _head.unpack_from(newest)[0]
    lacks_timestamp = _timestamp(newest[_head.size :]) is not None and _timestamp(segment[9]) is None
    return lacks_timestamp and identification > 0 and not 0 < (segment[8] - identification & 0xFFFF) < _NEAR


class Copies(msgspec.Struct, gc=False):
    """Copies among the segments of a stream, captured again in another file or at another point."""

    count: int = 0
    proven: int = 0
    """Copies proven by the sender's numbers; the others are in another file, or after the end of their connection."""
    times: list[int] = []
    """Delays of the first copies after their originals, ns."""

    def add(self, later: int | None, *, proven: bool) -> None:
        """Count a copy; `later` is None when the time of the original is not known."""
        self.count += 1
        self.proven += proven
        if later is not None and len(self.times) < COPY_TIMES_MAX:
            self.times.append(later)


def are_apart(time: int | None) -> bool:
    """Return True when copies come too late to be from interfaces of one host."""
    return time is None or abs(time) > DUPLICATE_NANOSECONDS


def option(options: bytes, kind: int) -> bytes:
    """Return the first TCP option of a kind, with its kind and length, as far as captured; empty if there is none."""
    position = 4  # after checksum and urgent pointer
    while position + 1 < len(options) and options[position]:
        if options[position] == _NO_OPERATION:
            position += 1
            continue
        size = options[position + 1]
        if options[position] == kind or size < 2:
            return options[position : position + size]
        position += size
    return b""


def _timestamp(options: bytes) -> int | None:
    """Return the TSval in the rest of a TCP header, None if there is none."""
    if options.startswith(_ALIGNED, 4):
        return int.from_bytes(options[8:12], "big") if len(options) >= 12 else None
    found = option(options, _TIMESTAMP)
    return int.from_bytes(found[2:6], "big") if len(found) >= 6 and found[1] == 10 else None
