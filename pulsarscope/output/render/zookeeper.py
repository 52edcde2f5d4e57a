"""Registries in ZooKeeper as text: a table for each section."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pulsarscope.output.render.cell_text import escape
from pulsarscope.output.render.text_report import ReportOptions, TextColumn, TextReport


def registry_text(sections: Mapping[str, tuple[str, Sequence[dict[str, Any]]]], options: ReportOptions) -> bytes:
    """Return the report of sections with a description and records; empty sections are omitted."""
    report = TextReport(options)
    for name, (description, records) in sections.items():
        if records:
            shown = records[: options.limit]
            report.heading(name.capitalize(), description)
            report.table([_column(key, shown) for key in shown[0]], len(records) - len(shown), name.removesuffix("s"))
    return report.text()


def _column(name: str, records: Sequence[dict[str, Any]]) -> TextColumn:
    values = [record[name] for record in records]
    numbers = all(isinstance(value, int) for value in values if value is not None)
    return TextColumn(name, [_cell(value) for value in values], right=numbers, name=True)  # a name: shown even if all values are 0


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return escape(value if isinstance(value, str) else msgspec.json.encode(value).decode())
