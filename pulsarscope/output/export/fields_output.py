"""Chosen fields of rows, any that a filter can name, as text, CSV, JSON or NDJSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

import msgspec

from pulsarscope.model.errors import UsageError
from pulsarscope.model.text import duration, escape_json
from pulsarscope.output.export.iso_times import IsoTimes
from pulsarscope.output.export.report_encoding import csv_cell
from pulsarscope.output.export.sink import Sink
from pulsarscope.output.registry import OutputOptions, RowFields
from pulsarscope.output.render.cell_text import cell_width, clip, escape
from pulsarscope.output.render.style import palette, symbols

CELL_WIDTH_MAX = 60
"""Widest padded column of text."""

DURATIONS = frozenset({"duration", "nanoseconds"})


class FieldsOutput:
    """The output `fields`. Times are ISO 8601. Durations are nanoseconds and bytes base64, except in text, where bytes are hex."""

    def __init__(self, sink: Sink, options: OutputOptions) -> None:
        """Write to the sink. Raises UsageError for Parquet, whose columns have one type."""
        if options.fields is None or options.format == "parquet":
            raise UsageError("Parquet takes columns of the records only: --format ndjson or csv has fields, too")
        self._sink = sink
        self._options = options
        self._fields: RowFields = options.fields
        self._names = self._fields.names
        self._several = len(options.kinds) > 1
        self._times = IsoTimes()
        self._widths = [min(cell_width(name), CELL_WIDTH_MAX) for name in self._names]
        self._before = b"[\n"
        self._headed = options.quiet

    def write(self, rows: list[Any]) -> None:
        """Write rows (see `Output`)."""
        endpoints: Mapping[str, tuple[str, str]] = self._options.run.endpoints
        self._fields.learn(rows)
        found = [(row.kind, values) for row in rows if (values := self._fields.values(row, endpoints)) is not None]
        if not found:
            return
        if self._options.format == "csv":
            self._write_csv([values for _, values in found])
        elif self._options.format in ("json", "ndjson"):
            self._write_json(found)
        else:
            self._write_text([values for _, values in found])

    def close(self) -> None:
        """End the output (see `Output`)."""
        if self._options.format == "json":
            self._sink.write(b"[]\n" if self._before == b"[\n" else b"\n]\n")
        elif self._options.format == "csv":
            self._write_csv([])

    def _write_csv(self, rows: list[list[Any]]) -> None:
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\r\n")
        if not self._headed or self._options.quiet:
            writer.writerows([self._names] if self._before else [])
            self._headed, self._before = True, b""
        writer.writerows([csv_cell(self._plain(name, value)) for name, value in zip(self._names, row, strict=True)] for row in rows)
        self._sink.write(file.getvalue().encode("utf-8", "backslashreplace"))

    def _write_json(self, rows: list[tuple[str, list[Any]]]) -> None:
        lines = []
        for kind, values in rows:
            present = {name: self._plain(name, value) for name, value in zip(self._names, values, strict=True) if value is not None}
            lines.append(escape_json(msgspec.json.encode({"record": kind, **present} if self._several else present)))
        if self._options.format == "ndjson":
            self._sink.write(b"".join(b"%b\n" % line for line in lines))
        else:
            self._sink.write(self._before + b",\n".join(lines))
            self._before = b",\n"

    def _write_text(self, rows: list[list[Any]]) -> None:
        cells = [[self._cell(name, value) for name, value in zip(self._names, row, strict=True)] for row in rows]
        for row in cells:
            self._widths = [max(width, min(cell_width(cell), CELL_WIDTH_MAX)) for width, cell in zip(self._widths, row, strict=True)]
        lines = []
        look = palette(self._options.color)
        if not self._headed:
            self._headed = True
            lines.append(f"{look.heading}{self._line(list(self._names))}{look.reset}")
        lines += [self._line(row) for row in cells]
        self._sink.write("".join(f"{line}\n" for line in lines).encode(self._options.encoding, "backslashreplace"))

    def _line(self, cells: list[str]) -> str:
        line = "  ".join(cell + " " * (width - cell_width(cell)) for cell, width in zip(cells, self._widths, strict=True)).rstrip()
        width = self._options.width
        return line if width is None else clip(line, width, symbols(self._options.encoding).ellipsis)

    def _plain(self, name: str, value: Any) -> Any:
        """Return a value for programs."""
        if self._fields.types.get(name) == "time" and isinstance(value, int):
            return self._times.text(value)
        return value

    def _cell(self, name: str, value: Any) -> str:
        if value is None:
            return "-"
        if isinstance(value, list):
            return ", ".join(self._cell(name, item) for item in value)
        if isinstance(value, bytes):
            return value.hex()
        if isinstance(value, int) and not isinstance(value, bool) and self._fields.types.get(name) in DURATIONS:
            return duration(value, symbols(self._options.encoding).micro)
        plain = self._plain(name, value)
        return escape(plain if isinstance(plain, str) else msgspec.json.encode(plain).decode())
