"""Statistics as text: a summary, a table for each section, and histograms of latencies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pulsarscope.analysis.tally import ReportRecord, completed
from pulsarscope.dissect.contract.capabilities import ReportColumn, ReportTable
from pulsarscope.model.text import plural
from pulsarscope.output.render.cell_text import cell_width, escape
from pulsarscope.output.render.text_report import ReportOptions, TextColumn, TextReport, rate_text, size_text
from pulsarscope.output.render.times import instant_text, moments

HISTOGRAMS_MAX = 3
"""Number of families with a histogram of latencies: those with the most exchanges."""

HISTOGRAM_COUNT_MIN = 20
"""Least exchanges of a family for a histogram."""

BAR_WIDTH_MAX = 40
"""Longest bar of a histogram, cells."""

OTHERS = "(all others)"

_AMOUNTS = (
    ReportColumn("client_messages", "sent"),
    ReportColumn("server_messages", "delivered"),
    ReportColumn("bytes", "bytes", "bytes"),
)
_RATE = ReportColumn("messages_per_second", "rate", "rate", spare=True)
_P50, _P99 = ReportColumn("p50_ns", "p50", "duration"), ReportColumn("p99_ns", "p99", "duration")
_MAX = ReportColumn("max_ns", "max", "duration", spare=True)
_FAILURES = (ReportColumn("errors", "refused"), ReportColumn("unanswered", "open"))
_TOPIC = ReportColumn("topic", "topic", "topic")

_CONNECTIONS = (
    ReportColumn("connection", "conn", "connection"),
    ReportColumn("client", "client", "name"),
    ReportColumn("server", "server", "name"),
    ReportColumn("lasted", "lasted", "duration", spare=True),
    *_AMOUNTS,
    _P99._replace(spare=True),
    *_FAILURES,
    ReportColumn("retransmitted", "resent", spare=True),
    ReportColumn("out_of_order", "disorder", spare=True),
    ReportColumn("zero_windows", "zero win"),
    ReportColumn("missing_bytes", "missing"),
)
_PRODUCERS = (ReportColumn("producer_name", "producer", "name"), _TOPIC, *_AMOUNTS, _P50, _P99, _MAX, *_FAILURES)
_SUBSCRIPTIONS = (ReportColumn("subscription", "subscription", "name"), _TOPIC, *_AMOUNTS, _RATE, *_FAILURES)
_COMMANDS = (
    ReportColumn("command", "command", "name"),
    ReportColumn("frames", "frames"),
    ReportColumn("messages", "messages"),
    ReportColumn("bytes", "bytes", "bytes"),
    ReportColumn("frames_per_second", "rate", "rate"),
)
_LISTS = {
    "connections": ("Connections", "by messages and bytes", _CONNECTIONS),
    "topics": (
        "Topics",
        "rate of both directions; latencies of sending",
        (_TOPIC, *_AMOUNTS, _RATE, _P50, _P99, _MAX, *_FAILURES),
    ),
    "producers": ("Producers", "delivered: their messages, to any consumer", _PRODUCERS),
    "subscriptions": ("Subscriptions", "", _SUBSCRIPTIONS),
}
"""Title, note and columns of the sections that consist of one table."""

_EXCHANGES = (
    ReportColumn("request", "request", "name"),
    ReportColumn("count", "count"),
    *_FAILURES,
    ReportColumn("unrequested", "unasked"),
    ReportColumn("per_second", "rate", "rate", spare=True),
    *(_P50, ReportColumn("p90_ns", "p90", "duration", spare=True), _P99, _MAX),
)


def statistics_text(
    sections: Mapping[str, Sequence[ReportRecord]], options: ReportOptions, note: str = "", tables: Mapping[str, ReportTable] | None = None
) -> bytes:
    """Return the report, after a note (for example, that a filter selected the rows). `tables`: tables of protocols, by section."""
    report = TextReport(options)
    if note:
        report.paragraph(note, color=report.palette.dim)
    for name, records in sections.items():
        if tables is not None and name in tables:
            _protocol_table(report, tables[name], list(records))
        elif name in _LISTS:
            _table(report, *_LISTS[name], records, name.removesuffix("s"))
        else:
            _SECTIONS[name](report, list(records))
    return report.text()


def _protocol_table(report: TextReport, table: ReportTable, records: list[ReportRecord]) -> None:
    named = [record for record in records if not record.get("others")]
    _table(report, table.title, table.note, table.columns, named, table.name.removesuffix("s"))
    for others in records[len(named) :]:
        report.paragraph(f"{plural(others['rows'], 'row')} left out: the table is full", 2)


def _table(report: TextReport, title: str, note: str, columns: Sequence[ReportColumn], records: Sequence[ReportRecord], noun: str) -> None:
    shown = _head(report, title, records, note)
    report.table(report.columns(columns, [_named(record, columns) for record in shown]), len(records) - len(shown), noun)


def _named(record: ReportRecord, columns: Sequence[ReportColumn]) -> ReportRecord:
    """Return a completed record. A record that stands for many says so in its first column of names."""
    if not record.get("others"):
        return completed(record)
    first, *rest = [column.key for column in columns if column.form in ("name", "topic")]
    return {**completed(record), **dict.fromkeys(rest), first: OTHERS}


def _total(report: TextReport, records: list[ReportRecord]) -> None:
    total = records[0]
    look, marks = report.palette, report.symbols
    dot = f" {marks.dot} "
    summary = [plural(total["connections"], "connection")]
    if total["unknown_connections"]:
        summary.append(f"{total['unknown_connections']:,} of no known protocol" + (" (see diagnose)" if not total["connections"] else ""))
    if total["start"] is not None:
        summary.append(f"{report.duration(total['duration_ns'])} from {instant_text(total['start'])}")
    report.paragraph(dot.join(summary), color=look.bold)
    report.file_names()
    span = (total["duration_ns"] or 0) / 1e9
    columns: list[list[str]] = [[], [], [], [], []]
    for side, label in (("client", f"clients {marks.to_server}"), ("server", f"servers {marks.to_server}")):
        size, messages = total[f"{side}_bytes"], total[f"{side}_messages"]
        rates = [rate_text(messages / span) if messages else "", f"{size_text(size / span)}/s"] if span else ["", ""]
        cells = [label, plural(total[f"{side}_frames"], "frame"), plural(messages, "message"), size_text(size)]
        rate = ", ".join(filter(None, rates))
        for column, cell in zip(columns, [*cells, rate], strict=True):
            column.append(cell)
    for row in zip(*columns, strict=True):
        cells = [text.ljust(max(map(cell_width, column))) for text, column in zip(row, columns, strict=True)]
        report.paragraph("  ".join(cells).rstrip(), 2)
    exchanges = [plural(total["exchanges"], "exchange")]
    exchanges += [report.severity("error", f"{total['errors']:,} refused")] if total["errors"] else []
    exchanges += [report.severity("warning", f"{total['unanswered']:,} unanswered")] if total["unanswered"] else []
    exchanges += [plural(total["unrequested"], "answer") + " without request"] if total["unrequested"] else []
    percentiles = ""
    if total["p50_ns"] is not None:
        percentiles = "  ".join(f"p{part} {report.duration(total[f'p{part}_ns'])}" for part in (50, 90, 99))
        percentiles += f"  max {report.duration(total['max_ns'])}"
    report.lines.append("  " + dot.join(exchanges))
    if percentiles:
        report.paragraph(f"latency of sending: {percentiles}", 2)
    tcp = [
        f"{total[name]:,} {label}"
        for name, label in (
            ("retransmitted", "retransmitted"),
            ("out_of_order", "out of order"),
            ("zero_windows", "zero windows"),
            ("missing_bytes", "bytes missing from the capture"),
            ("midstream_connections", "begun before the capture"),
        )
        if total[name]
    ]
    if total["connections"]:
        report.paragraph(f"TCP: {dot.join(tcp) or 'nothing retransmitted, out of order or missing'}", 2)


def _commands(report: TextReport, records: list[ReportRecord]) -> None:
    shown = _head(report, "Commands", records)
    arrows = {"client": report.symbols.to_server, "server": report.symbols.to_client}
    directions = TextColumn("", [arrows.get(record["direction"], "") for record in shown], right=False)
    columns = report.columns(_COMMANDS, [_named(record, _COMMANDS) for record in shown])
    report.table([directions, *columns], len(records) - len(shown), "command")


def _exchanges(report: TextReport, records: list[ReportRecord]) -> None:
    seen = [{**record, "request": record["request"] or "(not seen)"} for record in records]
    _table(report, "Exchanges", "latencies to within 1 %", _EXCHANGES, seen, "kind")
    frequent = sorted((record for record in records if record["request"]), key=lambda record: record["count"], reverse=True)
    for record in frequent[:HISTOGRAMS_MAX]:
        if record["count"] >= HISTOGRAM_COUNT_MIN:
            _histogram(report, record)


def _histogram(report: TextReport, record: ReportRecord) -> None:
    octaves = record["histogram"]
    if not (most := max((octave["count"] for octave in octaves), default=0)):
        return
    report.heading(f"Latency of {escape(record['request'])}", "each row covers latencies twice as long as the row before")
    labels = [(report.duration(octave["from_ns"]), report.duration(octave["to_ns"])) for octave in octaves]
    left, right = (max(cell_width(label[side]) for label in labels) for side in (0, 1))
    digits = len(f"{most:,}")
    room = min(max(report.width - left - right - digits - 15, 5), BAR_WIDTH_MAX)
    color = report.palette.connection(1)
    for octave, (start, end) in zip(octaves, labels, strict=True):
        bar = report.bar(octave["count"] / most, room)
        share = f"{octave['count'] * 100 / max(sum(each['count'] for each in octaves), 1):3.0f} %"
        counts = f"{octave['count']:>{digits},} {share}"
        line = f"  {start:>{left}} - {end:>{right}}  {counts}  {color}{bar}{report.palette.reset if color else ''}"
        report.lines.append(line.rstrip())


def _slowest(report: TextReport, records: list[ReportRecord]) -> None:
    families: dict[str, list[ReportRecord]] = {}
    for record in records:
        families.setdefault(record["request"] or "(not seen)", []).append(record)
    if not families:
        return
    report.heading("Slowest exchanges", "latency and frame of the request")
    shown = list(families.items())[: report.options.limit]
    width = max(cell_width(escape(name)) for name, _ in shown)
    for name, slowest in shown:
        line = f"  {escape(name)}" + " " * (width - cell_width(escape(name)))
        for record in slowest:
            item = f"  {report.duration(record['latency_ns']):>7} at {report.reference(record['frame'])}"
            if cell_width(line) + cell_width(item) > report.width:
                break
            line += item
        report.lines.append(line)
    if len(families) > len(shown):
        report.lines.append(f"{report.palette.dim}  and {plural(len(families) - len(shown), 'more kind')}{report.palette.reset}")


def _intervals(report: TextReport, records: list[ReportRecord]) -> None:
    if not records:
        return
    first, last = records[0], records[-1]
    length = first["interval_ns"]
    slots = (last["start"] - first["start"]) // length + 1
    quiet = "; intervals without any frame are left out" if slots > len(records) else ""
    report.heading(f"Every {report.duration(length)}", f"from {instant_text(first['start'])}{quiet}")
    most = max(sum(_both(record, "bytes")) for record in records) or 1
    sent = [_both(record, "messages")[0] for record in records]
    columns = [
        TextColumn("at", moments([record["start"] - first["start"] for record in records])),
        TextColumn("frames", [f"{sum(_both(record, 'frames')):,}" for record in records]),
        TextColumn("sent", [f"{count:,}" for count in sent]),
        TextColumn("delivered", [f"{_both(record, 'messages')[1]:,}" for record in records]),
        TextColumn(f"{report.symbols.to_server} bytes", [size_text(record["client_bytes"]) for record in records]),
        TextColumn(f"{report.symbols.to_client} bytes", [size_text(record["server_bytes"]) for record in records]),
        TextColumn("refused", [f"{record['errors']:,}" for record in records]),
        *report.columns([_P99], records),
        TextColumn(
            "", [report.bar(sum(_both(record, "bytes")) / most, 12) for record in records], right=False, color=report.palette.connection(1)
        ),
    ]
    report.table(columns)


def _both(record: ReportRecord, column: str) -> tuple[int, int]:
    return record[f"client_{column}"], record[f"server_{column}"]


def _head(report: TextReport, title: str, records: Sequence[ReportRecord], note: str = "") -> list[ReportRecord]:
    """Add the heading, and return the records to show below it: up to the limit, then the record that stands for the others."""
    report.heading(title, note if records else "none")
    hidden = records[report.options.limit :]
    return [*records[: report.options.limit], *(record for record in hidden if record.get("others"))]


_SECTIONS = {
    "total": _total,
    "commands": _commands,
    "exchanges": _exchanges,
    "slowest": _slowest,
    "intervals": _intervals,
}
