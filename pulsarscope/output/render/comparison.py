"""The comparison of two runs as text: the verdict, then the largest changes."""

from __future__ import annotations

from collections.abc import Callable

from pulsarscope.analysis.comparison import Comparison
from pulsarscope.analysis.tally import ReportRecord
from pulsarscope.model.text import plural
from pulsarscope.output.render.cell_text import escape
from pulsarscope.output.render.text_report import ReportOptions, TextColumn, TextReport, change_text, rate_text, size_text

VERDICT_CHANGES_MAX = 3
"""Changes of each kind in the verdict."""


def verdict(comparison: Comparison, duration: Callable[[int | None], str]) -> str:
    """Return one sentence about the notable changes."""
    silent = [which for which, side in (("first", comparison.before), ("second", comparison.after)) if not side.diagnosis.connections]
    if silent:
        where = f"the {silent[0]}" if len(silent) == 1 else "either"
        return f"Nothing to compare: no connection of a known protocol in {where} capture (see diagnose)."
    changes = comparison.verdict()
    parts = [f"{way}: {_listed([_speed(record, duration) for record in changes[way]])}" for way in ("slower", "faster") if changes[way]]
    for change, findings in (("more findings", changes["worse"]), ("fewer findings", changes["better"])):
        if findings:
            parts.append(f"{change}: {_listed([_count(record) for record in findings])}")
    sentence = "; ".join(parts or ["no notable change"])
    lost = [
        f"{side.diagnosis.missing_bytes:,} bytes are missing from the {which} capture"
        for which, side in (("first", comparison.before), ("second", comparison.after))
        if side.diagnosis.missing_bytes
    ]
    but = f"; but {' and '.join(lost)}" if lost else ""
    return f"{sentence[0].upper()}{sentence[1:]}{but}."


def _listed(changes: list[str]) -> str:
    hidden = len(changes) - VERDICT_CHANGES_MAX
    return ", ".join(changes[:VERDICT_CHANGES_MAX]) + (f" and {hidden:,} more" if hidden > 0 else "")


def _speed(record: ReportRecord, duration: Callable[[int | None], str]) -> str:
    """Return the percentile with the largest change."""
    name = max(("p99_ns", "p50_ns"), key=lambda percentile: abs(record[percentile]["change_percent"] or 0))
    change = record[name]
    times = f"{duration(change['before'])} to {duration(change['after'])}"
    return f"{record['request']} {name.removesuffix('_ns')} {times} ({change_text(change['change_percent'])})"


def _count(record: ReportRecord) -> str:
    return f"{record['code']} {record['before']:,} to {record['after']:,}"


def comparison_text(comparison: Comparison, names: tuple[str, str], options: ReportOptions) -> bytes:
    """Return the report, with the names of the two sides."""
    report = TextReport(options)
    look = report.palette
    color = {"error": look.bad, "healthy": look.good}.get(comparison.level, look.bold)
    report.paragraph(escape(verdict(comparison, report.duration)), color=color)
    if options.quiet:
        return report.text()
    report.paragraph(f"before: {escape(names[0])}", 2, look.dim)
    report.paragraph(f"after:  {escape(names[1])}", 2, look.dim)
    _totals(report, comparison.totals())
    _exchanges(report, comparison.exchanges())
    _findings(report, comparison.findings())
    _names(report, comparison.names())
    return report.text()


def _totals(report: TextReport, records: list[ReportRecord]) -> None:
    shown = [record for record in records if record["before"] or record["after"]]
    if not shown:
        return
    report.heading("Whole captures")
    report.table(
        [
            TextColumn("", [_TITLES[record["what"]] for record in shown], right=False, name=True),
            *(
                TextColumn(side, [number_text(record["what"], record[side], report.duration) for record in shown])
                for side in ("before", "after")
            ),
            TextColumn("change", [change_text(record["change_percent"]) for record in shown]),
        ]
    )


