"""Construction of TCP findings, and their counts."""

from __future__ import annotations

from typing import Any

import msgspec

from pulsarscope.model.findings import CAPTURE_CODES, TCP_CODES, Finding
from pulsarscope.model.text import plural

_CODES = {**CAPTURE_CODES, **TCP_CODES}

Log = list[tuple[int, Finding]]
"""Findings of one connection in one block, each with the packet at which it was detected."""

Where = tuple[int, int, int]
"""(file, packet, time in ns)."""


def finding(code: str, text: str, evidence: dict[str, Any], where: Where) -> Finding:
    """Return a finding of this code; the assembler sets its connection at the end of the block."""
    file, packet, time = where
    return _CODES[code].at(text, evidence, file=file, packet=packet, time=time)


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
        return f"{source} closed its receive window {plural(self.count, 'time')}, for {self.closed / 1e6:,.1f} ms in total."
