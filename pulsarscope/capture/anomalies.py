"""Anomalies in the packets of one file, counted and reported as one finding per kind, placed at the first packet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from pulsarscope.model.findings import CAPTURE_CODES, Finding
from pulsarscope.model.text import plural


class AnomalyCount(msgspec.Struct):
    """Anomalies of one kind in one file; `total` and `largest` are in the unit of the kind: bytes cut, nanoseconds stepped back."""

    code: str
    group: str | None
    first_packet: int
    first_time: int
    packets: int = 0
    total: int = 0
    largest: int = 0
    reasons: dict[str, int] = {}

    def add(self, reason: str | None, amount: int, packets: int) -> None:
        """Count one more packet, or several identical ones."""
        self.packets += packets
        self.total += amount * packets
        self.largest = max(self.largest, amount)
        if reason is not None:
            self.reasons[reason] = self.reasons.get(reason, 0) + packets

    def add_later(self, later: AnomalyCount) -> None:
        """Add the counts of a later part of the file."""
        self.packets += later.packets
        self.total += later.total
        self.largest = max(self.largest, later.largest)
        for reason, packets in later.reasons.items():
            self.reasons[reason] = self.reasons.get(reason, 0) + packets


def _reasons(count: AnomalyCount) -> str:
    return ", ".join(f"{reason} {number:,}" for reason, number in sorted(count.reasons.items()))


def _with_bytes(count: AnomalyCount) -> tuple[str, dict[str, Any]]:
    text = f"{plural(count.packets, 'packet')} cut when captured: {plural(count.total, 'byte')} missing."
    return text, {"packets": count.packets, "bytes": count.total}


def _with_link_type(count: AnomalyCount) -> tuple[str, dict[str, Any]]:
    text = f"{plural(count.packets, 'packet')} of link type {count.group} not decoded."
    return text, {"packets": count.packets, "link_type": count.group}


def _with_step(count: AnomalyCount) -> tuple[str, dict[str, Any]]:
    text = f"{plural(count.packets, 'packet')} older than the packet before, by up to {count.largest / 1e9:.9f} s."
    return text, {"packets": count.packets, "largest_step_ns": count.largest}


def _damaged_blocks(count: AnomalyCount) -> tuple[str, dict[str, Any]]:
    text = f"{plural(count.packets, 'damaged block')} not read, or read in part: {_reasons(count)}."
    return text, {"blocks": count.packets, "reasons": dict(sorted(count.reasons.items()))}


def _with_reasons(condition: str) -> Callable[[AnomalyCount], tuple[str, dict[str, Any]]]:
    def describe(count: AnomalyCount) -> tuple[str, dict[str, Any]]:
        return (
            f"{plural(count.packets, 'packet')} {condition}: {_reasons(count)}.",
            {"packets": count.packets, "reasons": dict(sorted(count.reasons.items()))},
        )

    return describe


_DESCRIPTIONS: Mapping[str, Callable[[AnomalyCount], tuple[str, dict[str, Any]]]] = {
    "snaplen-truncated": _with_bytes,
    "unknown-link-type": _with_link_type,
    "time-backwards": _with_step,
    "time-invalid": _with_reasons("without a valid time"),
    "packet-malformed": _with_reasons("with an inconsistent header"),
    "packet-length-odd": _with_reasons("with inconsistent lengths"),
    "fragment-incomplete": _with_reasons("not decoded because other fragments are missing"),
    "fragment-overlap": _with_reasons("with overlapping fragments that differ"),
    "nesting-too-deep": _with_reasons("not decoded because of too many nested tags, headers or tunnels"),
    "capture-malformed": _damaged_blocks,
}


class AnomalyCounts:
    """Anomalies of one file, by code and group."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._counts: dict[tuple[str, str | None], AnomalyCount] = {}
        self.packets_alike = 1
        """Number of identical packets that the decoded one stands for."""

    def add(self, code: str, packet: int, time: int, *, reason: str | None = None, amount: int = 0, group: str | None = None) -> None:
        """Count an anomaly at a packet and its time in ns, with an amount in the unit of the code.

        Each `reason` is counted separately within the finding of the code; each `group`, such as a link type, has a finding of its own.
        """
        if (count := self._counts.get((code, group))) is None:
            count = self._counts[code, group] = AnomalyCount(code, group, packet, time)
        count.add(reason, amount, self.packets_alike)

    @property
    def counts(self) -> list[AnomalyCount]:
        """Return the counts in the order of their first packets."""
        return [*self._counts.values()]

    def resume(self, counts: Iterable[AnomalyCount]) -> None:
        """Replace the counts with those of the packets before a portion."""
        self._counts.clear()
        self.add_later(counts)

    def add_later(self, counts: Iterable[AnomalyCount]) -> None:
        """Add the counts of a later part of the file."""
        for count in counts:
            if (known := self._counts.get((count.code, count.group))) is None:
                self._counts[count.code, count.group] = msgspec.structs.replace(count, reasons=dict(count.reasons))
            else:
                known.add_later(count)

    def findings(self) -> list[Finding]:
        """Return one finding per code and group, in the order of their first packets."""
        findings = []
        for (code, _), count in self._counts.items():
            text, evidence = _DESCRIPTIONS[code](count)
            findings.append(
                CAPTURE_CODES[code].at(text, evidence, file=self._file, packet=count.first_packet or None, time=count.first_time)
            )
        return findings
