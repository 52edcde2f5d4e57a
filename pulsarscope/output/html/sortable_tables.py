"""Tables of a page: cells with their texts, and the numbers by which they sort."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pulsarscope.analysis.tally import ReportRecord
from pulsarscope.dissect.contract.capabilities import ReportColumn
from pulsarscope.model.text import duration
from pulsarscope.output.render.text_report import change_text, rate_text, size_text
from pulsarscope.output.render.times import moments

LEFT = frozenset({"name", "topic", "text", "frame", "connection", "severity"})
"""Forms of columns that are aligned left; all others are numbers."""

_FORMS: Mapping[str, Callable[[Any], str]] = {
    "count": lambda value: f"{value:,}",
    "duration": duration,
    "bytes": size_text,
    "rate": rate_text,
    "change": change_text,
}


class Cell(NamedTuple):
    """A cell: its text, the full text if that is shortened, and its sort key if that is a number."""

    text: str
    full: str
    number: float | None


class Table(NamedTuple):
    """A table of a page."""

    name: str
    title: str
    note: str
    columns: tuple[ReportColumn, ...]
    rows: list[list[Cell]]
    more: str
    """Note on the omitted rows; may be empty."""


Look = Callable[[str, str], str]
"""Form of a column, and a text → the text as it is shown."""


def table(
    name: str,
    title: str,
    note: str,
    columns: Sequence[ReportColumn],
    records: Iterable[ReportRecord],
    limit: int,
    look: Look,
) -> Table:
    """Return a table of at most `limit` records; a record that stands for many becomes a note."""
    named: list[ReportRecord] = []
    others: list[ReportRecord] = []
    for record in records:
        (others if record.get("others") else named).append(record)
    cells = [_cells(column, [record[column.key] for record in named[:limit]], look) for column in columns]
    rows = [list(row) for row in zip(*cells, strict=True)]
    kept = [index for index, column in enumerate(columns) if any(_has_content(row[index], spare=column.spare) for row in rows)]
    left_out = sum(record.get("rows", 0) for record in others)
    notes = [f"{len(named) - limit:,} more rows are left out (--limit)"] if len(named) > limit else []
    notes += [f"{left_out:,} did not fit into the table"] if left_out else ["others are counted together only"] if others else []
    return Table(
        name, title, note, tuple(columns[index] for index in kept), [[row[index] for index in kept] for row in rows], "; ".join(notes)
    )


def _has_content(cell: Cell, *, spare: bool) -> bool:
    """Return False for an empty cell, and for a zero of a spare column: columns without any other cell are left out."""
    return cell.text != "" and not (spare and cell.number == 0)


def _cells(column: ReportColumn, values: Sequence[Any], look: Look) -> list[Cell]:
    if column.form == "moment":
        return [Cell(text, "", value) for text, value in zip(moments(values), values, strict=True)]
    return [_cell(column.form, value, look) for value in values]


def _cell(form: str, value: Any, look: Look) -> Cell:
    if value is None:
        return Cell("", "", None)
    if form in _FORMS:
        return Cell(_FORMS[form](value), "", value)
    text = look(form, str(value))
    return Cell(text, "" if text == value else str(value), None)