_TITLES = {
    "duration_ns": "duration",
    "connections": "connections",
    "frames": "frames",
    "client_messages": "messages sent",
    "server_messages": "messages delivered",
    "messages_per_second": "rate of messages",
    "bytes_per_second": "rate of bytes",
    "exchanges": "exchanges",
    "errors": "refused",
    "unanswered": "unanswered",
    "exchanges_per_second": "rate of exchanges",
    "retransmitted": "segments retransmitted",
    "out_of_order": "segments out of order",
    "missing_bytes": "bytes missing",
    "zero_windows": "zero windows",
}


def title_of(what: str) -> str:
    """Return the title of a total."""
    return _TITLES[what]


def number_text(name: str, value: float | None, duration: Callable[[int], str]) -> str:
    """Return one side of a total."""
    if value is None:
        return "-"
    if name == "duration_ns":
        return duration(int(value))
    if name == "bytes_per_second":
        return f"{size_text(value)}/s"
    return rate_text(value) if name.endswith("_per_second") else f"{value:,}"


def _exchanges(report: TextReport, records: list[ReportRecord]) -> None:
    records = [record for record in records if record["exchanges"]["before"] or record["exchanges"]["after"]]
    if not (shown := records[: report.options.limit]):
        return
    report.heading("Exchanges", "largest change first; latencies to within 1 %")
    columns = [TextColumn("request", [escape(record["request"] or "(not seen)") for record in shown], right=False, name=True)]
    columns += _pair(report, "count", [record["exchanges"] for record in shown], lambda count: f"{count:,}", change=False)
    columns += _pair(report, "refused", [record["errors"] for record in shown], lambda count: f"{count:,}", change=False)
    columns += _pair(report, "p50", [record["p50_ns"] for record in shown], report.duration)
    columns += _pair(report, "p99", [record["p99_ns"] for record in shown], report.duration)
    report.table(columns, len(records) - len(shown), "kind")


def _pair(
    report: TextReport, title: str, changes: list[ReportRecord], text: Callable[[int], str], *, change: bool = True
) -> list[TextColumn]:
    """Return a column of "before → after", and one of the change."""
    arrow = report.symbols.to_server
    sides = [[text(record[side]) if record[side] is not None else "-" for record in changes] for side in ("before", "after")]
    width = max((len(cell) for cell in sides[1]), default=0)
    cells = [
        f"{before} {arrow} {after:>{width}}" if record["before"] or record["after"] else ""
        for before, after, record in zip(*sides, changes, strict=True)
    ]
    return [
        TextColumn(title, cells),
        *([TextColumn("", [change_text(record["change_percent"]) for record in changes])] if change else []),
    ]


def _findings(report: TextReport, records: list[ReportRecord]) -> None:
    if not records:
        return
    shown = records[: report.options.limit]
    report.heading("Findings")
    before, after = (max(len(f"{record[side]:,}") for record in shown) for side in ("before", "after"))
    for record in shown:
        counts = f"{record['before']:>{before},} {report.symbols.to_server} {record['after']:<{after},} "
        same = record["before"] == record["after"]
        label = f"{record['severity']:<7} {escape(record['code'])}"
        report.lines.append(f"  {counts} {label if same else report.severity(record['severity'], label)}")
    if len(records) > len(shown):
        report.paragraph(f"and {plural(len(records) - len(shown), 'more code')}", 2, report.palette.dim)


def _names(report: TextReport, records: list[ReportRecord]) -> None:
    for change in ("appeared", "vanished"):
        for kind in ("topic", "producer"):
            names = [_name(report, record, kind) for record in records if record["change"] == change and record["kind"] == kind]
            if not names:
                continue
            report.heading(f"{kind.capitalize()}s that {change}", f"{len(names):,}")
            for name in names[: report.options.limit]:
                report.paragraph(name, 2, hang=2)
            if len(names) > report.options.limit:
                report.paragraph(f"and {len(names) - report.options.limit:,} more", 2, report.palette.dim)


def _name(report: TextReport, record: ReportRecord, kind: str) -> str:
    topic = "" if record["topic"] is None else escape(report.short_topic(record["topic"]))
    return topic if kind == "topic" else f"{escape(record['producer_name'])}{f' on {topic}' if topic else ''}"
