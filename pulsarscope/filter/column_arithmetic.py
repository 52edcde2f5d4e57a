"""Columns that are computed: `client_bytes + server_bytes`, `payload_size / (num_messages + 1)`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from operator import add, mul, sub, truediv
from typing import Any

from pulsarscope.filter.filter_error import FilterError
from pulsarscope.model.command_limits import COLUMN_MAX_CHARACTERS

Compute = Callable[[Sequence[Any]], Any]
"""Values of the fields, in their order → the value of the column."""

_OPERATIONS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {ast.Add: add, ast.Sub: sub, ast.Mult: mul, ast.Div: truediv}


def arithmetic(text: str) -> tuple[tuple[str, ...], Compute] | None:
    """Return the fields of a computed column and what computes it; None for what is no computation but perhaps a field.

    The value is absent where that of a field is, or is no number, and for a division by zero. Raises FilterError for an operation that is
    none of + - * /.
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
