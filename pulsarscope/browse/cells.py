"""Cells of the tables of a screen."""

from __future__ import annotations

from rich.text import Text

from pulsarscope.model.records import FindingRow
from pulsarscope.output.render.cell_text import escape
from pulsarscope.output.render.times import duration_text


def cell(value: object, form: str = "") -> Text:
    """Return a value as inert text, a number at the right, a duration (nanoseconds) in its unit."""
    if isinstance(value, int):
        return Text(duration_text(value) if form == "duration" else f"{value:,}", justify="right")
    return Text("" if value is None else escape(str(value)))


def place(row: FindingRow) -> str:
    """Return the name of the first frame of a finding; "" when it names none."""
    named = (row.evidence or {}).get("frames")
    if isinstance(named, list) and named:
        return str(named[0])
    return "" if row.packet is None else f"{row.file or 0}:{row.packet}.{row.sub or 1}"
