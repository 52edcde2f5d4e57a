"""The findings of the tcp room: their words, and how many of one code a stream gives."""

from __future__ import annotations

from typing import Any

import msgspec

from pulsarscope.model.findings import CAPTURE_CODES, TCP_CODES, Finding
from pulsarscope.model.limits import STREAM_FINDINGS_MAX

_CODES = {**CAPTURE_CODES, **TCP_CODES}

Log = list[tuple[int, Finding]]
"""Findings of one connection in one block, each with the packet at which it came about."""


def finding(code: str, text: str, evidence: dict[str, Any], where: tuple[int, int, int]) -> Finding:
    """A finding at (file, packet, time); its connection is filled in when it is handed on."""
    row = _CODES[code]
    file, packet, time = where
    return Finding(row.code, row.severity, row.layer, text, evidence, row.hint, file=file, packet=packet, time=time)


class CodeCount(msgspec.Struct, gc=False):
    """How often a stream had one oddity; `rest` and `rest_bytes` are those that were not said one by one."""

    count: int = 0
    rest: int = 0
    rest_bytes: int = 0


class FindingCounts(msgspec.Struct, gc=False):
    """Counts per code of one stream."""

    tallies: dict[str, CodeCount] = {}

    def say(
        self,
        log: Log,
        code: str,
        size: int,
        text: str,
        evidence: dict[str, Any],
        where: tuple[int, int, int],
        place: tuple[int, int, int] | None = None,
    ) -> None:
        """Log the finding, or only count it when there were many. It came about at `where`, and stands at `place`, if that is another."""
        tally = self.tallies.setdefault(code, CodeCount())
        tally.count += 1
        if tally.count > STREAM_FINDINGS_MAX:
            tally.rest += 1
            tally.rest_bytes += size
        else:
            log.append((where[1], finding(code, text, evidence, place or where)))

    def report_remaining(self, log: Log, direction: int, source: str, where: tuple[int, int, int]) -> None:
        """Log one finding for each code that came too often to be said one by one."""
        for code, tally in self.tallies.items():
            if tally.rest:
                text = f"{tally.rest} more times in the stream from {source}, {tally.rest_bytes} bytes in all."
                evidence = {"direction": direction, "count": tally.rest, "bytes": tally.rest_bytes}
                log.append((where[1], finding(code, text, evidence, where)))
