"""JSON: one array of the objects that are lines in NDJSON."""

from __future__ import annotations

from typing import Any

from pulsarscope.output.export.ndjson import JsonLines
from pulsarscope.output.export.sink import Sink
from pulsarscope.output.registry import OutputOptions


class JsonOutput:
    """The output `json`."""

    def __init__(self, sink: Sink, options: OutputOptions) -> None:
        self._sink = sink
        self._lines = JsonLines(options.kinds, options.columns)
        self._before = b"[\n"

    def write(self, rows: list[Any]) -> None:
        """As `Output.write`."""
        self.put(self._lines.encode(rows))

    def put(self, encoded: bytes) -> None:
        """As `EncodedOutput.put`."""
        if encoded:
            # JSON text has no raw line end, so each one is the end of a row.
            self._sink.write(self._before + encoded[:-1].replace(b"\n", b",\n"))
            self._before = b",\n"

    def close(self) -> None:
        """As `Output.close`."""
        self._sink.write(b"[]\n" if self._before == b"[\n" else b"\n]\n")
