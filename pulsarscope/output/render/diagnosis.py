"""A diagnosis as text: the verdict, then each kind of finding with its meaning, places, samples and advice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pulsarscope.analysis.diagnosis import PLACES_MAX, Diagnosis, Symptom
from pulsarscope.analysis.tally import ReportRecord
from pulsarscope.model.connection_name import first_packet
from pulsarscope.model.findings import ERROR, NOTE, SESSION, TUNING, WARNING
from pulsarscope.model.limits import DIAGNOSIS_NAMES_MAX
from pulsarscope.model.text import duration, plural
from pulsarscope.output.render.cell_text import escape
from pulsarscope.output.render.text_report import ReportOptions, TextReport
from pulsarscope.output.render.times import instant_text

SHOWN_SAMPLES = 3
"""Findings shown of a group. Findings of one code mostly differ only in their numbers."""

SHOWN_PLACES = 4
SHOWN_NAMES = 3


def verdict(diagnosis: Diagnosis, packets: int, *, filtered: bool = False) -> str:
    """Return the state of the run, the worst finding, and what could not be judged; `filtered`: findings were chosen."""
    unjudged = "; ".join(part["text"] for part in not_judged(diagnosis))
    parts = (state(diagnosis, packets, filtered=filtered), cause(diagnosis), f"Not judged: {unjudged}." if unjudged else "")
    return " ".join(part for part in parts if part)


def cause(diagnosis: Diagnosis) -> str:
    """Return the text of the worst finding, and who has to act; nothing without errors and warnings."""
    symptom = diagnosis.cause()
    if symptom is None:
        return ""
    return f"{symptom.text}{f' Who must act: {symptom.to_act}.' if symptom.to_act else ''}"


def state(diagnosis: Diagnosis, packets: int, *, filtered: bool = False) -> str:
    """Return one sentence about the state of what could be judged; `filtered`: findings were chosen."""
    counts = diagnosis.severities
    bad = [plural(counts[severity], severity) for severity in (ERROR, WARNING) if counts[severity]]
    notes = f"; {plural(counts[NOTE], NOTE)}" if counts[NOTE] else ""
    codes = _codes(diagnosis)
    least = "at least " if diagnosis.troubled_is_least else ""
    where = f" in {least}{plural(diagnosis.troubled, 'connection')}" if diagnosis.troubled else ""
    parts = [f"{', '.join(bad)}{where}: {', '.join(codes)}"] if bad else []
    if not filtered and (refused := diagnosis.coverage.refused):
        servers = list(dict.fromkeys(refusals.server for refusals in refused))
        total = plural(sum(refusals.times for refusals in refused), "connection")
        parts.append(f"{total} to {_named(servers)} failed at the start")
    if parts:
        return f"{'; '.join(parts)}{notes}."
    if filtered:
        return f"no errors, no warnings{notes}."
    if diagnosis.coverage.healthy:
        advice = any(symptom.layer in (SESSION.name, TUNING.name) for symptom in diagnosis.symptoms())
        return f"No errors, no warnings{notes}." if advice else f"Healthy: no errors, no warnings{notes}."
    if diagnosis.coverage.judged:
        return f"No errors, no warnings in what could be judged{notes}."
    unknown = diagnosis.unknown_connections
    seen = f"{plural(unknown, 'TCP connection')} of no known protocol" if unknown else "no TCP connections"
    seen = f"{plural(diagnosis.connections, 'connection')} without frames in both directions" if diagnosis.connections else seen
    return f"Nothing to diagnose: {plural(packets, 'packet')}, {seen}{notes}."


def _codes(diagnosis: Diagnosis) -> list[str]:
    """Return the codes of errors and warnings with their counts, each with the codes that it explains."""
    counts = Counter[str]()
    explained: dict[str, Counter[str]] = {}
    explanations = diagnosis.explanations()
    for symptom in diagnosis.symptoms():
        if symptom.severity in (ERROR, WARNING):
            cause = explanations.get(symptom)
            (counts if cause is None else explained.setdefault(cause.code, Counter()))[symptom.code] += symptom.count
    return [
        f"{code} ({count:,})" + (f" explaining {_numbered(explained[code])}" if code in explained else "") for code, count in counts.items()
    ]


def _numbered(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{code} ({count:,})" for code, count in counts.items())


def not_judged(diagnosis: Diagnosis) -> list[ReportRecord]:
    """Return what could not be judged, for programs: code, text and counts."""
    parts = diagnosis.not_judged()
    return [{"code": part.code, "text": _UNJUDGED[part.code](part.counts), "counts": part.counts} for part in parts]


def _connections(counts: Mapping[str, Any]) -> str:
    return plural(counts["connections"], "connection")


def _too_short(counts: Mapping[str, Any]) -> str:
    needed = f"(a verdict needs {counts['least_ns'] / 1e9:g} s)"
    return f"problems that show only after {duration(counts['duration_ns'])} of traffic {needed}"


def _never_opened(counts: Mapping[str, Any]) -> str:
    how = [f"{counts[name]:,} {name}" for name in ("refused", "reset", "unanswered") if counts[name]]
    total = plural(counts["refused"] + counts["reset"] + counts["unanswered"], "connection")
    failed = "failed before the server said anything" if counts["reset"] else "never opened"
    return f"{total} to {_named(counts['servers'])} {failed} ({', '.join(how)})"


_UNJUDGED: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "interrupted": lambda counts: f"what comes behind the first {plural(counts['packets'], 'packet')}: reading was interrupted",
    "too-short": _too_short,
    "encrypted": lambda counts: f"{_connections(counts)} in TLS that was not decrypted (--tls-keylog)",
    "one-sided": lambda counts: f"{_connections(counts)} of which only one direction was captured",
    "silent-side": lambda counts: f"{_connections(counts)} on which one side sent no data",
    "midstream": lambda counts: f"what {_connections(counts)} that began before the capture had open or used up by then",
    "missing-bytes": lambda counts: f"{plural(counts['bytes'], 'byte')} of {_connections(counts)} that the capture lacks",
    "incomplete": lambda counts: f"what the capture lacks or was given up ({', '.join(counts)})",
    "failed": lambda counts: f"what a dissector or a rule that failed would have reported ({plural(counts['findings'], 'finding')})",
    "undecided": lambda counts: f"{plural(counts['findings'], 'symptom')} that may be over soon (see the notes)",
    "encrypted-payloads": lambda counts: f"{plural(counts['findings'], 'payload')} encrypted end to end (--private-key)",
    "never-opened": _never_opened,
    "unknown-protocol": lambda counts: f"{_connections(counts)} of no known protocol",
    "still-open": lambda counts: f"later events on {_connections(counts)} still open at the end of the capture",
}
"""Texts by code."""


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN_NAMES:,} more" if len(names) > SHOWN_NAMES else ""
    return f"{', '.join(names[:SHOWN_NAMES])}{more}"


def diagnosis_text(diagnosis: Diagnosis, options: ReportOptions, packets: int, *, filtered: bool = False) -> bytes:
    """Return the report of a run that read `packets` packets; `filtered`: findings were chosen."""
    report = TextReport(options)
    counts = diagnosis.severities
    look = report.palette
    color = look.bad if counts[ERROR] else look.good if diagnosis.coverage.healthy and not counts[WARNING] else look.warning
    if options.quiet:
        report.paragraph(report.finding_text(verdict(diagnosis, packets, filtered=filtered)), color=color)
        return report.text()
    report.paragraph(escape(state(diagnosis, packets, filtered=filtered)), color=color)
    report.paragraph(report.finding_text(cause(diagnosis)), color=look.bold)
    hidden_parts = not_judged(diagnosis)
    if hidden_parts:
        report.lines.append("Not judged:")
    for part in hidden_parts:
        report.paragraph(f"{report.symbols.dot} {escape(part['text'])}", 2, hang=2)
    report.file_names()
    explanations = diagnosis.explanations()
    symptoms = [symptom for symptom in diagnosis.symptoms() if symptom not in explanations]
    for symptom in symptoms[: options.limit]:
        _symptom(report, diagnosis, symptom)
    hidden = len(symptoms) - options.limit
    if hidden > 0:
        report.lines.append("")
        report.paragraph(f"and {plural(hidden, 'more kind')} (--limit shows them)", color=look.dim)
    return report.text()


def _symptom(report: TextReport, diagnosis: Diagnosis, symptom: Symptom) -> None:
    look = report.palette
    report.lines.append("")
    times = f"  {plural(symptom.count, 'time')}" if symptom.count > 1 else ""
    head = f"{report.severity(symptom.severity, symptom.severity)} {look.bold}{escape(symptom.code)}{look.reset}{times}"
    report.lines.append(f"{head}{look.dim}{_when(symptom, diagnosis.start)}{look.reset}")
    report.paragraph(escape(symptom.meaning), 2)
    for noun, names in (
        ("topic", [report.short_topic(name) for name in symptom.topics]),
        (
            "connection",
            [report.connection(name) for name in sorted(symptom.connections, key=_order)],
        ),
    ):
        if len(names) > 1 or (names and noun == "topic"):
            report.paragraph(_listed(noun, names), 4, hang=2)
    for sample in symptom.samples[:SHOWN_SAMPLES]:
        report.paragraph(f"{report.symbols.dot} {_sample_text(report, sample, symptom.count)}", 4, hang=2)
    hidden = symptom.count - sum(sample["count"] for sample in symptom.samples[:SHOWN_SAMPLES])
    if hidden:
        report.paragraph(f"{report.symbols.dot} and {hidden:,} more", 4, look.dim)
    for match in diagnosis.known_issues(symptom):
        where = f"; {plural(len(match.connections), 'connection')}" if len(symptom.connections) > 1 else ""
        issue = match.issue
        text = f"consistent with {issue.issue} ({match.product}, fixed in {', '.join(issue.fixed)}{where}): {issue.title}"
        report.paragraph(escape(text), 2, hang=2)
    for other, cause in diagnosis.explanations().items():
        if cause is symptom:
            shown = _sample_text(report, other.samples[0], other.count)
            report.paragraph(f"Explains {escape(other.code)} ({other.count:,}): {shown}", 2, hang=2)
    if symptom.hint:
        report.paragraph(f"Try: {escape(symptom.hint)}", 2, look.heading if symptom.severity == ERROR else "", hang=5)


def _order(connection: str) -> tuple[int, str, int]:
    file = connection.rpartition(":")[0]
    return len(file), file, first_packet(connection)


def _sample_text(report: TextReport, sample: ReportRecord, count: int) -> str:
    """Return the text of a sample with its places, and its count unless all findings of its kind have the same text."""
    again = f" ({sample['count']:,} times)" if 1 < sample["count"] < count else ""
    return f"{_places(report, sample['places'])}{report.finding_text(sample['text'])}{again}"


def _places(report: TextReport, names: list[str]) -> str:
    """Return the places of a finding: frames, or packets without a frame."""
    if not names:
        return ""
    shown = ", ".join(report.reference(name) for name in names[:SHOWN_PLACES])
    least = "at least " if len(names) >= PLACES_MAX else ""
    more = f" and {least}{len(names) - SHOWN_PLACES} more" if len(names) > SHOWN_PLACES else ""
    noun = "" if "." in names[0] else "packet " if len(names) == 1 else "packets "
    return f"at {noun}{shown}{more}: "


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
    return f"{least}{plural(len(escaped), noun)}: {', '.join(shown)}{f' and {hidden:,} more' if hidden > 0 else ''}"


__all__ = ["cause", "diagnosis_text", "not_judged", "state", "verdict"]
