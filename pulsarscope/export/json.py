"""JSON: one array of the objects that NDJSON has line by line."""

from __future__ import annotations

from typing import Any

from pulsarscope.export.ndjson import JsonLines
from pulsarscope.export.sink import Sink
from pulsarscope.outputs import OutputOptions


class Json:
    """The output `json`."""

    def __init__(self, sink: Sink, options: OutputOptions) -> None:
        self._sink = sink
        self._lines = JsonLines(options)
        self._before = b"[\n"

    def write(self, rows: list[Any]) -> None:
        """As `Output.write`."""
        if rows:
            # JSON text has no raw line end, so each one is the end of a row.
            lines = self._lines.encode(rows)[:-1].replace(b"\n", b",\n")
            self._sink.write(self._before + lines)
            self._before = b",\n"

    def close(self) -> None:
        """As `Output.close`."""
        self._sink.write(b"[]\n" if self._before == b"[\n" else b"\n]\n")
