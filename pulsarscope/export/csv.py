"""CSV (RFC 4180, UTF-8): a header and one kind of record."""

from __future__ import annotations

import csv
import io
from base64 import b64encode
from typing import Any

from pulsarscope.errors import UsageError
from pulsarscope.escape import show_controls
from pulsarscope.export.cells import cell_types, cells
from pulsarscope.export.sink import Sink
from pulsarscope.export.times import IsoTimes
from pulsarscope.outputs import OutputOptions, choose_columns

FORMULA_STARTS = frozenset("=+-@\t\r")
"""A spreadsheet runs a text cell that begins so; a leading apostrophe keeps it text (OWASP, CSV injection)."""


class Csv:
    """The output `csv`."""

    def __init__(self, sink: Sink, options: OutputOptions) -> None:
        if len(options.kinds) != 1:
            message = f"a CSV file holds one kind of record, not {', '.join(options.kinds)}: choose one with --records, or --format ndjson"
            raise UsageError(message)
        kind = options.kinds[0]
        types = cell_types(kind)
        self._sink = sink
        self._columns = [(name, types[name]) for name in choose_columns(options.columns, options.kinds, flat=True)[kind]]
        self._times = IsoTimes()
        self._write_lines([[name for name, _ in self._columns]])

    def write(self, rows: list[Any]) -> None:
        """As `Output.write`."""
        if rows:
            self._write_lines(zip(*[self._texts(rows, name, kind_type) for name, kind_type in self._columns], strict=True))

    def close(self) -> None:
        """Nothing is kept back."""

    def _write_lines(self, lines: Any) -> None:
        buffer = io.StringIO()
        csv.writer(buffer).writerows(lines)
        self._sink.write(buffer.getvalue().encode("utf-8", "backslashreplace"))

    def _texts(self, rows: list[Any], name: str, kind_type: str) -> list[Any]:
        values = cells(rows, name, kind_type)
        if kind_type == "string":
            return [value if value is None or value.isalnum() else _safe(value) for value in values]
        if kind_type == "time":
            text = self._times.text
            return [None if value is None else text(value) for value in values]
        if kind_type == "strings":
            return [None if value is None else " ".join(value) for value in values]
        if kind_type == "bytes":
            return [None if value is None else b64encode(value).decode() for value in values]
        if kind_type == "bool":
            return [None if value is None else "true" if value else "false" for value in values]
        return values


def _safe(text: str) -> str:
    """A text that neither runs as a formula nor acts on a terminal."""
    if not text.isprintable():
        text = show_controls(text)
    return f"'{text}" if text[:1] in FORMULA_STARTS else text
