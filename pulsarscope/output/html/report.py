"""The page of `report`: verdict, findings, charts over time, journeys and tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec

from pulsarscope.analysis.overview import Overview
from pulsarscope.analysis.tally import ReportRecord, completed
from pulsarscope.dissect.contract.capabilities import Lane, ReportColumn
from pulsarscope.model.connection_name import connection_label, with_labels
from pulsarscope.model.findings import ERROR, SEVERITIES, WARNING
from pulsarscope.model.limits import ACTIVITY_CONNECTIONS_MAX
from pulsarscope.model.text import duration, plural
from pulsarscope.model.units import SECOND
from pulsarscope.output.html.charts import charts
from pulsarscope.output.html.page import page, printable
from pulsarscope.output.html.pseudonyms import Pseudonyms
from pulsarscope.output.html.sortable_tables import Table, table
from pulsarscope.output.render.diagnosis import cause, not_judged, state
from pulsarscope.output.render.text_report import size_text
from pulsarscope.output.render.times import instant_text

_AMOUNTS = (
    ReportColumn("client_messages", "sent"),
    ReportColumn("server_messages", "delivered"),
    ReportColumn("bytes", "bytes", "bytes"),
    ReportColumn("messages_per_second", "rate", "rate"),
)
_LATENCIES = (
    ReportColumn("p50_ns", "p50", "duration"),
    ReportColumn("p99_ns", "p99", "duration"),
    ReportColumn("max_ns", "max", "duration"),
)
_FAILURES = (ReportColumn("errors", "refused", spare=True), ReportColumn("unanswered", "open", spare=True))

_SECTIONS = {
    "topics": ("Topics", "latencies of sending", (ReportColumn("topic", "topic", "topic"), *_AMOUNTS, *_LATENCIES, *_FAILURES)),
    "producers": (
        "Producers",
        "delivered: their messages, to any consumer",
        (ReportColumn("producer_name", "producer", "name"), ReportColumn("topic", "topic", "topic"), *_AMOUNTS, *_LATENCIES, *_FAILURES),
    ),
    "subscriptions": (
        "Subscriptions",
        "",
        (ReportColumn("subscription", "subscription", "name"), ReportColumn("topic", "topic", "topic"), *_AMOUNTS, *_FAILURES),
    ),
    "connections": (
        "Connections",
        "named by their first packets",
        (
            ReportColumn("connection", "connection", "connection"),
            ReportColumn("client", "client", "name"),
            ReportColumn("server", "server", "name"),
            ReportColumn("dissector", "protocol", "text"),
            ReportColumn("lasted", "lasted", "duration"),
            *_AMOUNTS[:3],
            *_LATENCIES[:2],
            *_FAILURES,
            ReportColumn("retransmitted", "resent", spare=True),
            ReportColumn("zero_windows", "zero windows", spare=True),
            ReportColumn("missing_bytes", "missing", spare=True),
            ReportColumn("closed", "closed", "text"),
        ),
    ),
    "exchanges": (
        "Requests",
        "latencies to within 1 %",
        (
            ReportColumn("request", "request", "text"),
            ReportColumn("count", "count"),
            *_FAILURES,
            ReportColumn("per_second", "rate", "rate"),
            ReportColumn("p50_ns", "p50", "duration"),
            ReportColumn("p90_ns", "p90", "duration"),
            *_LATENCIES[1:],
        ),
    ),
    "commands": (
        "Commands",
        "",
        (
            ReportColumn("command", "command", "text"),
            ReportColumn("direction", "sender", "text"),
            ReportColumn("frames", "frames"),
            ReportColumn("messages", "messages"),
            ReportColumn("bytes", "bytes", "bytes"),
            ReportColumn("frames_per_second", "rate", "rate"),
        ),
    ),
}
"""Title, note and columns of each section of statistics."""

_NAMES = {
    "producer_name": "producer",
    "consumer": "consumer",
    "consumer_name": "consumer",
    "consumers": "consumer",
    "subscription": "subscription",
    "subscriptions": "subscription",
    "group": "group",
}
"""Fields of records whose values are names, with the kind of name."""

_NO_NAME = re.compile(r"|\d+:\d+/\d+")
"""No name, or the placeholder for the name of a consumer without one."""

_AFTER = "producers"
"""Section after which the tables of protocols come, because these begin with consumers."""


class PageOptions(msgspec.Struct, frozen=True):
    """Options of a page."""

    files: tuple[str, ...]
    limit: int
    """Rows of a table."""
    version: str
    short_topic: Callable[[str], str] = str
    outer_of: Mapping[str, str] = {}
    """The outer leg of each connection that is an inner one."""
    note: str = ""
    base_topic: Callable[[str], str] = str
    """The partitioned topic of a partition."""
    key: bytes | None = None
    """Key of the pseudonyms for addresses, topics and names in the page; None: no pseudonyms."""


def report_page(overview: Overview, packets: int, options: PageOptions) -> bytes:
    """Return the page of a run that read `packets` packets."""
    diagnosis, statistics = overview.diagnosis, overview.statistics
    total = statistics.summary()
    zero = diagnosis.start if diagnosis.start is not None else statistics.start or 0
    groups = diagnosis.records()
    counts = diagnosis.severities
    level = ERROR if counts[ERROR] else WARNING if counts[WARNING] else "healthy" if diagnosis.coverage.healthy else "unknown"
    records = {**statistics.sections(_SECTIONS), **overview.table_records(options.outer_of)}
    shown = {
        "verdict": state(diagnosis, packets),
        "cause": cause(diagnosis),
        "not_judged": [part["text"] for part in not_judged(diagnosis)],
        "charts": charts(overview, zero, records["connections"], _troubled(groups), several_files=len(options.files) > 1),
        "journeys": _journeys(overview.lanes(), statistics.end or 0),
        "tables": records,
        "samples": [group["samples"] for group in groups],
        "topics": [group["topics"] for group in groups],
        "note": options.note,
    }
    if options.key is None:
        clean = printable(shown)
    else:
        pseudonyms = _pseudonyms(options.key, [*chain.from_iterable(records.values()), *groups], options)
        clean = printable(_with_pseudonyms(shown, pseudonyms), pseudonyms.text)
    for course in (*clean["charts"]["courses"], *(lane for journeys in clean["journeys"] for lane in journeys["lanes"])):
        course["topic"] = options.short_topic(course["topic"] or "")
    for group, samples, topics in zip(groups, clean["samples"], clean["topics"], strict=True):
        group["samples"], group["topics"] = samples, topics
    clean["charts"]["marks"] = [
        {"t": (sample["time"] - zero) / SECOND, "severity": group["severity"], "code": group["code"]}
        for group in groups
        for sample in group["samples"]
        if sample["time"] is not None
    ]
    names = [f"capture {place}" for place in range(1, len(options.files) + 1)] if options.key is not None else printable(options.files)
    data = {
        "title": ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else ""),
        "level": level,
        "state": clean["verdict"],
        "cause": with_labels(clean["cause"], several_files=len(options.files) > 1),
        "not_judged": clean["not_judged"],
        "span": f"{instant_text(total['start'])}, {duration(total['duration_ns'])}" if total["start"] is not None else "",
        "figures": _figures(total),
        "findings": [_finding(group, zero, options.short_topic, several_files=len(options.files) > 1) for group in groups],
        "journeys": clean["journeys"],
        "tables": _tables(overview, clean["tables"], options),
        "has_courses": bool(clean["charts"]["courses"]),
        "notes": [*_notes(overview, clean["charts"]), *([clean["note"]] if options.note else [])],
        "anonymized": options.key is not None,
        "version": options.version,
    }
    return page("report.html", data, clean["charts"])


def _pseudonyms(key: bytes, records: Iterable[ReportRecord], options: PageOptions) -> Pseudonyms:
    """Return pseudonyms for addresses, topics and names, which know the topics and names of the records."""
    topics: set[str] = set()
    names: dict[str, str] = {}
    for record in records:
        several = record.get("topics") or ()
        several = several.split(", ") if isinstance(several, str) else several  # a cell of a table is a text
        topics |= {topic for topic in (record.get("topic"), *several) if isinstance(topic, str)}
        for place in (record, *(sample["evidence"] for sample in record.get("samples", ()))):
            for field, kind in _NAMES.items():
                value = place.get(field)
                for name in value if isinstance(value, (list, tuple)) else (value,):
                    if isinstance(name, str) and not _NO_NAME.fullmatch(name):
                        names.setdefault(name, kind)
    return Pseudonyms(key, sorted(topics), options.short_topic, options.base_topic, names)


def _with_pseudonyms(value: Any, pseudonyms: Pseudonyms, names: Mapping[str, str] = _NAMES, kind: str | None = None) -> Any:
    """Return a plain value with pseudonyms in the fields that hold names: field → kind of name. `kind`: `value` holds such names."""
    if isinstance(value, str):
        if kind is None or _NO_NAME.fullmatch(value):
            return value
        return ", ".join(pseudonyms.named(kind, name) for name in value.split(", "))
    if isinstance(value, Mapping):
        return {
            field: _with_pseudonyms(item, pseudonyms, {**names, "name": "name"} if field == "evidence" else names, names.get(field))
            for field, item in value.items()
        }
    return [_with_pseudonyms(item, pseudonyms, names, kind) for item in value] if isinstance(value, (list, tuple)) else value


def _troubled(groups: Iterable[ReportRecord]) -> dict[str, str]:
    """Return the worst severity of the errors and warnings of each connection; `groups` are sorted by it."""
    found: dict[str, str] = {}
    for group in groups:
        if group["severity"] in (ERROR, WARNING):
            for name in group["connections"]:
                found.setdefault(name, group["severity"])
    return found


def _figures(total: ReportRecord) -> list[tuple[str, str]]:
    def latency(name: str) -> str:
        return "" if total[name] is None else duration(total[name])

    figures = [
        ("connections", f"{total['connections']:,}"),
        ("frames", f"{total['client_frames'] + total['server_frames']:,}"),
        ("messages sent", f"{total['client_messages']:,}"),
        ("messages delivered", f"{total['server_messages']:,}"),
        ("bytes", size_text(total["client_bytes"] + total["server_bytes"])),
        ("p50 of sending", latency("p50_ns")),
        ("p99 of sending", latency("p99_ns")),
        ("requests refused", f"{total['errors']:,}" if total["errors"] else ""),
        ("requests unanswered", f"{total['unanswered']:,}" if total["unanswered"] else ""),
        ("segments resent", f"{total['retransmitted']:,}" if total["retransmitted"] else ""),
    ]
    return [(label, value) for label, value in figures if value]


def _finding(group: ReportRecord, zero: int, short_topic: Callable[[str], str], *, several_files: bool) -> ReportRecord:
    """Return a group of findings in the form of its template; its samples and topics are printable."""
    samples = [
        {
            **sample,
            "text": with_labels(sample["text"], several_files=several_files),
            "connection": connection_label(sample["connection"], several_files=several_files),
            "places": sample["places"] if several_files else [place.removeprefix("0:") for place in sample["places"]],
            "at": None if sample["time"] is None else round((sample["time"] - zero) / SECOND, 6),
            "evidence": [(name, _evidence_text(name, value)) for name, value in sample["evidence"].items() if name != "frames"],
        }
        for sample in group["samples"]
    ]
    topics = [short_topic(topic) for topic in group["topics"]]
    hidden = group["count"] - sum(sample["count"] for sample in samples)
    return {**group, "samples": samples, "topics": topics, "hidden": hidden, "open": group["severity"] != SEVERITIES[-1]}


def _evidence_text(name: str, value: Any) -> str:
    if name.endswith("_ns") and isinstance(value, int):
        return duration(value)
    if isinstance(value, str):
        return value
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 400 else f"{text[:400]}…"


def _journeys(lanes: Sequence[Lane], end: int) -> list[ReportRecord]:
    """Return the lanes by ending; lanes of one ending share a scale that is a thousand units wide."""
    groups: dict[str, list[Lane]] = {}
    for lane in lanes:
        groups.setdefault(lane.ending, []).append(lane)
    made = []
    for ending, members in groups.items():
        ends = [max(end if step.end is None else step.end for step in lane.steps) for lane in members]
        longest = max(1, *(last - lane.steps[0].start for last, lane in zip(ends, members, strict=True)))
        made.append(
            {
                "ending": ending,
                "scale": duration(longest),
                "lanes": [_lane(lane, last, longest, end) for last, lane in zip(ends, members, strict=True)],
            }
        )
    return made


def _lane(lane: Lane, last: int, longest: int, end: int) -> ReportRecord:
    start = lane.steps[0].start
    return {
        "name": lane.name,
        "topic": lane.topic or "",
        "subscription": lane.subscription or "",
        "total": duration(max(last - start, 0)) + (" so far" if any(step.end is None for step in lane.steps[-1:]) else ""),
        "steps": [
            {
                "name": step.name,
                "open": step.end is None,
                "x": round((step.start - start) * 1000 / longest, 2),
                "width": max(round(((end if step.end is None else step.end) - step.start) * 1000 / longest, 2), 2),
                "lasted": "never" if step.end is None else duration(max(step.end - step.start, 0)),
            }
            for step in lane.steps
        ],
    }


def _tables(overview: Overview, records: Mapping[str, list[ReportRecord]], options: PageOptions) -> list[Table]:
    def look(form: str, text: str) -> str:
        if form == "connection":
            return connection_label(text, several_files=len(options.files) > 1)
        return options.short_topic(text) if form == "topic" else text

    def made(name: str, title: str, note: str, columns: Sequence[ReportColumn]) -> Table:
        return table(name, title, note, columns, map(completed, records[name]), options.limit, look)

    tables = []
    for name, (title, note, columns) in _SECTIONS.items():
        tables.append(made(name, title, note, columns))
        if name == _AFTER:
            tables += [made(each.name, each.title, each.note, each.columns) for each in overview.tables.values()]
    return [each for each in tables if _has_content(each)]


def _has_content(table: Table) -> bool:
    """Return False for a table without rows, or with only zeros in its columns of numbers."""
    numbers = [cell.number for row in table.rows for cell in row if cell.number is not None]
    return bool(table.rows) and (not numbers or any(numbers))


def _notes(overview: Overview, data: Mapping[str, Any]) -> list[str]:
    """Return notes on values that the charts leave out or join."""
    activity = overview.activity
    frames, marks = sum(data["timeline"]["frames"]), len(data["timeline"]["t"])
    notes = []
    if frames > marks:
        width = duration(activity.marks.width)
        notes.append(f"Timeline: {marks:,} marks show {frames:,} frames: equal commands of a connection within {width} share one.")
    if activity.frames_left_out:
        lanes = f"the first {ACTIVITY_CONNECTIONS_MAX:,} connections"
        notes.append(f"Timeline: {lanes} only; {plural(activity.frames_left_out, 'frame')} of others have no lane.")
    if data["throughput"].get("t"):
        notes.append(f"Throughput in intervals of {duration(int(data['throughput']['width'] * SECOND))}.")
    if data["latency"]:
        notes.append(f"Percentiles in intervals of {duration(activity.latencies.width)}, to within 1 %.")
    return notes
