"""CSV (RFC 4180, UTF-8): a header and one kind of record."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

from pulsarscope.model.errors import UsageError
from pulsarscope.model.text import show_controls
from pulsarscope.output.export.columns import cell_types, cells, is_constant, json_lines
from pulsarscope.output.export.sink import Sink
from pulsarscope.output.export.times import IsoTimes
from pulsarscope.output.registry import OutputOptions, choose_columns

FORMULA_STARTS = frozenset("=+-@\t\r")
"""A spreadsheet runs a text cell that begins so; a leading apostrophe keeps it text (OWASP, CSV injection)."""

_QUOTED = '",\r\n'
"""A cell with one of these stands in quotes."""

_TELLING = ('"', ",", *(f" {start}" for start in FORMULA_STARTS))
"""Printable texts, with a space before each, that have none of these are cells as they are."""


class CsvLines:
    """Rows of one kind -> CSV, a line each. Column by column, because a cell alone costs as much as ten in their column."""

    def __init__(self, kinds: Sequence[str], names: Sequence[str] | None) -> None:
        if len(kinds) != 1:
            message = f"a CSV file holds one kind of record, not {', '.join(kinds)}: choose one with --records, or --format ndjson"
            raise UsageError(message)
        self._names = choose_columns(names, kinds, flat=True)[kinds[0]]
        types = cell_types(kinds[0])
        self._types = [types[name] for name in self._names]
        self._times = IsoTimes()

    def header(self) -> bytes:
        """The line with the names of the columns."""
        return _ended([",".join(self._names)])

    def encode(self, rows: list[Any]) -> bytes:
        """As `Encoder.encode`."""
        return _ended(self._lines(rows)) if rows else b""

    def lines(self, rows: list[Any]) -> list[bytes]:
        """As `LineEncoder.lines`."""
        return [_ended([line]) for line in self._lines(rows)] if rows else []

    def _lines(self, rows: list[Any]) -> list[str]:
        """Return the lines of some rows, without their ends."""
        columns = [self._texts(values, kind) for values, kind in zip(cells(rows, self._names), self._types, strict=True)]
        if len(columns) == 1:  # an empty line would be no row
            columns = [[text or '""' for text in columns[0]]]
        # What all rows of the block share is part of the format of its lines.
        constant = [is_constant(column) for column in columns]
        texts = [
            str(column[0]).replace("{", "{{").replace("}", "}}") if same else "{}" for column, same in zip(columns, constant, strict=True)
        ]
        line = ",".join(texts).format
        varying = [column for column, same in zip(columns, constant, strict=True) if not same]
        return list(map(line, *varying)) if varying else [line()] * len(rows)

    def _texts(self, values: Sequence[Any], kind: str) -> Sequence[Any]:
        """The cells of a column: texts, or whole numbers."""
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
            texts = [_quote(" ".join(value)) for value in present]
        elif kind == "bytes":
            texts = [b64encode(value).decode() for value in present]
        elif kind == "bool":
            texts = ["true" if value else "false" for value in present]
        else:
            texts = present
        if len(present) == count:
            return texts
        following = iter(texts)
        return ["" if value is None else next(following) for value in values]


class Csv:
    """The output `csv`."""

    def __init__(self, sink: Sink, options: OutputOptions) -> None:
        self._sink = sink
        self._lines = CsvLines(options.kinds, options.columns)
        self.put(self._lines.header())

    def write(self, rows: list[Any]) -> None:
        """As `Output.write`."""
        self.put(self._lines.encode(rows))

    def put(self, encoded: bytes) -> None:
        """As `EncodedOutput.put`."""
        if encoded:
            self._sink.write(encoded)

    def close(self) -> None:
        """Nothing is kept back."""


def _ended(lines: list[str]) -> bytes:
    """Lines with their ends."""
    lines.append("")
    return "\r\n".join(lines).encode("utf-8", "backslashreplace")


def _safe(texts: list[str]) -> list[str]:
    """Texts that neither run as a formula nor act on a terminal, as cells."""
    different = set(texts)
    joined = " " + " ".join(different)
    if joined.isprintable() and not any(mark in joined for mark in _TELLING):
        return texts
    cell_of = {text: _quote(safe_text(text)) for text in different}
    return [cell_of[text] for text in texts]


def safe_text(text: str) -> str:
    """The text, such that it neither runs as a formula nor acts on a terminal; not yet quoted."""
    if not text.isprintable():
        text = show_controls(text)
    return f"'{text}" if text[:1] in FORMULA_STARTS else text


def _quote(text: str) -> str:
    """A cell of this text."""
    if '"' in text:
        return '"' + text.replace('"', '""') + '"'
    return f'"{text}"' if any(mark in text for mark in _QUOTED) else text
