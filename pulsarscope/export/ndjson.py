"""NDJSON: one object a line, in UTF-8. Absent values are left out."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import msgspec

from pulsarscope.export.sink import Sink
from pulsarscope.export.times import SECOND, IsoTimes
from pulsarscope.outputs import OutputOptions, choose_columns
from pulsarscope.records import ROWS, columns

TIME_COLUMNS = {kind: tuple(column.name for column in columns(kind) if column.type == "time" and column.name != "time") for kind in ROWS}
"""Columns that hold a time, besides `time` itself, by row type."""


class JsonLines:
    """Rows -> JSON, a line each."""

    def __init__(self, options: OutputOptions) -> None:
        self._times = IsoTimes()
        self._base = 0
        self._second = "1970-01-01T00:00:00.%09dZ"
        self._several = tuple(options.kinds) != ("frame",)
        self._encode = msgspec.json.Encoder().encode_lines
        self._chosen = None if options.columns is None else choose_columns(options.columns, options.kinds)

    def encode(self, rows: list[Any]) -> bytes:
        """The lines of some rows, each with its line end. The rows are changed: their times become text."""
        self._write_times(rows)
        return self._encode(rows if self._chosen is None else self._subset(rows))

    def _write_times(self, rows: list[Any]) -> None:
        # The rows are handed over, so the text takes the place of the number: no copy, and the encoder needs no hook.
        base, second = self._base, self._second
        last_time: int | None = None
        last_text: str | None = None
        text = self._times.text
        for row in rows:
            time = row.time
            if time != last_time:
                fraction = time - base if time is not None else -1
                if 0 <= fraction < SECOND:
                    last_text = second % fraction
                elif time is None:
                    last_text = None
                else:
                    last_text = text(time)
                    if last_text is not None:
                        base, second = time - time % SECOND, last_text[:20] + "%09dZ"
                last_time = time
            row.time = last_text
        if self._several:
            for row in rows:
                for name in TIME_COLUMNS[row.kind]:
                    value = getattr(row, name)
                    if value is not None:
                        setattr(row, name, text(value))
        self._base, self._second = base, second

    def _subset(self, rows: list[Any]) -> list[Any]:
        chosen = self._chosen or {}
        getters = {kind: [(name, attrgetter(name)) for name in names] for kind, names in chosen.items()}
        return [{"record": row.kind, **{name: value for name, get in getters[row.kind] if (value := get(row)) is not None}} for row in rows]


class Ndjson:
    """The output `ndjson`."""

    def __init__(self, sink: Sink, options: OutputOptions) -> None:
        self._sink = sink
        self._lines = JsonLines(options)

    def write(self, rows: list[Any]) -> None:
        """As `Output.write`."""
        if rows:
            self._sink.write(self._lines.encode(rows))

    def close(self) -> None:
        """Nothing is kept back."""
