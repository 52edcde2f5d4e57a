"""The tables of the screen of `live --top`: their columns, and their records as selected and sorted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import takewhile
from typing import Any

import msgspec

from pulsarscope.analysis.live_traffic import FrameLine, Snapshot
from pulsarscope.analysis.tally import ReportRecord
from pulsarscope.dissect.capabilities import ReportTable
from pulsarscope.output.render.cell_text import escape
from pulsarscope.output.render.text_report import TextColumn, TextReport, rate_text, size_text

COURSE = " ▁▂▃▄▅▆▇█"
COURSE_ASCII = " .:-=+*#@"


class TopColumn(msgspec.Struct, frozen=True):
    """A column of a table on the screen."""

    key: str
    heading: str
    form: str = "count"
    """name, topic, text, count, rate, size, size_rate, duration, course or time."""
    spare: bool = False
    """True for a column that is left out when the table does not fit."""

    @property
    def is_name(self) -> bool:
        """Values are text, which sorts from A to Z."""
        return self.form in {"name", "topic", "text"}


_IN = TopColumn("messages_in", "in/s", "rate")
_OUT = TopColumn("messages_out", "out/s", "rate")
_BYTES_IN = TopColumn("bytes_in", "in", "size_rate", spare=True)
_BYTES_OUT = TopColumn("bytes_out", "out", "size_rate", spare=True)
_P50 = TopColumn("p50_ns", "p50", "duration", spare=True)
_P99 = TopColumn("p99_ns", "p99", "duration")
_SENT = TopColumn("sent", "sent", spare=True)
_DELIVERED = TopColumn("delivered", "delivered", spare=True)
_BYTES = TopColumn("bytes", "bytes", "size", spare=True)
_ERRORS = TopColumn("errors", "refused", spare=True)
_COURSE = TopColumn("course", "last minute", "course", spare=True)
_ADDRESS = TopColumn("address", "client", "text", spare=True)
_CONSUMER = (
    TopColumn("rate", "out/s", "rate"),
    TopColumn("permits_left", "permits"),
    TopColumn("unacknowledged", "unacked"),
    TopColumn("redelivered", "again"),
    TopColumn("oldest_age_ns", "oldest", "duration", spare=True),
    TopColumn("delivered", "delivered", spare=True),
    _ADDRESS,
    TopColumn("last_ack_age_ns", "acked ago", "duration", spare=True),
    TopColumn("type", "type", "text", spare=True),
)

Columns = Mapping[str, tuple[TopColumn, ...]]
"""By view."""

COLUMNS: Columns = {
    "topics": (
        *(TopColumn("topic", "topic", "topic"), _IN, _OUT, _P99, _COURSE, _SENT, _DELIVERED),
        *(_BYTES_IN, _BYTES_OUT, _P50, _BYTES, _ERRORS),
    ),
    "producers": (
        *(TopColumn("producer", "producer", "name"), TopColumn("topic", "topic", "topic")),
        *(_IN, _P99, _SENT, _ADDRESS, _COURSE, _BYTES_IN, _P50, _BYTES, _ERRORS),
    ),
    "consumers": (
        *(TopColumn("subscription", "subscription", "name"), TopColumn("consumer", "consumer", "name")),
        *(*_CONSUMER[:4], TopColumn("topic", "topic", "topic", spare=True), *_CONSUMER[4:]),
    ),
    "connections": (
        *(TopColumn("client", "client", "name"), TopColumn("server", "server", "name"), _IN, _OUT),
        *(TopColumn("idle_ns", "quiet for", "duration", spare=True), _COURSE, TopColumn("age_ns", "known for", "duration", spare=True)),
        *(_BYTES_IN, _BYTES_OUT, _SENT, _DELIVERED, _P99, TopColumn("frames", "frames", spare=True), _BYTES),
    ),
    "requests": (
        TopColumn("request", "request", "name"),
        *(TopColumn("rate", "rate", "rate"), _P50, _P99, TopColumn("max_ns", "max", "duration", spare=True)),
        *(TopColumn("requests", "since start"), TopColumn("errors", "refused"), TopColumn("unanswered", "unanswered")),
    ),
    "topic": (
        *(TopColumn("role", "role", "text"), TopColumn("name", "name", "name"), _IN),
        *_CONSUMER,
        *(_SENT, _P99),
    ),
    "connection": (
        *(TopColumn("time", "ago", "duration"), TopColumn("direction", "from", "text"), TopColumn("command", "command", "name")),
        *(TopColumn("topic", "topic", "topic"), TopColumn("messages", "messages"), TopColumn("size", "bytes", "size")),
        *(TopColumn("latency_ns", "latency", "duration"), TopColumn("status", "status", "text")),
        TopColumn("party", "producer or subscription", "name", spare=True),
    ),
    "findings": (
        *(TopColumn("severity", "severity", "text"), TopColumn("count", "times"), TopColumn("code", "finding", "name")),
        TopColumn("ago_ns", "last", "duration"),
    ),
}

VIEWS = ("topics", "producers", "consumers", "connections", "requests")
"""Views in the order of their tabs; those of tables of protocols follow."""

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
    """Return the columns of all views, those of tables of protocols included."""
    return {
        **COLUMNS,
        **{table.name: tuple(TopColumn(each.key, each.heading, each.form, each.spare) for each in table.columns) for table in tables},
    }


def identity(view: str, record: ReportRecord, columns: Columns = COLUMNS) -> tuple[Any, ...]:
    """Return what stays the same of a record from one moment to the next: of tables of protocols the names that they begin with."""
    names = _IDENTITY.get(view) or [column.key for column in takewhile(lambda column: column.is_name, columns[view])]
    return tuple(record.get(key) for key in names)


def records(snapshot: Snapshot, view: str, name: str | None, frames: list[FrameLine]) -> list[ReportRecord]:
    """Return the records of a view; `name` is that of its topic or connection, `frames` those of the connection."""
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


def selected(columns: Iterable[TopColumn], rows: list[ReportRecord], pattern: str) -> list[ReportRecord]:
    """Return the records with a name that has the pattern in it, whatever the case."""
    if not pattern:
        return rows
    pattern = pattern.lower()
    names = [column.key for column in columns if column.is_name]
    return [row for row in rows if any(pattern in str(row.get(name) or "").lower() for name in names)]


def ordered(rows: list[ReportRecord], column: TopColumn | None, *, reverse: bool) -> list[ReportRecord]:
    """Return the records by a column: numbers from the largest, text from A; those without a value last."""
    if column is None:
        return rows[::-1] if reverse else rows

    def value(row: ReportRecord) -> Any:
        found = row[column.key]
        return sum(found) if isinstance(found, list) else found

    with_value = [row for row in rows if row.get(column.key) not in (None, "")]
    with_value.sort(key=value, reverse=column.is_name == reverse)
    return with_value + [row for row in rows if row.get(column.key) in (None, "")]


def add_table(report: TextReport, columns: Iterable[TopColumn], rows: list[ReportRecord], sorted_by: str | None) -> None:
    """Add the rows of a view to a report, with the mark of the column that they are sorted by."""
    mark = "▾" if report.unicode else "v"
    report.table(
        [
            TextColumn(
                f"{column.heading}{mark}" if column.key == sorted_by else column.heading,
                [_cell(report, column, row.get(column.key)) for row in rows],
                right=not (column.is_name or column.form == "course"),
                name=column.form in {"name", "topic"},
                spare=column.spare,
            )
            for column in columns
        ]
    )


def _cell(report: TextReport, column: TopColumn, value: Any) -> str:
    if value is None:
        return ""
    match column.form:
        case "topic":
            return escape(report.short_topic(value))
        case "rate":
            return rate_text(value) if value else "0/s"
        case "size_rate":
            return f"{size_text(value)}/s" if value else ""
        case "size":
            return size_text(value)
        case "duration":
            return report.duration(value)
        case "course":
            return course(value, unicode=report.unicode)
        case "count":
            return f"{value:,}"
    return escape(str(value))


def course(counts: list[int], *, unicode: bool) -> str:
    """Return counts as a line of bars, the highest for the largest count."""
    bars = COURSE if unicode else COURSE_ASCII
    largest = max(counts, default=0)
    return "".join(bars[-(-count * (len(bars) - 1) // largest)] if count > 0 else bars[0] for count in counts) if largest else ""
