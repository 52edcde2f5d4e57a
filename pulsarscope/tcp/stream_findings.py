"""Construction and counts of TCP findings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from pulsarscope.model.digests import sha256_hex
from pulsarscope.model.findings import CAPTURE_CODES, TCP_CODES, Finding
from pulsarscope.model.text import duration, plural
from pulsarscope.tcp.losses import Losses

if TYPE_CHECKING:
    from pulsarscope.tcp.reorder_buffer import Overlap

_CODES = {**CAPTURE_CODES, **TCP_CODES}

Log = list[tuple[int, Finding]]
"""Findings of one connection in one block, each with the packet at which it was detected."""

Where = tuple[int, int, int]
"""(file, packet, time in ns)."""

STALL_RETRANSMISSIONS_MIN = 3
"""Retransmissions of the same bytes that show that nothing gets through; one or two are everyday loss."""

STALL_NANOSECONDS_MIN = 2_000_000_000
"""Time between the first and the last of them: the timer doubles from at least 200 ms, and a failover of a hop takes a second."""

STALL_LATER_RETRANSMISSIONS_MIN = 2
STALL_LATER_NANOSECONDS_MIN = 5_000_000_000
"""The same for a capture that begins in the meantime: a timer that runs for this long has doubled before."""


def finding(code: str, text: str, evidence: dict[str, Any], where: Where, sender: str | None = None) -> Finding:
    """Return a finding of this code, on the stream of a sender; the assembler sets its connection at the end of the block."""
    file, packet, time = where
    made = _CODES[code].at(text, evidence, file=file, packet=packet, time=time)
    made.sender = sender
    return made


def overlap_evidence(conflict: Overlap, size: int, direction: int, packet: int) -> dict[str, Any]:
    """Return the evidence for a packet that differs in `size` bytes from an earlier one."""
    return {
        "direction": direction,
        "offset": conflict.offset,
        "size": size,
        "first_file": conflict.file,
        "first_packet": conflict.packet,
        "first_sha256": sha256_hex(conflict.first)[:16],
        "packet": packet,
        "sha256": sha256_hex(conflict.second)[:16],
    }


class CodeCount(msgspec.Struct, gc=False):
    """Number of findings of one code in a stream; `unreported_bytes` are those of findings beyond STREAM_FINDINGS_MAX."""

    count: int = 0
    unreported_bytes: int = 0


class ClosedWindow(msgspec.Struct, gc=False):
    """Closed receive window: first place, number of times, time of the last close, and total duration in ns."""

    first: Where
    count: int = 0
    since: int = -1
    closed: int = 0

    def close(self, time: int) -> None:
        """Record that the window closes."""
        self.count += 1
        self.since = time

    def open(self, time: int) -> None:
        """Record that the window opens."""
        self.closed += max(0, time - self.since)

    def text(self, source: str) -> str:
        """Return the sentence about a closed window of this sender."""
        return f"{source} closed its receive window {plural(self.count, 'time')}, for {duration(self.closed)} in total."


class DelayedOpening(msgspec.Struct, gc=False):
    """What was sent again in a handshake: numbers of packets, and the time of the latest, ns."""

    syns: int = 0
    answers: int = 0
    latest: int = 0


class Retransmissions(msgspec.Struct, gc=False):
    """Retransmissions that begin at the same offset of a stream."""

    offset: int
    size: int
    first: Where
    count: int = 1
    took: int = 0
    """Time from the first retransmission to the latest, ns."""

    @property
    def is_stall(self) -> bool:
        """Return True when the bytes did not get through for a long time."""
        if self.count >= STALL_RETRANSMISSIONS_MIN:
            return self.took >= STALL_NANOSECONDS_MIN
        return self.count >= STALL_LATER_RETRANSMISSIONS_MIN and self.took >= STALL_LATER_NANOSECONDS_MIN


class Resending(msgspec.Struct, gc=False):
    """Retransmissions of a stream."""

    losses: Losses = msgspec.field(default_factory=Losses)

    latest: Retransmissions | None = None
    stall: Retransmissions | None = None
    """The longest stall before the latest run."""

    def add(self, offset: int, size: int, where: Where) -> None:
        """Record a retransmission."""
        if self.latest is not None and offset == self.latest.offset:
            self.latest.count += 1
            self.latest.took = max(self.latest.took, where[2] - self.latest.first[2])
        else:
            self.stall = self.longest()
            self.latest = Retransmissions(offset, size, where)

    def longest(self) -> Retransmissions | None:
        """Return the longest stall, None when there was none."""
        if self.latest is not None and self.latest.is_stall and (self.stall is None or self.latest.took > self.stall.took):
            return self.latest
        return self.stall
