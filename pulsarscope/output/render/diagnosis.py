"""A diagnosis as text: the verdict, then each kind of finding with its meaning, places, samples and advice."""

from __future__ import annotations

from collections.abc import Iterable

from pulsarscope.analysis.diagnosis import Diagnosis, Symptom
from pulsarscope.model.findings import ERROR, NOTE, WARNING
from pulsarscope.model.limits import DIAGNOSIS_NAMES_MAX
from pulsarscope.output.render.cell_text import escape
from pulsarscope.output.render.clock import instant_text
from pulsarscope.output.render.text_report import ReportOptions, TextReport
from pulsarscope.output.render.view import count_text

SHOWN_SAMPLES = 3
"""Findings shown of a group: those of one code mostly differ only in their numbers."""

SHOWN_PLACES = 4
SHOWN_NAMES = 3


def verdict(diagnosis: Diagnosis, packets: int) -> str:
    """Return one sentence about the state of the run and the completeness of the capture."""
    counts = diagnosis.severities
    bad = [count_text(counts[severity], severity) for severity in (ERROR, WARNING) if counts[severity]]
    notes = f"; {count_text(counts[NOTE], NOTE)}" if counts[NOTE] else ""
    codes = [f"{symptom.code} ({symptom.count:,})" for symptom in diagnosis.symptoms() if symptom.severity in (ERROR, WARNING)]
    where = f" in {count_text(diagnosis.troubled, 'connection')}" if diagnosis.troubled else ""
    if bad:
        state = f"{', '.join(bad)}{where}: {', '.join(codes)}{notes}"
    elif diagnosis.connections:
        state = f"Healthy: no errors, no warnings{notes}"
    else:
        unknown = diagnosis.unknown_connections
        seen = f"{count_text(unknown, 'TCP connection')} of no known protocol" if unknown else "no TCP connections"
        return f"Nothing to diagnose: {count_text(packets, 'packet')}, {seen}{notes}."
    return f"{state}{_reservation(diagnosis)}."


def _reservation(diagnosis: Diagnosis) -> str:
    """Return the part of the verdict about an incomplete capture, else an empty text."""
    doubts = []
    if diagnosis.missing_bytes:
        doubts.append(f"{diagnosis.missing_bytes:,} bytes are missing from the capture")
    if diagnosis.midstream:
        doubts.append(f"{count_text(diagnosis.midstream, 'connection')} began before {'it' if doubts else 'the capture'}")
    if diagnosis.lossy and not doubts:
        doubts.append("the capture is not complete")
    return f"; but {' and '.join(doubts)}: the verdict may be incomplete" if doubts else ""


def diagnosis_text(diagnosis: Diagnosis, options: ReportOptions, packets: int) -> bytes:
    """Return the report of a run that read so many packets."""
    report = TextReport(options)
    counts = diagnosis.severities
    look = report.palette
    color = look.bad if counts[ERROR] else look.warning if counts[WARNING] or diagnosis.lossy or not diagnosis.connections else look.good
    report.paragraph(escape(verdict(diagnosis, packets)), color=color)
    if options.quiet:
        return report.text()
    report.file_names()
    symptoms = diagnosis.symptoms()
    for symptom in symptoms[: options.limit]:
        _symptom(report, diagnosis, symptom)
    hidden = len(symptoms) - options.limit
    if hidden > 0:
        report.lines.append("")
        report.lines.append(f"{look.dim}and findings of {count_text(hidden, 'more kind')} (--limit shows them){look.reset}")
    return report.text()


def _symptom(report: TextReport, diagnosis: Diagnosis, symptom: Symptom) -> None:
    look = report.palette
    report.lines.append("")
    times = f"  {count_text(symptom.count, 'time')}" if symptom.count > 1 else ""
    head = f"{report.severity(symptom.severity, symptom.severity)} {look.bold}{escape(symptom.code)}{look.reset}{times}"
    report.lines.append(f"{head}{look.dim}{_when(symptom, diagnosis.start)}{look.reset}")
    report.paragraph(escape(diagnosis.meaning(symptom.code)), 2)
    for noun, names in (
        ("topic", [report.short_topic(name) for name in symptom.topics]),
        ("connection", [f"from packet {report.reference(name)}" for name in symptom.connections]),
    ):
        if len(names) > 1 or (names and noun == "topic"):
            report.paragraph(_listed(noun, names), 4, hang=2)
    for sample in symptom.samples[:SHOWN_SAMPLES]:
        places = _places(report, sample["places"])
        again = f" ({sample['count']:,} times)" if sample["count"] > 1 else ""
        report.paragraph(f"{report.symbols.dot} {places}{escape(sample['text'] or '')}{again}", 4, hang=2)
    hidden = symptom.count - sum(sample["count"] for sample in symptom.samples[:SHOWN_SAMPLES])
    if hidden:
        report.paragraph(f"{report.symbols.dot} and {hidden:,} more", 4, look.dim)
    if symptom.hint:
        report.paragraph(f"Try: {escape(symptom.hint)}", 2, look.heading if symptom.severity == ERROR else "", hang=5)


def _places(report: TextReport, names: list[str]) -> str:
    """Return the places of a finding: frames, or packets without a frame."""
    if not names:
        return ""
    shown = ", ".join(report.reference(name) for name in names[:SHOWN_PLACES])
    more = f" and {len(names) - SHOWN_PLACES} more" if len(names) > SHOWN_PLACES else ""
    return f"at {'' if '.' in names[0] else 'packet '}{shown}{more}: "


def _when(symptom: Symptom, start: int | None) -> str:
    if symptom.first is None or symptom.last is None:
        return ""
    first, last = (_moment(time, start) for time in (symptom.first, symptom.last))
    unit = "" if start is None else " s"
    return f"  at {first}{unit}" if symptom.first == symptom.last else f"  from {first} to {last}{unit}"


def _moment(time: int, start: int | None) -> str:
    """Return a time since the start, as in the timeline."""
    return instant_text(time) if start is None else f"{(time - start) / 1e9:.6f}"


def _listed(noun: str, names: Iterable[str]) -> str:
    escaped = [escape(name) for name in names]
    shown, hidden = escaped[:SHOWN_NAMES], len(escaped) - SHOWN_NAMES
    least = "at least " if len(escaped) >= DIAGNOSIS_NAMES_MAX else ""
    return f"{least}{count_text(len(escaped), noun)}: {', '.join(shown)}{f' and {hidden:,} more' if hidden > 0 else ''}"


__all__ = ["diagnosis_text", "verdict"]
