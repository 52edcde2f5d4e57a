"""Outputs of encoded lines."""

from __future__ import annotations

from typing import Any

from pulsarscope.output.export.sink import Sink
from pulsarscope.output.registry import RowEncoder


class LinesOutput:
    """An output that writes the lines of an encoder to a sink."""

    def __init__(self, sink: Sink, encoder: RowEncoder) -> None:
        self._sink = sink
        self._encoder = encoder

    def write(self, rows: list[Any]) -> None:
        """Encode and write rows (see `Output`)."""
        self.put(self._encoder.encode(rows))

    def put(self, encoded: bytes) -> None:
        """Write encoded rows (see `EncodedOutput`)."""
        if encoded:
            self._sink.write(encoded)

    def close(self) -> None:
        """Do nothing: no row is pending."""
