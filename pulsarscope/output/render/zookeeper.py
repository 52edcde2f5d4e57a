"""What is kept in ZooKeeper as text: a table for each kind of records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pulsarscope.output.render.cell_text import escape
from pulsarscope.output.render.text_report import Column, Report, ReportOptions


def registry_text(sections: Mapping[str, tuple[str, Sequence[dict[str, Any]]]], options: ReportOptions) -> bytes:
    """The report, of what each section is about and its records; sections without any are left out."""
    report = Report(options)
    for name, (about, records) in sections.items():
        if records:
            shown = records[: options.limit]
            report.heading(name.capitalize(), about)
            report.table([_column(key, shown) for key in shown[0]], len(records) - len(shown), name.removesuffix("s"))
    return report.text()


def _column(name: str, records: Sequence[dict[str, Any]]) -> Column:
    values = [record[name] for record in records]
    numbers = all(isinstance(value, int) for value in values if value is not None)
    return Column(name, [_cell(value) for value in values], right=numbers, name=True)  # 0 is a number like others


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return escape(value if isinstance(value, str) else msgspec.json.encode(value).decode())
