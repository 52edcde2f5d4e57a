"""Outputs of journeys entry by entry."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from pulsarscope.model.records import JourneyRow
from pulsarscope.output.export.sink import Sink
from pulsarscope.output.registry import OutputOptions


class EntriesOutput:
    """An output that encodes all journeys of an entry together."""

    def __init__(self, sink: Sink, options: OutputOptions) -> None:
        del options
        self._sink = sink
        self._entry: list[JourneyRow] = []
        """Rows of the latest entry; the next batch may bring more of them."""

    def encode(self, entry: Sequence[JourneyRow]) -> bytes:
        """Return the encoded entry."""
        raise NotImplementedError

    def write(self, rows: list[Any]) -> None:
        """Write rows (see `Output`)."""
        journeys = [*self._entry, *(row for row in rows if type(row) is JourneyRow)]
        entries = [[*entry] for _, entry in groupby(journeys, entry_name)]
        self._entry = entries.pop() if entries else []
        for entry in entries:
            self._sink.write(self.encode(entry))

    def close(self) -> None:
        """Write the last entry."""
        if self._entry:
            self._sink.write(self.encode(self._entry))


def entry_name(row: JourneyRow) -> tuple[Any, ...]:
    """Return a key that all rows of one entry share, and no other row has."""
    return row.source, row.topic, row.ledger, row.entry, row.send_frame
