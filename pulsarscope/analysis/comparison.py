"""The comparison of two runs: changes of latencies, rates, errors and findings, and names that appeared or vanished."""

from __future__ import annotations

from math import inf, log
from typing import NamedTuple

from pulsarscope.analysis.diagnosis import Diagnosis
from pulsarscope.analysis.statistics import Statistics
from pulsarscope.analysis.tally import ReportRecord, Tally, per_second
from pulsarscope.model.findings import NOTE, SEVERITIES
from pulsarscope.model.limits import STATISTICS_NAMES_MAX

NOTABLE_PERCENT = 25
"""Smallest notable change of a latency: two runs of the same system differ by less."""

NOTABLE_COUNT = 20
"""Exchanges of a family on both sides for a notable change: with fewer, one outlier decides."""

TAIL_COUNT = 100
"""Exchanges for a notable change of the 99th percentile: with fewer, it is the slowest one."""


class ComparedRun(NamedTuple):
    """A side of a comparison."""

    statistics: Statistics
    diagnosis: Diagnosis


def change_percent(before: float | None, after: float | None) -> float | None:
    """Return the change of a number in % of `before`, with one decimal; None if there is nothing to compare with."""
    if before is None or after is None or before == 0:
        return None
    return round((after - before) * 100 / before, 1)


class Comparison:
    """The changes from one run to another."""

    def __init__(self, before: ComparedRun, after: ComparedRun) -> None:
        self.before = before
        self.after = after

    def records(self) -> dict[str, list[ReportRecord]]:
        """Return all sections, for programs."""
        return {
            "verdict": [self.verdict()],
            "totals": self.totals(),
            "exchanges": self.exchanges(),
            "findings": self.findings(),
            "names": self.names(),
        }

    def verdict(self) -> dict[str, list[ReportRecord]]:
        """Return families that are notably slower or faster, and errors and warnings that became more or fewer."""
        families = [(_notable(record), record) for record in self.exchanges()]
        findings = [(record["after"] - record["before"], record) for record in self.findings() if record["severity"] != NOTE]
        return {
            "slower": [record for sign, record in families if sign > 0],
            "faster": [record for sign, record in families if sign < 0],
            "worse": [record for more, record in findings if more > 0],
            "better": [record for more, record in findings if more < 0],
        }

    @property
    def is_regression(self) -> bool:
        """Return True when a family is notably slower, or a code has more errors or warnings."""
        changes = self.verdict()
        return bool(changes["slower"] or changes["worse"])

    @property
    def level(self) -> str:
        """Return the level of the change: error, healthy or unknown."""
        changes = self.verdict()
        if changes["slower"] or (changes["worse"] and not changes["faster"]):
            return "error"
        return "healthy" if (changes["faster"] or changes["better"]) and not changes["worse"] else "unknown"

    def totals(self) -> list[ReportRecord]:
        """Return the changes of the totals."""
        sides = []
        for statistics, _ in (self.before, self.after):
            summary = statistics.summary()
            numbers = {
                "duration_ns": summary["duration_ns"],
                "connections": summary["connections"],
                "frames": summary["client_frames"] + summary["server_frames"],
            }
            numbers |= {name: summary[name] for name in ("client_messages", "server_messages", "messages_per_second", "bytes_per_second")}
            numbers |= {name: summary[name] for name in ("exchanges", "errors", "unanswered")}
            numbers["exchanges_per_second"] = per_second(summary["exchanges"], statistics.span)
            numbers |= {name: summary[name] for name in ("retransmitted", "out_of_order", "missing_bytes", "zero_windows")}
            sides.append(numbers)
        before, after = sides
        return [{"what": name, **_change(before[name], after[name])} for name in before]

    def exchanges(self) -> list[ReportRecord]:
        """Return families of exchanges, the largest change first: those of only one side, then by latencies, then by number."""
        before, after = self.before.statistics.families.named, self.after.statistics.families.named
        records = [_family(name, before.get(name), after.get(name)) for name in {**before, **after}]
        return sorted(records, key=_weight, reverse=True)

    def findings(self) -> list[ReportRecord]:
        """Return finding codes, the worst first; within a severity, the largest change first."""
        before, after = (side.diagnosis.by_code() for side in (self.before, self.after))
        symptoms = {symptom.code: symptom for side in (self.before, self.after) for symptom in side.diagnosis.symptoms()}
        records = [
            {"code": code, "severity": symptom.severity, "meaning": symptom.meaning, **_change(before[code], after[code])}
            for code, symptom in symptoms.items()
        ]
        return sorted(records, key=lambda record: (SEVERITIES.index(record["severity"]), -abs(record["after"] - record["before"])))

    def names(self) -> list[ReportRecord]:
        """Return topics and producers that only one side has; lists that are full may lack some."""
        records = []
        for kind in ("topics", "producers"):
            before, after = (getattr(side.statistics, kind).named for side in (self.before, self.after))
            for change, has, lacks in (("appeared", after, before), ("vanished", before, after)):
                for name in has:
                    if name not in lacks and len(lacks) < STATISTICS_NAMES_MAX:
                        topic, producer = (name, None) if kind == "topics" else name
                        records.append({"change": change, "kind": kind[:-1], "topic": topic, "producer_name": producer})
        return records


def _change(before: float | None, after: float | None) -> ReportRecord:
    return {"before": before, "after": after, "change_percent": change_percent(before, after)}


def _family(name: str, before: Tally | None, after: Tally | None) -> ReportRecord:
    record: ReportRecord = {"request": name or None}
    sides = (before or Tally(), after or Tally())
    for what in ("exchanges", "errors", "unanswered", "unrequested"):
        record[what] = _change(*(getattr(side, what) for side in sides))
    for percent in (50, 99):
        record[f"p{percent}_ns"] = _change(*(side.latencies.percentile(percent) for side in sides))
    return record


def _weight(record: ReportRecord) -> tuple[float, float]:
    count = record["exchanges"]
    if bool(count["before"]) != bool(count["after"]):
        return inf, max(count["before"], count["after"])
    comparable = min(count["before"], count["after"]) >= NOTABLE_COUNT
    ratios = [_ratio(record[name]) for name in ("p50_ns", "p99_ns")]
    return (max(ratios) if comparable else 0.0), max(*ratios, _ratio(count))


def _ratio(change: ReportRecord) -> float:
    before, after = change["before"], change["after"]
    return abs(log(after / before)) if before and after else 0.0


def _notable(record: ReportRecord) -> int:
    """Return 1 for notably slower, -1 for faster, 0 for neither or too few exchanges. The 99th percentile decides before the median."""
    count = record["exchanges"]
    if min(count["before"], count["after"]) < NOTABLE_COUNT:
        return 0
    has_tail = min(count["before"], count["after"]) >= TAIL_COUNT
    for name in ("p99_ns", "p50_ns") if has_tail else ("p50_ns",):
        if (change := record[name]["change_percent"]) is not None and abs(change) >= NOTABLE_PERCENT:
            return 1 if change > 0 else -1
    return 0
