"""The page of `compare`: the verdict, then the largest changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pulsarscope.analysis.comparison import Comparison
from pulsarscope.analysis.tally import ReportRecord
from pulsarscope.dissect.contract.capabilities import ReportColumn
from pulsarscope.model.text import duration
from pulsarscope.output.html.page import page, printable
from pulsarscope.output.html.report import PageOptions
from pulsarscope.output.html.sortable_tables import Table, table
from pulsarscope.output.render.comparison import number_text, title_of, verdict
from pulsarscope.output.render.text_report import change_text

_EXCHANGES = (
    ReportColumn("request", "request", "text"),
    ReportColumn("exchanges_before", "count before"),
    ReportColumn("exchanges_after", "after"),
    ReportColumn("errors_before", "refused before", spare=True),
    ReportColumn("errors_after", "refused after", spare=True),
    ReportColumn("p50_ns_before", "p50 before", "duration"),
    ReportColumn("p50_ns_after", "after", "duration"),
    ReportColumn("p50_ns_change", "change", "change"),
    ReportColumn("p99_ns_before", "p99 before", "duration"),
    ReportColumn("p99_ns_after", "after", "duration"),
    ReportColumn("p99_ns_change", "change", "change"),
)
_FINDINGS = (
    ReportColumn("code", "finding", "name"),
    ReportColumn("severity", "severity", "severity"),
    ReportColumn("before", "before"),
    ReportColumn("after", "after"),
    ReportColumn("meaning", "meaning", "text"),
)
_NAMES = (
    ReportColumn("change", "change", "text"),
    ReportColumn("kind", "kind", "text"),
    ReportColumn("topic", "topic", "topic"),
    ReportColumn("producer_name", "producer", "name"),
)


def comparison_page(comparison: Comparison, names: tuple[str, str], options: PageOptions) -> bytes:
    """Return the page; `names` are the names of the two sides."""
    clean = printable(
        {
            "state": verdict(comparison, lambda nanoseconds: "" if nanoseconds is None else duration(nanoseconds)),
            "names": names,
            "totals": comparison.totals(),
            "exchanges": [_flat(record) for record in comparison.exchanges()],
            "findings": comparison.findings(),
            "appeared": comparison.names(),
        }
    )
    tables = [
        _table("exchanges", "Requests", "largest change first; latencies to within 1 %", _EXCHANGES, clean["exchanges"], options),
        _table("findings", "Findings", "", _FINDINGS, clean["findings"], options),
        _table("names", "Topics and producers that came or went", "", _NAMES, clean["appeared"], options),
    ]
    data = {
        "title": f"{clean['names'][0]} → {clean['names'][1]}",
        "level": comparison.level,
        "state": clean["state"],
        "before": clean["names"][0],
        "after": clean["names"][1],
        "totals": [_total(record) for record in clean["totals"] if record["before"] or record["after"]],
        "tables": [each for each in tables if each.rows],
        "anonymized": False,
        "version": options.version,
    }
    return page("comparison.html", data)


def _table(
    name: str, title: str, note: str, columns: tuple[ReportColumn, ...], records: Iterable[ReportRecord], options: PageOptions
) -> Table:
    return table(
        name, title, note, columns, records, options.limit, lambda form, text: options.short_topic(text) if form == "topic" else text
    )


def _flat(record: ReportRecord) -> ReportRecord:
    """Return a record with a value for each side of each change."""
    flat: ReportRecord = {"request": record["request"] or "(not seen)"}
    for name, change in record.items():
        if isinstance(change, Mapping):
            flat |= {f"{name}_before": change["before"], f"{name}_after": change["after"], f"{name}_change": change["change_percent"]}
    return flat


def _total(record: ReportRecord) -> dict[str, Any]:
    sides = [number_text(record["what"], record[side], duration) for side in ("before", "after")]
    return {
        "title": title_of(record["what"]),
        "before": sides[0],
        "after": sides[1],
        "percent": record["change_percent"],
        "change": change_text(record["change_percent"]),
    }
