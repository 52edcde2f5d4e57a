"""JSON: one array of the objects that are lines in NDJSON."""

from __future__ import annotations

from pulsarscope.output.export.ndjson import JsonLines, LinesOutput
from pulsarscope.output.export.sink import Sink
from pulsarscope.output.registry import OutputOptions


class JsonOutput(LinesOutput):
    """The output `json`."""

    def __init__(self, sink: Sink, options: OutputOptions) -> None:
        super().__init__(sink, JsonLines(options.kinds, options.columns))
        self._before = b"[\n"

    def put(self, encoded: bytes) -> None:
        """Write encoded rows as elements of the array."""
        if encoded:
            # JSON text has no raw line end, so each one is the end of a row.
            self._sink.write(self._before + encoded[:-1].replace(b"\n", b",\n"))
            self._before = b",\n"

    def close(self) -> None:
        """End the array."""
        self._sink.write(b"[]\n" if self._before == b"[\n" else b"\n]\n")
