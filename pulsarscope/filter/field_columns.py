"""Values of the fields that a filter can name, for outputs: more than the columns of the records."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from operator import add, attrgetter, mul, sub, truediv
from typing import Any

from pulsarscope.filter.check import Checker
from pulsarscope.filter.fields import PAYLOAD, Catalogue
from pulsarscope.filter.filter_error import FilterError, Mismatch, Place
from pulsarscope.filter.predicate import EvaluationContext, Reader, read_field
from pulsarscope.filter.syntax import ComparisonTest, parse
from pulsarscope.model.command_limits import COLUMN_MAX_CHARACTERS
from pulsarscope.model.text import escape, plural

Compute = Callable[[Sequence[Any]], Any]
"""Function of the values of the fields, in order, that returns the value of the column."""

_OPERATIONS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {ast.Add: add, ast.Sub: sub, ast.Mult: mul, ast.Div: truediv}


def arithmetic(text: str) -> tuple[tuple[str, ...], Compute] | None:
    """Return the fields of a computed column and the function that computes it; None if it is not a computation but perhaps a field.

    The value is absent if that of a field is absent or not a number, and for a division by zero. Raises FilterError for an operation other
    than + - * /.
    """
    if len(text) > COLUMN_MAX_CHARACTERS:
        return None
    try:
        expression = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        return None
    if not isinstance(expression, (ast.BinOp, ast.UnaryOp)):
        return None
    fields: list[str] = []
    compute = _compiled(expression, text, fields)
    return tuple(fields), compute


def _compiled(node: ast.expr, text: str, fields: list[str]) -> Compute:
    if isinstance(node, ast.BinOp):
        operation = _OPERATIONS.get(type(node.op))
        if operation is None:
            raise FilterError("a column is computed by + - * / only", text, (node.col_offset, node.end_col_offset or len(text)))
        left, right = _compiled(node.left, text, fields), _compiled(node.right, text, fields)
        return lambda values: _applied(operation, left(values), right(values))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        operand = _compiled(node.operand, text, fields)
        return lambda values: _applied(sub, 0, operand(values))
    if isinstance(node, ast.Constant) and type(node.value) in {int, float}:
        number = node.value
        return lambda _: number
    fields.append(ast.get_source_segment(text, node) or text)
    at = len(fields) - 1
    return lambda values: values[at]


def _applied(operation: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    if not all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in (left, right)):
        return None
    try:
        return operation(left, right)
    except (ZeroDivisionError, OverflowError):
        return None


class FieldColumns:
    """Columns named by fields, such as `send.sequence_id`, `latency` or `len(payload)`, of rows of some kinds."""

    def __init__(self, names: Sequence[str], kinds: Sequence[str], catalogue: Catalogue, *, payload: str | None = None) -> None:
        """Resolve the names, with payloads of messages in this form. Raises FilterError for a name that no kind has."""
        self.names = tuple(names)
        self.kinds = tuple(kinds)
        self._context = EvaluationContext(catalogue.codes, payload)
        self.reads_payload = False
        """True when a field is made from the payload of messages."""
        self._readers: dict[str, list[Reader | None]] = {kind: [] for kind in kinds}
        self.types: dict[str, str] = {}
        """Type of each column, from the first kind that has it."""
        self._computed: dict[int, tuple[slice, Compute]] = {}
        """By column: the values of its fields, and the function that computes it."""
        self._empty: set[int] = set()
        """Computed columns that have had no value in any row so far; empty before the first row."""
        self._rows = 0
        for at, name in enumerate(names):
            if (computation := arithmetic(name)) is None:
                self._add(name, name, catalogue)
                continue
            fields, compute = computation
            start = self._fields
            for field in fields:
                self._add(field, name, catalogue)
            self.types[name] = "any"
            self._computed[at] = slice(start, self._fields), compute

    @property
    def _fields(self) -> int:
        return len(self._readers[self.kinds[0]])

    def _add(self, name: str, column: str, catalogue: Catalogue) -> None:
        """Add the reader of a field that is a column or part of one."""
        text = f"{name} == 0"
        try:
            test = parse(text)
        except FilterError as error:
            raise FilterError(error.reason, column, _within(error.place, name, column)) from None
        if not isinstance(test, ComparisonTest):
            raise FilterError("a column is a field, as in send.sequence_id or len(topic)", column, (0, len(column)))
        checker = Checker(text, catalogue)
        found = False
        for kind in self.kinds:
            try:
                resolved = checker.field(test.field, kind)
            except Mismatch as error:
                raise FilterError(error.reason, column, _within(error.place, name, column)) from error
            reader = None
            if resolved is not None:
                known, path = resolved
                found = True
                self.types.setdefault(name, known.types[0] if len(known.types) == 1 else "any")
                self.reads_payload = self.reads_payload or (path.column == PAYLOAD and path.function is not None)
                reader = attrgetter(PAYLOAD) if path.column == PAYLOAD and path.function is None else read_field(path, self._context)
            self._readers[kind].append(reader)
        if not found:
            raise FilterError(checker.missing(test.field, self.kinds).reason, column, _within((0, len(name)), name, column))

    def learn(self, rows: Sequence[Any]) -> None:
        """Remember client and server of the connections whose rows are among these; the run forgets them."""
        self._context.learn(rows)

    def values(self, row: Any, endpoints: Mapping[str, tuple[str, str]]) -> list[Any] | None:
        """Return the values of a row, None for absent ones and lists for several; None for a row of another kind."""
        if (readers := self._readers.get(row.kind)) is None:
            return None
        self._context.endpoints = endpoints
        values = [None if reader is None else _single(reader(row)) for reader in readers]
        return self._with_computed(values) if self._computed else values

    def empty(self) -> list[str]:
        """Return a sentence for each computed column that had no value in any row."""
        rows = plural(self._rows, "row")
        return [f"{escape(self.names[at])} is empty: in none of {rows} is each of its fields a number" for at in sorted(self._empty)]

    def _with_computed(self, values: list[Any]) -> list[Any]:
        """Return the value of each column from the values of all fields."""
        out, fields = [], 0
        if not self._rows:
            self._empty = set(self._computed)
        self._rows += 1
        for at in range(len(self.names)):
            if at in self._computed:
                part, compute = self._computed[at]
                out.append(value := compute(values[part]))
                if value is not None and self._empty:
                    self._empty.discard(at)
                fields = part.stop
            else:
                out.append(values[fields])
                fields += 1
        return out


def _within(place: Place, name: str, column: str) -> Place:
    """Translate a place in the name of a field to a place in the text of the column that contains it."""
    offset = max(column.find(name), 0)
    start, end = (offset + min(position, len(name)) for position in place)
    return start, end


def _single(value: Any) -> Any:
    """Return the only value of a list, None for an empty one."""
    if isinstance(value, list) and len(value) < 2:
        return value[0] if value else None
    return value
