"""Names of frames in filters: `frame == "57.1"` becomes a test of packet and sub."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pulsarscope.filter.filter_error import FilterError
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
)

_NAME = re.compile(r"#?(?:([0-9]{1,9}):)?([0-9]{1,11})(?:\.([0-9]{1,9}))?")
"""File, packet, number of the frame within the packet."""

_COLUMNS = ("file", "packet", "sub")


def with_frame_names(syntax_tree: SyntaxTree, text: str) -> SyntaxTree:
    """Return the tree of a filter in which frames are named by columns. Raises FilterError for a text that names no frame."""
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
