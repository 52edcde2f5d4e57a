"""Counts what the packets of one file do wrong, and sums it up: one finding per kind, with exact numbers and the first place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from pulsarscope.findings import CAPTURE_CODES, Finding


def capture_finding(
    code: str,
    text: str,
    evidence: dict[str, Any],
    *,
    file: int | None = None,
    packet: int | None = None,
    time: int | None = None,
) -> Finding:
    """A finding of the capture layer, with the severity and hint of its code."""
    row = CAPTURE_CODES[code]
    return Finding(code, row.severity, row.layer, text, evidence, row.hint, file, packet, None, time)


class Count:
    """One kind of event in one file. `amount` is what the kind measures: bytes cut, nanoseconds stepped back."""

    __slots__ = ("first_packet", "first_time", "group", "largest", "packets", "reasons", "total")

    def __init__(self, packet: int, time: int, group: str | None) -> None:
        self.first_packet = packet
        self.first_time = time
        self.group = group
        self.packets = 0
        self.total = 0
        self.largest = 0
        self.reasons: Counter[str] = Counter()

    def add(self, reason: str | None, amount: int) -> None:
        """Counts one more packet."""
        self.packets += 1
        self.total += amount
        self.largest = max(self.largest, amount)
        if reason is not None:
            self.reasons[reason] += 1


def plural(number: int, noun: str) -> str:
    """A number with its noun: 1 packet, 2,000 packets."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _reasons(count: Count) -> str:
    return ", ".join(f"{reason} {number:,}" for reason, number in sorted(count.reasons.items()))


def _with_bytes(count: Count) -> tuple[str, dict[str, Any]]:
    text = f"{plural(count.packets, 'packet')} cut when captured: {plural(count.total, 'byte')} missing."
    return text, {"packets": count.packets, "bytes": count.total}


def _with_link_type(count: Count) -> tuple[str, dict[str, Any]]:
    text = f"{plural(count.packets, 'packet')} of link type {count.group} not decoded."
    return text, {"packets": count.packets, "link_type": count.group}


def _with_step(count: Count) -> tuple[str, dict[str, Any]]:
    text = f"{plural(count.packets, 'packet')} older than the packet before, by up to {count.largest / 1e9:.6f} s."
    return text, {"packets": count.packets, "largest_step_ns": count.largest}


def _damaged_blocks(count: Count) -> tuple[str, dict[str, Any]]:
    text = f"{plural(count.packets, 'damaged block')} not read, or not in full: {_reasons(count)}."
    return text, {"blocks": count.packets, "reasons": dict(sorted(count.reasons.items()))}


def _with_reasons(what: str) -> Callable[[Count], tuple[str, dict[str, Any]]]:
    def describe(count: Count) -> tuple[str, dict[str, Any]]:
        return (
            f"{plural(count.packets, 'packet')} {what}: {_reasons(count)}.",
            {"packets": count.packets, "reasons": dict(sorted(count.reasons.items()))},
        )

    return describe


_DESCRIPTIONS: Mapping[str, Callable[[Count], tuple[str, dict[str, Any]]]] = {
    "snaplen-truncated": _with_bytes,
    "unknown-link-type": _with_link_type,
    "time-backwards": _with_step,
    "time-invalid": _with_reasons("without a valid time"),
    "packet-malformed": _with_reasons("with a header that contradicts itself"),
    "packet-length-odd": _with_reasons("with lengths that contradict each other or the file header"),
    "fragment-incomplete": _with_reasons("not decoded for want of other fragments"),
    "fragment-overlap": _with_reasons("with fragments that bring other bytes than those before"),
    "nesting-too-deep": _with_reasons("not decoded because of too many tags, headers or tunnels"),
    "capture-malformed": _damaged_blocks,
}


class Tally:
    """The counts of one file."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._counts: dict[tuple[str, str | None], Count] = {}

    def add(self, code: str, packet: int, time: int, *, reason: str | None = None, amount: int = 0, group: str | None = None) -> None:
        """Counts one event at a packet. `group` splits a code into several findings (link types), `reason` only counts apart."""
        count = self._counts.get((code, group))
        if count is None:
            count = self._counts[code, group] = Count(packet, time, group)
        count.add(reason, amount)

    def findings(self) -> list[Finding]:
        """One finding per code and group, in the order in which they first happened."""
        found = []
        for (code, _), count in self._counts.items():
            text, evidence = _DESCRIPTIONS[code](count)
            found.append(capture_finding(code, text, evidence, file=self._file, packet=count.first_packet or None, time=count.first_time))
        return found
