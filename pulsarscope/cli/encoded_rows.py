"""Rows encoded for an output, in this process or a worker, with the warnings for standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any

import msgspec

from pulsarscope.analysis.counted_once import CountedOnce, Fingerprint, mark_of
from pulsarscope.cli.standard_error import warn
from pulsarscope.dissect.contract.legs import AnchorRow
from pulsarscope.model.findings import ERROR, with_hint
from pulsarscope.model.ordered_rows import in_columns, in_rows, others, split
from pulsarscope.model.records import ConnectionRow, FindingRow
from pulsarscope.model.text import each_line, input_name
from pulsarscope.output.registry import encoder

JSON_OUTPUTS = ("json", "ndjson")
"""Outputs with a JSON object for each row."""

Warned = tuple[int | None, str]
"""A line, and the number of its file if the line does not name the file."""

NAMELESS = frozenset({"capture-truncated", "capture-malformed"})
"""Findings whose texts do not name the file."""


class EncodedRows(msgspec.Struct):
    """Encoded rows, and the lines for standard error."""

    rows: Any
    warnings: list[Warned]


class Encoding:
    """An encoder of rows for an output, which omits unrequested findings and connections. Damage becomes a line for standard error."""

    def __init__(self, output: str, kinds: tuple[str, ...], names: tuple[str, ...] | None) -> None:
        self._output = output
        self._kinds = kinds
        self._omitted = {each for each in (FindingRow, ConnectionRow) if each.kind not in kinds}
        self._names = names

    @property
    def takes_columns(self) -> bool:
        """See `parallel.Prepare`: JSON text has no raw line ends, so lines can be separated."""
        return self._output in JSON_OUTPUTS

    @cached_property
    def _encoder(self) -> Any:
        return encoder(self._output, self._kinds, self._names)

    def __call__(self, rows: list[Any], selected: list[Any] | None = None) -> EncodedRows:
        """Encode the selected rows (by default, all of `rows`), and warn of damage in any of `rows`. The encoder may change the rows."""
        ordered, following = split(rows if selected is None else selected)
        if ordered is not None:
            encoded = self._encoder.ordered(ordered, following, lambda of_python: self(of_python).rows)
            return EncodedRows(encoded, damage(others(rows)))
        of_python = others(rows)
        findings = [row for row in of_python if type(row) is FindingRow] if FindingRow in set(map(type, of_python)) else []
        warnings = damage(findings)
        if selected is None:
            selected = rows
        if not self._omitted.isdisjoint(map(type, selected)):
            selected = [row for row in selected if type(row) not in self._omitted]
        return EncodedRows(self._encoder.encode(selected), warnings)

    def prepare(self, rows: list[Any]) -> list[Any] | bytes:
        """Encode each row separately, as in `parallel.Prepare.prepare`; with its warnings, if there are any."""
        if in_columns(rows):
            findings = [row for row in others(rows) if type(row) is FindingRow]
            if not findings or ("finding" in self._kinds and not damage(findings)):
                return b"".join(self(rows).rows)
            rows = in_rows(rows)
        if FindingRow not in set(map(type, rows)):
            lines: list[bytes] | bytes = self._encoder.lines(rows)
            return lines
        shown = "finding" in self._kinds
        following = iter(each_line(self._encoder.lines(rows if shown else [row for row in rows if type(row) is not FindingRow])))
        prepared: list[Any] = []
        for row in rows:
            is_finding = type(row) is FindingRow
            line = next(following) if shown or not is_finding else b""
            warnings = damage((row,)) if is_finding else ()
            prepared.append((line, warnings) if warnings else line)
        return prepared

    def join(self, prepared: list[Any]) -> EncodedRows:
        """Join the results of `prepare` for all rows of a batch."""
        warned = [value for value in prepared if type(value) is tuple]
        if warned:
            prepared = [value[0] if type(value) is tuple else value for value in prepared]
        return EncodedRows(b"".join(prepared), [line for _, warnings in warned for line in warnings])


class OnceEncoding:
    """An encoding of the rows that `CountedOnce` keeps; other processes cannot know which it keeps."""

    takes_columns = False

    def __init__(self, encoding: Encoding, shown: frozenset[str] = frozenset(), clock: Callable[[], float] | None = None) -> None:
        """Take `shown` and `clock` for `CountedOnce`."""
        self._encoding = encoding
        self._shown = shown
        self._once = CountedOnce(clock=clock, mark=itemgetter(0))

    def __call__(self, rows: list[Any], selected: list[Any] | None = None) -> EncodedRows:
        """Encode kept rows, as `Encoding` does."""
        return self._encoding(rows, selected)

    def prepare(self, rows: list[Any]) -> list[Any]:
        """Encode each row separately, as `Encoding` does, with the data that decide whether it is kept; anchors stay unchanged."""
        shown = self._shown
        marks = [None if type(row) is AnchorRow else _of_all_legs(row) if row.kind in shown else mark_of(row) for row in rows]
        values = iter(each_line(self._encoding.prepare([row for row in rows if type(row) is not AnchorRow])))
        return [row if mark is None else (mark, next(values)) for row, mark in zip(rows, marks, strict=True)]

    def join(self, prepared: list[Any]) -> EncodedRows:
        """Join the rows that are kept, as `Encoding` does."""
        return self._encoding.join([line for _, line in self._once.selected(prepared)])

    def rest(self) -> EncodedRows:
        """Join the rows that still wait when the run has ended."""
        return self._encoding.join([line for _, line in self._once.rest_of_selected()])


def _of_all_legs(row: Any) -> Fingerprint:
    return mark_of(row)._replace(connection=None, message=None)


AnyEncoding = Encoding | OnceEncoding


def damage(rows: Iterable[Any]) -> list[Warned]:
    """Return a line for each finding about a damaged input, which standard error gets regardless of -q and of what else is shown."""
    findings = [row for row in rows if type(row) is FindingRow and row.severity == ERROR and row.layer == "capture"]
    return [(row.file if row.code in NAMELESS else None, with_hint(row.text, row.hint)) for row in findings]


def warn_of(lines: Iterable[Warned], paths: Sequence[str]) -> None:
    """Warn of damage in captures, with their names."""
    for file, line in lines:
        warn(line if file is None else f"{input_name(paths[file])}: {line}")
