"""The tables of the screen of `live --top`: their columns, and the selection and order of their records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from itertools import takewhile
from typing import Any

from pulsarscope.analysis.live_traffic import FrameLine, Snapshot
from pulsarscope.analysis.tally import ReportRecord
from pulsarscope.dissect.contract.capabilities import ReportColumn, ReportTable
from pulsarscope.output.render.text_report import TextReport, size_text

COURSE = " ▁▂▃▄▅▆▇█"
COURSE_ASCII = " .:-=+*#@"


def is_name(column: ReportColumn) -> bool:
    """Return True for a column of text, which sorts from A to Z."""
    return column.form in {"name", "topic", "text"}


_IN = ReportColumn("messages_in", "in/s", "rate")
_OUT = ReportColumn("messages_out", "out/s", "rate")
_BYTES_IN = ReportColumn("bytes_in", "in", "size_rate", spare=True)
_BYTES_OUT = ReportColumn("bytes_out", "out", "size_rate", spare=True)
_P50 = ReportColumn("p50_ns", "p50", "duration", spare=True)
_P99 = ReportColumn("p99_ns", "p99", "duration")
_SENT = ReportColumn("sent", "sent", spare=True)
_DELIVERED = ReportColumn("delivered", "delivered", spare=True)
_BYTES = ReportColumn("bytes", "bytes", "bytes", spare=True)
_ERRORS = ReportColumn("errors", "refused", spare=True)
_COURSE = ReportColumn("course", "last minute", "course", spare=True)
_ADDRESS = ReportColumn("address", "client", "text", spare=True)
_CONSUMER = (
    ReportColumn("rate", "out/s", "rate"),
    ReportColumn("permits_left", "permits"),
    ReportColumn("unacknowledged", "unacked"),
    ReportColumn("redelivered", "again"),
    ReportColumn("oldest_age_ns", "oldest", "duration", spare=True),
    ReportColumn("delivered", "delivered", spare=True),
    _ADDRESS,
    ReportColumn("last_ack_age_ns", "acked ago", "duration", spare=True),
    ReportColumn("type", "type", "text", spare=True),
)

Columns = Mapping[str, tuple[ReportColumn, ...]]
"""Columns by view."""

COLUMNS: Columns = {
    "topics": (
        *(ReportColumn("topic", "topic", "topic"), _IN, _OUT, _P99, _COURSE, _SENT, _DELIVERED),
        *(_BYTES_IN, _BYTES_OUT, _P50, _BYTES, _ERRORS),
    ),
    "producers": (
        *(ReportColumn("producer", "producer", "name"), ReportColumn("topic", "topic", "topic")),
        *(_IN, _P99, _SENT, _ADDRESS, _COURSE, _BYTES_IN, _P50, _BYTES, _ERRORS),
    ),
    "consumers": (
        *(ReportColumn("subscription", "subscription", "name"), ReportColumn("consumer", "consumer", "name")),
        *(*_CONSUMER[:4], ReportColumn("topic", "topic", "topic", spare=True), *_CONSUMER[4:]),
    ),
    "connections": (
        *(ReportColumn("client", "client", "name"), ReportColumn("server", "server", "name"), _IN, _OUT),
        *(
            ReportColumn("idle_ns", "quiet for", "duration", spare=True),
            _COURSE,
            ReportColumn("age_ns", "known for", "duration", spare=True),
        ),
        *(_BYTES_IN, _BYTES_OUT, _SENT, _DELIVERED, _P99, ReportColumn("frames", "frames", spare=True), _BYTES),
    ),
    "requests": (
        ReportColumn("request", "request", "name"),
        *(ReportColumn("rate", "rate", "rate"), _P50, _P99, ReportColumn("max_ns", "max", "duration", spare=True)),
        *(ReportColumn("requests", "since start"), ReportColumn("errors", "refused"), ReportColumn("unanswered", "unanswered")),
    ),
    "topic": (
        *(ReportColumn("role", "role", "text"), ReportColumn("name", "name", "name"), _IN),
        *_CONSUMER,
        *(_SENT, _P99),
    ),
    "connection": (
        *(ReportColumn("time", "ago", "duration"), ReportColumn("direction", "from", "text"), ReportColumn("command", "command", "name")),
        *(ReportColumn("topic", "topic", "topic"), ReportColumn("messages", "messages"), ReportColumn("bytes", "bytes", "bytes")),
        *(ReportColumn("latency_ns", "latency", "duration"), ReportColumn("status", "status", "text")),
        ReportColumn("party", "producer or subscription", "name", spare=True),
    ),
    "findings": (
        *(ReportColumn("severity", "severity", "text"), ReportColumn("count", "times"), ReportColumn("code", "finding", "name")),
        ReportColumn("ago_ns", "last", "duration"),
    ),
}

VIEWS = ("topics", "producers", "consumers", "connections", "requests")
"""Views in the order of their tabs; the views of protocol tables follow."""

_IDENTITY = {
    "topics": ("topic",),
    "producers": ("topic", "producer"),
    "consumers": ("connection", "consumer_id"),
    "connections": ("connection",),
    "requests": ("request",),
    "topic": ("role", "connection", "name"),
    "connection": ("number",),
    "findings": ("code",),
}


def columns_with(tables: Iterable[ReportTable]) -> Columns:
    """Return the columns of all views, including the protocol tables."""
    return {
        **COLUMNS,
        **{table.name: tuple(column._replace(kept=False) for column in table.columns) for table in tables},
    }


def identity(view: str, record: ReportRecord, columns: Columns = COLUMNS) -> tuple[Any, ...]:
    """Return the values that identify a record from one picture to the next; in protocol tables, the leading columns of names."""
    names = _IDENTITY.get(view) or [column.key for column in takewhile(is_name, columns[view])]
    return tuple(record.get(key) for key in names)


def records(snapshot: Snapshot, view: str, name: str | None, frames: list[FrameLine]) -> list[ReportRecord]:
    """Return the records of a view; `name`: its topic or connection, `frames`: the frames of that connection."""
    if view == "topic":
        return _parties(snapshot, name)
    if view == "connection":
        return [{**line._asdict(), "time": max(snapshot.time - line.time, 0), "number": at} for at, line in enumerate(frames)]
    if view == "findings":
        return [
            {
                "severity": group.severity,
                "count": group.count,
                "code": group.code,
                "ago_ns": max(snapshot.time - (group.latest[-1].time or snapshot.time), 0),
                "connection": group.latest[-1].connection,
            }
            for group in snapshot.findings
        ]
    return snapshot.tables.get(view, [])


def _parties(snapshot: Snapshot, topic: str | None) -> list[ReportRecord]:
    """Return the producers and consumers of a topic."""
    producers = [
        {"role": "producer", "name": record["producer"], **record, "delivered": None}
        for record in snapshot.tables["producers"]
        if record["topic"] == topic
    ]
    consumers = [
        {"role": "consumer", "name": f"{record['subscription'] or '?'} / {record['consumer']}", **record}
        for record in snapshot.tables["consumers"]
        if record["topic"] == topic
    ]
    return producers + consumers


def selected(columns: Iterable[ReportColumn], rows: list[ReportRecord], pattern: str) -> list[ReportRecord]:
    """Return the records with a name that contains the pattern, regardless of case."""
    if not pattern:
        return rows
    pattern = pattern.lower()
    names = [column.key for column in columns if is_name(column)]
    return [row for row in rows if any(pattern in str(row.get(name) or "").lower() for name in names)]


def ordered(rows: list[ReportRecord], column: ReportColumn | None, *, reverse: bool) -> list[ReportRecord]:
    """Return the records sorted by a column: numbers from the largest, text from A, records without a value last."""
    if column is None:
        return rows[::-1] if reverse else rows

    def value(row: ReportRecord) -> Any:
        found = row[column.key]
        return sum(found) if isinstance(found, list) else found

    with_value = [row for row in rows if row.get(column.key) not in (None, "")]
    with_value.sort(key=value, reverse=is_name(column) == reverse)
    return with_value + [row for row in rows if row.get(column.key) in (None, "")]


def add_table(report: TextReport, columns: Iterable[ReportColumn], rows: list[ReportRecord], sorted_by: str | None) -> None:
    """Add the rows of a view to a report, and mark the column by which they are sorted."""
    mark = "▾" if report.unicode else "v"
    shown = [column._replace(heading=f"{column.heading}{mark}") if column.key == sorted_by else column for column in columns]
    report.table(report.columns(shown, rows, partial(_cell, report)))


def _cell(report: TextReport, form: str, value: Any) -> str:
    """Return a value in the form of its column; some forms exist only on this screen."""
    if form == "size_rate":
        return f"{size_text(value)}/s" if value else ""
    if form == "course" and value is not None:
        return course(value, unicode=report.unicode)
    return "0/s" if form == "rate" and value == 0 else report.cell(form, value)


def course(counts: list[int], *, unicode: bool) -> str:
    """Return counts as a line of bars, the highest for the largest count."""
    bars = COURSE if unicode else COURSE_ASCII
    largest = max(counts, default=0)
    return "".join(bars[-(-count * (len(bars) - 1) // largest)] if count > 0 else bars[0] for count in counts) if largest else ""
