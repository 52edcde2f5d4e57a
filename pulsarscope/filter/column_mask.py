"""Typed tree → filter of a compiled reader over frames in columns: nested tuples of a kind and its parts.

Numbers are compared in columns. Tests of the command are evaluated once per command, and tests of names, which hold for all frames with the
same names, once per set of names. All other tests are evaluated on rows, which are made for frames that earlier tests leave undecided.
"""

from __future__ import annotations

from typing import Any

from pulsarscope.filter import expression as tree
from pulsarscope.filter.predicate import ORDERS, EvaluationContext, compile_tree

NAMES = frozenset(
    {
        "source", "connection", "dissector", "direction", "frame.topic", "producer_name", "subscription", "status", "client",
        "server", "client.ip", "client.port", "server.ip", "server.port", "ip", "port", "checksum.status", "findings",
    }
)  # fmt: skip
"""Columns that are the same in all frames of a connection with the same direction, command, topic, producer and subscription."""

NUMBERS = frozenset({"file", "packet", "sub", "time", "offset", "size", "payload_size", "num_messages", "latency_ns"})
"""Columns of numbers."""

INT64_END = 1 << 63

Mask = tuple[Any, ...]


def mask_of(expression: tree.Expression, context: EvaluationContext) -> Mask:
    """Return the filter of a tree for frame rows; it reflects the current state of the context."""
    if isinstance(expression, tree.Always):
        return "always", expression.value
    if isinstance(expression, tree.Not):
        return "not", mask_of(expression.part, context)
    if isinstance(expression, (tree.And, tree.Or)):
        return "and" if isinstance(expression, tree.And) else "or", [mask_of(part, context) for part in expression.parts]
    field = expression.field
    if isinstance(expression, tree.Compare) and (number := _number(expression, context)) is not None:
        return "number", field.column, expression.operator, number
    of_command = field.column == "command" or (field.command is not None and field.function is None)
    kind = "row" if field.steps else "command" if of_command else "names" if field.column in NAMES else "row"
    return kind, compile_tree(expression, context)


def _number(leaf: tree.Compare, context: EvaluationContext) -> int | None:
    """Return the number that a column of numbers is compared with; None for any other comparison."""
    field, value = leaf.field, leaf.value
    if field.column not in NUMBERS or field.steps or field.command is not None or field.function or field.slice or field.quantifier:
        return None
    if isinstance(value, tree.Since):
        value = (context.start or 0) + value.nanoseconds
    comparable = type(value) is int and leaf.operator in {"==", "!=", *ORDERS} and -INT64_END <= value < INT64_END
    return value if comparable and isinstance(value, int) else None
