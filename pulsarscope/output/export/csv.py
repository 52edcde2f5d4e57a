"""CSV (RFC 4180, UTF-8): a header and one kind of record."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Any

from pulsarscope.model.errors import UsageError
from pulsarscope.model.ordered_rows import opened
from pulsarscope.model.text import show_controls
from pulsarscope.output.export.columns import cell_types, cells, is_constant, json_lines
from pulsarscope.output.export.iso_times import IsoTimes
from pulsarscope.output.export.ndjson import LinesOutput
from pulsarscope.output.export.sink import Sink
from pulsarscope.output.registry import OutputOptions, choose_columns, column_names

FORMULA_STARTS = frozenset("=+-@\t\r")
"""First characters of formulas, which spreadsheets evaluate. A leading apostrophe makes the cell a text (OWASP, CSV injection)."""

_QUOTED = '",\r\n'
"""Characters for which a cell needs quotes."""

_UNSAFE_PARTS = ('"', ",", *(f" {start}" for start in FORMULA_STARTS))
"""Parts of texts that need a change in a cell. Texts that are printable and have none of these, each after a space, stay as they are."""


class CsvLines:
    """An encoder of rows of one kind to CSV, column by column: ten cells of a column take as long as a single cell on its own."""

    def __init__(self, kinds: Sequence[str], names: Sequence[str] | None) -> None:
        if len(kinds) != 1:
            raise UsageError(f"a CSV file holds one kind of record, not {', '.join(kinds)}: choose one with --records, or --format ndjson")
        self._names = choose_columns(names, kinds, flat=True)[kinds[0]]
        every = column_names(kinds[0], flat=True)
        self._places = None if names is None else [every.index(name) for name in self._names]
        types = cell_types(kinds[0])
        self._types = [types[name] for name in self._names]
        self._times = IsoTimes()

    def header(self) -> bytes:
        """Return the line with the names of the columns."""
        return _ended([",".join(self._names)])

    def encode(self, rows: list[Any]) -> bytes:
        """Encode rows (see `RowEncoder`)."""
        return _ended(self._lines(rows)) if rows else b""

    def lines(self, rows: list[Any]) -> list[bytes]:
        """Encode each row to a line (see `LineEncoder`)."""
        return [_ended([line]) for line in self._lines(rows)] if rows else []

    def ordered(self, ordered: Any, following: Sequence[Any], encode: Callable[[list[Any]], bytes]) -> bytes:
        """Encode ordered rows and the rows after them; `encode` encodes the Python rows (see `ColumnEncoder`)."""
        lines: bytes = opened([ordered, *following]).csv(encode, _cell, self._places)
        return lines

    def _lines(self, rows: list[Any]) -> list[str]:
        """Return the lines of some rows, without their ends."""
        columns = [self._texts(values, kind) for values, kind in zip(cells(rows, self._names), self._types, strict=True)]
        if len(columns) == 1:  # readers skip empty lines
            columns = [[text or '""' for text in columns[0]]]
        # Values that all rows of the block share are part of the format of its lines.
        constant = [is_constant(column) for column in columns]
        texts = [
            str(column[0]).replace("{", "{{").replace("}", "}}") if same else "{}" for column, same in zip(columns, constant, strict=True)
        ]
        line = ",".join(texts).format
        varying = [column for column, same in zip(columns, constant, strict=True) if not same]
        return list(map(line, *varying)) if varying else [line()] * len(rows)

    def _texts(self, values: Sequence[Any], kind: str) -> Sequence[Any]:
        """Return the cells of a column: texts, or whole numbers."""
        count = len(values)
        if kind != "json" and count > 1 and is_constant(values):
            return list(self._texts(values[:1], kind)) * count
        present = [value for value in values if value is not None]
        if kind == "json":
            texts: Sequence[Any] = [_quote(line) for line in json_lines(present)]
        elif kind == "string":
            texts = _safe(present)
        elif kind == "time":
            text = self._times.text
            texts = [text(value) or "" for value in present]
        elif kind == "strings":
            texts = [_quote(safe_text(" ".join(value))) for value in present]
        elif kind == "bytes":
            texts = [safe_text(b64encode(value).decode()) for value in present]
        elif kind == "bool":
            texts = ["true" if value else "false" for value in present]
        else:
            texts = present
        if len(present) == count:
            return texts
        next_text = iter(texts).__next__
        return ["" if value is None else next_text() for value in values]


class CsvOutput(LinesOutput):
    """The output `csv`."""

    def __init__(self, sink: Sink, options: OutputOptions) -> None:
        encoder = CsvLines(options.kinds, options.columns)
        super().__init__(sink, encoder)
        self.put(encoder.header())


def _ended(lines: list[str]) -> bytes:
    """Return lines with their ends, encoded."""
    lines.append("")
    return "\r\n".join(lines).encode("utf-8", "backslashreplace")


def _safe(texts: list[str]) -> list[str]:
    """Return the cells of texts, made safe: none runs as a formula or controls a terminal."""
    different = set(texts)
    joined = " " + " ".join(different)
    if joined.isprintable() and not any(mark in joined for mark in _UNSAFE_PARTS):
        return texts
    cell_of = {text: _quote(safe_text(text)) for text in different}
    return [cell_of[text] for text in texts]


def _cell(text: str | None) -> bytes:
    """Return the cell of a text, encoded."""
    return b"" if text is None else _quote(safe_text(text)).encode("utf-8", "backslashreplace")


def safe_text(text: str) -> str:
    """Return the text without quotes, made safe: it neither runs as a formula nor controls a terminal."""
    if not text.isprintable():
        text = show_controls(text)
    return f"'{text}" if text[:1] in FORMULA_STARTS else text


def _quote(text: str) -> str:
    if '"' in text:
        return '"' + text.replace('"', '""') + '"'
    return f'"{text}"' if any(mark in text for mark in _QUOTED) else text
