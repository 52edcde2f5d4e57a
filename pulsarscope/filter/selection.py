"""A compiled filter: it selects the rows of a run that match, and counts them."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from operator import itemgetter
from typing import Any, Protocol

from pulsarscope.filter.check import Checker
from pulsarscope.filter.column_mask import mask_of
from pulsarscope.filter.expression import Always, And, Compare, Expression, Not, Or
from pulsarscope.filter.fields import PAYLOAD, Catalogue
from pulsarscope.filter.filter_error import FilterError
from pulsarscope.filter.predicate import EvaluationContext, Predicate, compile_tree
from pulsarscope.filter.syntax import (
    NUMBER,
    STRING,
    ComparisonTest,
    Conjunction,
    Disjunction,
    Literal,
    MembershipTest,
    Name,
    NamePart,
    Negation,
    Range,
    SyntaxTree,
    parse,
)
from pulsarscope.model.connection_name import connection_label, first_packet
from pulsarscope.model.latency import OCTAVE_BITS
from pulsarscope.model.limits import FOLLOW_NAMES_MAX
from pulsarscope.model.ordered_rows import in_columns, in_rows, opened, others
from pulsarscope.model.records import FindingRow, FrameRow, MessageRow, RawFrame, Row
from pulsarscope.model.text import either

_NAME = re.compile(r"#?(?:([0-9]{1,9}):)?([0-9]{1,11})(?:\.([0-9]{1,9}))?")
"""File, packet, number of the frame within the packet."""

_COLUMNS = ("file", "packet", "sub")


def with_frame_names(syntax_tree: SyntaxTree, text: str) -> SyntaxTree:
    """Return the tree of a filter with frame names replaced by columns. Raises FilterError for a text that names no frame."""
    if isinstance(syntax_tree, (Conjunction, Disjunction)):
        return type(syntax_tree)(tuple(with_frame_names(part, text) for part in syntax_tree.parts))
    if isinstance(syntax_tree, Negation):
        return Negation(with_frame_names(syntax_tree.part, text))
    if isinstance(syntax_tree, ComparisonTest) and _is_frame(syntax_tree.field) and syntax_tree.operator in {"==", "!="}:
        named = _named(syntax_tree.field, syntax_tree.value, text)
        return named if syntax_tree.operator == "==" else Negation(named)
    if isinstance(syntax_tree, MembershipTest) and _is_frame(syntax_tree.field):
        return _any_of([_named(syntax_tree.field, item, text) for item in syntax_tree.items])
    return syntax_tree


def _is_frame(field: Name) -> bool:
    return [part.name for part in field.parts] == ["frame"] and field.slice is None and field.function is None and field.quantifier is None


def _named(field: Name, value: Literal | Range, text: str) -> SyntaxTree:
    literal = value.low if isinstance(value, Range) else value
    match = None
    if literal is value and literal.kind in {STRING, NUMBER}:
        match = _NAME.fullmatch(literal.text.strip("\"'"))
    if match is None:
        raise FilterError('a frame is named by its packet, as in frame == "57.1"', text, literal.place)
    tests: list[SyntaxTree] = [
        ComparisonTest(Name((NamePart(column, field.place),), None, field.place), "==", Literal(NUMBER, number, literal.place))
        for column, number in zip(_COLUMNS, match.groups(), strict=True)
        if number is not None
    ]
    return tests[0] if len(tests) == 1 else Conjunction(tuple(tests))


def _any_of(tests: Sequence[SyntaxTree]) -> SyntaxTree:
    return tests[0] if len(tests) == 1 else Disjunction(tuple(tests))


PAYLOAD_FORM = "base64"
"""Form of the payload in message rows if only the filter reads it."""

NAMES = frozenset({"topic", "producer_name", "subscription", "connection"})
"""Columns of names."""

SHOWN_NAMES_MAX = 10
"""Number of names that are listed when an unknown one was requested."""

INPUT_LAYER = "capture"
"""Layer of the findings about the input itself, which pass every filter."""


class Timed(Protocol):
    """The run whose rows are selected, as filters see it."""

    @property
    def start(self) -> int | None:
        """Time of the first packet, nanoseconds since the epoch; None until it is known."""


class Filter:
    """The filter of -Y, for rows of the kinds for which it is made."""

    def __init__(self, text: str, kinds: Sequence[str], catalogue: Catalogue, *, payload: str | None = None) -> None:
        """Compile a filter for these kinds of rows, with payloads of messages in this form. Raises FilterError if it is not valid."""
        self.text = text
        self.description = "match the filter"
        """End of a sentence about the rows that pass."""
        self.learn: Callable[[Iterable[Any]], None] | None = None
        """None: rows can be selected without learning anything about the capture first; see `FollowFilter`."""
        syntax_tree = with_frame_names(parse(text), text)
        checker = Checker(text, catalogue)
        checker.check(syntax_tree, kinds)
        self.trees: dict[str, Expression] = {kind: checker.meaning(syntax_tree, kind) for kind in kinds}
        """Typed trees, by kind of rows."""
        reads_payload = any(_reads_payload(expression) for expression in self.trees.values())
        self.payload = payload or (PAYLOAD_FORM if reads_payload else None)
        """Form of the payload that message rows must have, for the output or for the filter."""
        self.seen = dict.fromkeys(kinds, 0)
        """Number of rows, by kind."""
        self.kept = dict.fromkeys(kinds, 0)
        """Number of rows that passed, by kind."""
        self._run: Timed | None = None
        self._removes_payload = reads_payload and payload is None
        self.context = EvaluationContext(catalogue.codes, self.payload)
        """Context of predicates in addition to the row."""
        self._predicates: dict[str, Predicate] = {kind: compile_tree(tree, self.context) for kind, tree in self.trees.items()}
        finding_tree = self.trees.get(FindingRow.kind) or checker.meaning(syntax_tree, FindingRow.kind)
        self._matches_finding = compile_tree(finding_tree, self.context)
        self._last_frame: tuple[int | None, int | None, int | None] | None = None
        self._asked: dict[str, dict[str, None]] = {}
        """Names that a matching record must have, by column."""
        for tree in self.trees.values():
            _add_names(tree, self._asked)
        self._there: dict[str, dict[str, None]] = {column: {} for column in self._asked}
        """Names in the rows so far, as long as none has passed."""

    def begin(self, run: Timed) -> None:
        """Make times without a date count from the first packet of a run, instead of the first row."""
        self._run = run
        self.context.start = run.start

    def select(self, rows: Sequence[Any], endpoints: Mapping[str, tuple[str, str]]) -> list[Any]:
        """Return the rows that pass, in order; `endpoints` are client and server of the connections known so far, by name.

        Rows of other kinds pass if they explain: the bytes of a frame with the frame; findings about the preceding frame or the input, and
        those that match; connections always.
        """
        self.context.endpoints = endpoints
        self.context.learn(others(rows))
        if self.context.start is None and self._run is not None:
            self.context.start = self._run.start
        if in_columns(rows) and self.context.start is not None:
            return [self._select_columns(opened(rows))]
        rows = in_rows(rows)
        if self.context.start is None:
            self._set_start(rows)
        passed = self._selected(rows)
        if self._asked and not any(self.kept.values()):
            self._collect(rows)
        self._remove_payloads(passed)
        return passed

    def _selected(self, rows: Sequence[Any]) -> list[Any]:
        """Return and count the rows that pass."""
        predicates, seen, kept = self._predicates, self.seen, self.kept
        passed: list[Any] = []
        matched = False
        for row in rows:
            if type(row) is RawFrame:
                if matched:
                    passed.append(row)
                continue
            kind = row.kind
            if (predicate := predicates.get(kind)) is None:
                if self._explains(row):
                    passed.append(row)
                continue
            seen[kind] += 1
            if matched := predicate(row):
                kept[kind] += 1
                passed.append(row)
                if kind == FrameRow.kind:
                    self._last_frame = (row.file, row.packet, row.sub)
        return passed

    def _select_columns(self, ordered: Any) -> Any:
        """Return the ordered rows of a compiled reader that pass; frames in columns become rows only for tests that need rows."""
        places: list[int] = []
        if (of_frames := self.trees.get(FrameRow.kind)) is not None:
            places, seen = ordered.matching(mask_of(of_frames, self.context))
            self.seen[FrameRow.kind] += seen
            self.kept[FrameRow.kind] += len(places)
        kept: list[int] = []
        latest = -1
        for place, row in ordered.placed():
            if type(row) is FindingRow:
                latest = self._pass_frame(ordered, places[: bisect_left(places, place)], latest)
            if passed := self._selected([row]):
                kept.append(place)
                latest = place if row.kind == FrameRow.kind else latest
                self._remove_payloads(passed)
        self._pass_frame(ordered, places, latest)
        if self._asked and not any(self.kept.values()):
            others, counted = ordered.counted(OCTAVE_BITS, 0)
            named = [(place, _with_names(names)) for place, names in counted.names()]
            self._collect([row for _, row in sorted((*others, *named), key=itemgetter(0))])
        return ordered.chosen(sorted([*places, *kept]))

    def _pass_frame(self, ordered: Any, places: Sequence[int], latest: int) -> int:
        """Record the last of the frames at some places, if it comes after the latest that passed; return the place of the latest."""
        if not places or places[-1] < latest:
            return latest
        frame = ordered.row(places[-1])
        self._last_frame = frame.file, frame.packet, frame.sub
        return places[-1]

    def _remove_payloads(self, rows: Sequence[Any]) -> None:
        """Remove the payloads from messages that passed, if they are for the filter alone."""
        if self._removes_payload:
            for row in rows:
                if isinstance(row, MessageRow):
                    row.payload = None

    def absence(self) -> str | None:
        """Return in words which names of the filter do not exist, and which do, if nothing has passed; else None."""
        if any(self.kept.values()):
            return None
        absences = []
        for column, names in self._asked.items():
            there = self._there[column]
            if (missing := [name for name in names if name not in there]) and len(missing) == len(names):
                absences.append(_missing_connection(missing, there) if column == "connection" else _missing_name(column, missing, there))
        return "; ".join(absences) or None

    def _collect(self, rows: Sequence[Any]) -> None:
        for column, there in self._there.items():
            for row in rows:
                names = getattr(row, column, None)
                for name in (names,) if names is not None else (getattr(row, "topics", None) or ()) if column == "topic" else ():
                    if len(there) < FOLLOW_NAMES_MAX:
                        there[name] = None

    def _set_start(self, rows: Sequence[Any]) -> None:
        times = (row.time for row in rows if isinstance(row, Row) and row.kind in self._predicates)
        self.context.start = next((time for time in times if time is not None), None)

    def _explains(self, row: Any) -> bool:
        if type(row) is not FindingRow:
            return True
        return row.layer == INPUT_LAYER or (row.file, row.packet, row.sub) == self._last_frame or self._matches_finding(row)


def _missing_name(column: str, missing: Sequence[str], there: Collection[str]) -> str:
    near = [name for name in there if name.endswith(f"/{missing[0]}")] or get_close_matches(missing[0], there, 1, 0.8)
    rest = f"did you mean {near[0]}?" if near else _some(sorted(there))
    return f"no {column} is {either(missing)}: {rest}"


def _missing_connection(missing: Sequence[str], there: Collection[str]) -> str:
    label = partial(connection_label, several_files=any(not name.startswith("0:") for name in (*there, *missing)))
    return f"no connection is {' or '.join(map(label, missing))}: {_some(list(map(label, sorted(there, key=first_packet))))}"


def _some(names: Sequence[str]) -> str:
    """Return the end of a sentence that lists some of the existing names."""
    others = f" and {len(names) - SHOWN_NAMES_MAX:,} more" if len(names) > SHOWN_NAMES_MAX else ""
    if len(names) == 1:
        return f"there is only {names[0]}"
    return f"there are {', '.join(names[:SHOWN_NAMES_MAX])}{others}" if names else "there is none"


def _with_names(names: Sequence[Any]) -> FrameRow:
    """Return a row with the names of a group of frames."""
    connection, _, _, topic, producer_name, subscription = names
    return FrameRow(connection=connection, topic=topic, producer_name=producer_name, subscription=subscription)


def _add_names(expression: Expression, asked: dict[str, dict[str, None]]) -> None:
    """Add the names that an expression compares a column of names with."""
    if isinstance(expression, (And, Or)):
        for part in expression.parts:
            _add_names(part, asked)
    elif isinstance(expression, Compare):
        field = expression.field
        column = field.column.rpartition(".")[2]  # frame.topic also counts as a topic
        if column in NAMES and not field.steps and expression.operator == "==" and isinstance(expression.value, str):
            asked.setdefault(column, {})[expression.value] = None


def _reads_payload(expression: Expression) -> bool:
    if isinstance(expression, (And, Or)):
        return any(_reads_payload(part) for part in expression.parts)
    if isinstance(expression, Not):
        return _reads_payload(expression.part)
    return not isinstance(expression, Always) and expression.field.column == PAYLOAD
