"""Construction of TCP findings, and the bound on how many of one code a stream reports."""

from __future__ import annotations

from typing import Any

import msgspec

from pulsarscope.model.findings import CAPTURE_CODES, TCP_CODES, Finding
from pulsarscope.model.limits import STREAM_FINDINGS_MAX

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
    """Number of findings of one code in a stream; `remaining` and `remaining_bytes` count those not reported one by one."""

    count: int = 0
    remaining: int = 0
    remaining_bytes: int = 0


class FindingCounts(msgspec.Struct, gc=False):
    """Counts of one stream's findings, by code."""

    counts: dict[str, CodeCount] = {}

    def report(
        self,
        log: Log,
        code: str,
        size: int,
        text: str,
        evidence: dict[str, Any],
        where: Where,
        place: Where | None = None,
    ) -> None:
        """Log a finding, or only count it above STREAM_FINDINGS_MAX.

        Args:
            log: receives the finding.
            code: finding code.
            size: affected bytes.
            text: finding text.
            evidence: finding evidence.
            where: packet at which it was detected.
            place: packet at which it stands, if not at `where`.
        """
        count = self.counts.setdefault(code, CodeCount())
        count.count += 1
        if count.count > STREAM_FINDINGS_MAX:
            count.remaining += 1
            count.remaining_bytes += size
        else:
            log.append((where[1], finding(code, text, evidence, place or where)))

    def report_remaining(self, log: Log, direction: int, source: str, where: Where) -> None:
        """Log a summary finding for each code with more than STREAM_FINDINGS_MAX findings."""
        for code, count in self.counts.items():
            if count.remaining:
                text = f"{count.remaining} more in the stream from {source}, {count.remaining_bytes} bytes in total."
                evidence = {"direction": direction, "count": count.remaining, "bytes": count.remaining_bytes}
                log.append((where[1], finding(code, text, evidence, where)))
