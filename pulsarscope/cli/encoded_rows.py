"""What records become before they are written, wherever that is done: encoded, and what standard error is told of them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import msgspec

from pulsarscope.model.findings import ERROR
from pulsarscope.model.records import FindingRow
from pulsarscope.output.registry import Encoder, encoder


class Encoded(msgspec.Struct):
    """Some rows, encoded, and the lines for standard error."""

    rows: Any
    complaints: list[str]


class Encoding:
    """Rows -> `Encoded`. What says that an input is damaged is a complaint, unless `quiet`; findings not asked for are left out."""

    def __init__(self, output: str, kinds: tuple[str, ...], names: tuple[str, ...] | None, *, quiet: bool) -> None:
        self._output = output
        self._kinds = kinds
        self._names = names
        self._quiet = quiet

    @cached_property
    def _encoder(self) -> Encoder:
        return encoder(self._output, self._kinds, self._names)

    def __call__(self, rows: list[Any], chosen: list[Any] | None = None) -> Encoded:
        """All rows, and those of them that a filter chose: what is damaged is told whatever it chose. The rows are handed over."""
        found = [row for row in rows if type(row) is FindingRow]
        complaints = [] if self._quiet else damage(found)
        wanted = rows if chosen is None else chosen
        if found and "finding" not in self._kinds:
            wanted = [row for row in wanted if type(row) is not FindingRow]
        return Encoded(self._encoder.encode(wanted), complaints)


def damage(rows: Iterable[Any]) -> list[str]:
    """What says among these rows that an input is damaged, a line each: standard error is told, whatever else is shown."""
    found = [row for row in rows if type(row) is FindingRow and row.severity == ERROR and row.layer == "capture"]
    return [f"{row.text}{f' {row.hint}' if row.hint else ''}" for row in found]
