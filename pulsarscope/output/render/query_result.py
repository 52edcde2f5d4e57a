"""The result of a query as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from pulsarscope.output.export.database import plain
from pulsarscope.output.render.cell_text import escape
from pulsarscope.output.render.text_report import ReportOptions, TextColumn, TextReport

CHARACTERS_MAX = 2_000
"""Characters of a cell: no longer text fits a screen."""


def query_text(names: Sequence[str], rows: Sequence[tuple[Any, ...]], more: int, options: ReportOptions) -> bytes:
    """Return a table, with the number of rows that were left out."""
    report = TextReport(options)
    columns = []
    for at, name in enumerate(names):
        values = [row[at] for row in rows]
        numbers = all(value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)) for value in values)
        columns.append(TextColumn(escape(name), [_cell(value) for value in values], right=numbers, name=not numbers, kept=True))
    report.table(columns, more, "row")
    if not rows:
        report.paragraph("no rows", color=report.palette.dim)
    return report.text()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, (bytes, bytearray)):
        return bytes(value[:CHARACTERS_MAX]).hex()
    if isinstance(value, float):
        return f"{value:.6g}"
    converted = plain(value)
    text = converted if isinstance(converted, str) else msgspec.json.encode(converted).decode()
    return escape(text[:CHARACTERS_MAX])
