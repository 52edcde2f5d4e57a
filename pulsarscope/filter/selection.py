"""A compiled filter: which rows of a run pass, and how many did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pulsarscope.filter.check import Checker
from pulsarscope.filter.expression import Always, And, Expression, Not, Or
from pulsarscope.filter.fields import PAYLOAD, Catalogue
from pulsarscope.filter.predicate import Context, Predicate, compile_tree
from pulsarscope.filter.syntax import parse
from pulsarscope.model.records import FindingRow, FrameRow, MessageRow, RawFrame, Row

PAYLOAD_FORM = "base64"
"""Form of the payload in message rows when only the filter wants it."""

TOLD_LAYER = "capture"
"""Findings of this layer are about the input itself: they are told whatever the filter."""


class Filter:
    """What `-Y` gives. Raises FilterError when made of a text that is no filter for rows of these kinds."""

    def __init__(self, text: str, kinds: Sequence[str], catalogue: Catalogue, *, payload: str | None = None) -> None:
        """`payload`: the form in which message rows are to have it (base64, hex, text), if they are."""
        self.text = text
        self.words = "match the filter"
        """What the rows that pass do."""
        written = parse(text)
        checker = Checker(text, catalogue)
        checker.check(written, kinds)
        self.trees: dict[str, Expression] = {kind: checker.meaning(written, kind) for kind in kinds}
        """The meaning of the filter by kind of rows."""
        needs_payload = any(_reads_payload(expression) for expression in self.trees.values())
        self.payload = payload or (PAYLOAD_FORM if needs_payload else None)
        """The form in which message rows must have their payload: as it was asked for, else as the filter reads it."""
        self.seen = dict.fromkeys(kinds, 0)
        """Rows met, by kind."""
        self.kept = dict.fromkeys(kinds, 0)
        """Rows that passed, by kind."""
        self.start: int | None = None
        """Time of the first row met, nanoseconds since the epoch: the start of the capture for times without a date."""
        self._drop_payload = needs_payload and payload is None
        self._context = Context(catalogue.codes, self.payload)
        self._tests: dict[str, Predicate] = {kind: compile_tree(one, self._context) for kind, one in self.trees.items()}
        about = self.trees.get(FindingRow.kind) or checker.meaning(written, FindingRow.kind)
        self._tells = compile_tree(about, self._context)
        self._shown: tuple[int | None, int | None, int | None] | None = None

    def select(self, rows: Sequence[Any], endpoints: Mapping[str, tuple[str, str]]) -> list[Any]:
        """The rows that pass, in their order; `endpoints`: client and server of the connections that are known, by name.

        Rows that only explain others come along: the bytes of a frame with the frame; findings that nobody asked for when they are about
        the frame before, about the input, or what the filter looks for; connections that nobody asked for always.
        """
        self._context.endpoints = endpoints
        if self.start is None:
            self._begin(rows)
        tests, seen, kept = self._tests, self.seen, self.kept
        passed: list[Any] = []
        raw = False
        for row in rows:
            if type(row) is RawFrame:
                if raw:
                    passed.append(row)
                continue
            kind = row.kind
            test = tests.get(kind)
            if test is None:
                if self._explains(row):
                    passed.append(row)
                continue
            seen[kind] += 1
            raw = test(row)
            if raw:
                kept[kind] += 1
                passed.append(row)
                if kind == FrameRow.kind:
                    self._shown = (row.file, row.packet, row.sub)
        if self._drop_payload:
            for row in passed:
                if isinstance(row, MessageRow):
                    row.payload = None
        return passed

    def _begin(self, rows: Sequence[Any]) -> None:
        """The first row with a time begins the capture."""
        for row in rows:
            if isinstance(row, Row) and row.kind in self._tests and row.time is not None:
                self.start = self._context.start = row.time
                return

    def _explains(self, row: Any) -> bool:
        if type(row) is not FindingRow:
            return True
        return row.layer == TOLD_LAYER or (row.file, row.packet, row.sub) == self._shown or self._tells(row)


def _reads_payload(expression: Expression) -> bool:
    if isinstance(expression, (And, Or)):
        return any(_reads_payload(part) for part in expression.parts)
    if isinstance(expression, Not):
        return _reads_payload(expression.part)
    return not isinstance(expression, Always) and expression.field.column == PAYLOAD
