"""The frames of an index that a filter may pass, by the columns of the index alone: a superset, which the filter itself then narrows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pulsarscope.filter import Filter, FollowFilter, JoinedFilter
from pulsarscope.filter import expression as tree
from pulsarscope.filter.predicate import EvaluationContext, compile_tree
from pulsarscope.index.reader import Index
from pulsarscope.model.frame_name import FrameName, frame_name
from pulsarscope.model.records import FrameRow

_OF_CONNECTIONS = ("connection", "ip", "port")
_COLUMN_OF = {**dict.fromkeys(_OF_CONNECTIONS, "connection"), "command": "command", "frame.topic": "topic"}
"""Column of an index that decides the value of a field of frames."""

_ORDERS: dict[str, Callable[[Any, Any], Any]] = {"<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal, "==": pc.equal}

DISPLAY_COLUMNS = ("time", "connection", "command", "topic", "topics")
"""Columns by which display filters are decided."""

_FOLLOW_COLUMNS = ("file", "packet", "sub", "request", *DISPLAY_COLUMNS)

Mask = Callable[[pa.RecordBatch], Any]
"""A function that returns, for each frame of a batch, whether it may pass."""


def candidates(index: Index, row_filter: Filter | FollowFilter | JoinedFilter) -> dict[int, list[int]] | None:
    """Return the positions of the frames that may pass, by chunk; None when the columns cannot decide."""
    if isinstance(row_filter, JoinedFilter):
        row_filter = row_filter.first
    if isinstance(row_filter, FollowFilter):
        return None if (subject := row_filter.subject_column()) is None else _followed(index, *subject)
    mask = filter_mask(row_filter)
    return None if mask is None else passing(index, mask, DISPLAY_COLUMNS)


def filter_mask(row_filter: Filter) -> Mask | None:
    """Return the mask of the frames that a display filter may pass; None when the columns cannot decide."""
    return _mask(row_filter.trees[FrameRow.kind], row_filter.context) if [*row_filter.trees] == [FrameRow.kind] else None


def opening(index: Index, commands: frozenset[str]) -> dict[int, list[int]]:
    """Return the positions of frames with these commands, which open connections, by chunk."""
    return passing(index, _by_value("command", commands.__contains__), ("command",))


def passing(index: Index, mask: Mask, columns: tuple[str, ...], chunks: Iterable[int] | None = None) -> dict[int, list[int]]:
    """Return the positions of the frames for which a mask holds, by chunk; `chunks`: only of these chunks."""
    found = {}
    for number in range(index.chunks) if chunks is None else chunks:
        if positions := _positions(mask(index.columns(number, columns))):
            found[number] = positions
    return found


def _followed(index: Index, column: str, test: Callable[[Any], bool]) -> dict[int, list[int]]:
    """Return the frames of a subject, their answers, and the requests that they answer."""
    mask = _by_value(column, lambda value: test(_row(column, value)))
    found: dict[int, set[int]] = {}
    asked: set[str] = set()
    passed: set[str] = set()
    for number in range(index.chunks):
        batch = index.columns(number, _FOLLOW_COLUMNS)
        positions = _positions(mask(batch))
        for at in positions:
            passed.add(frame_name(*(batch.column(name)[at].as_py() for name in ("file", "packet", "sub"))))
            if (request := batch.column("request")[at].as_py()) is not None:
                asked.add(request)
        if positions:
            found[number] = set(positions)
    for number in range(index.chunks) if passed else ():
        batch = index.columns(number, _FOLLOW_COLUMNS)
        answers = pc.is_in(batch.column("request"), value_set=pa.array(sorted(passed | asked), pa.string()))
        packets = sorted({name.packet for name in map(FrameName.parse, asked) if name is not None})
        requests = pc.is_in(batch.column("packet"), value_set=pa.array(packets, pa.int64()))
        found.setdefault(number, set()).update(_positions(pc.or_(answers, requests)))
    return {number: sorted(positions) for number, positions in found.items() if positions}


def _positions(mask: Any) -> list[int]:
    """Return the positions at which a mask holds."""
    return [at for at in pc.indices_nonzero(pc.fill_null(mask, False)).to_pylist() if at is not None]


def _mask(expression: tree.Expression, context: EvaluationContext) -> Mask | None:
    """Return the mask of the frames that may pass an expression; None when the columns cannot decide."""
    if isinstance(expression, tree.And):
        parts = [mask for part in expression.parts if (mask := _mask(part, context)) is not None]
        return joined(parts, pc.and_kleene) if parts else None
    if isinstance(expression, tree.Or):
        every = [_mask(part, context) for part in expression.parts]
        known = [mask for mask in every if mask is not None]
        return joined(known, pc.or_kleene) if len(known) == len(every) else None
    if isinstance(expression, tree.Always):
        return None
    leaf = expression.part if isinstance(expression, tree.Not) else expression
    field = leaf.field
    if field.steps or field.command or field.slice or field.function or field.quantifier:
        return None
    if field.column == "time" and isinstance(expression, tree.Compare) and expression.operator in _ORDERS:
        return _compared(expression.operator, expression.value, context)
    if field.column == "time" and isinstance(expression, tree.Within):
        return _within(expression.items, context)
    if (column := _COLUMN_OF.get(field.column)) is None:
        return None
    passes = compile_tree(expression, context)
    return _by_value(column, lambda value: passes(_row(column, value)))


def _row(column: str, value: str | None) -> Any:
    """Return a stand-in for a frame, with as much as a predicate on this column reads."""
    return SimpleNamespace(**{"kind": FrameRow.kind, "topics": None, "topic": None, "connection": None, column: value})


def _by_value(column: str, test: Callable[[str | None], bool]) -> Mask:
    """Return the mask of a test on one column. The test sees each value once. Frames with several topics may pass any test of a topic."""
    known: dict[str | None, bool] = {}

    def mask(batch: pa.RecordBatch) -> Any:
        values = batch.column(column)
        for value in pc.unique(values).to_pylist():
            if value not in known:
                known[value] = test(value)
        wanted = pa.array([value for value, passes in known.items() if passes], values.type)
        found = pc.is_in(values, value_set=wanted)
        return pc.or_(found, pc.is_valid(batch.column("topics"))) if column == "topic" else found

    return mask


def _compared(order: str, value: tree.Value, context: EvaluationContext) -> Mask | None:
    bound = (context.start or 0) + value.nanoseconds if isinstance(value, tree.Since) else value
    if not isinstance(bound, int):
        return None
    return lambda batch: _ORDERS[order](batch.column("time"), bound)


def _within(items: tuple[tree.Value | tree.Interval, ...], context: EvaluationContext) -> Mask | None:
    masks = []
    for item in items:
        ends = (item.low, item.high) if isinstance(item, tree.Interval) else (item, item)
        pair = [_compared(order, end, context) for order, end in zip((">=", "<="), ends, strict=True)]
        if None in pair:
            return None
        masks.append(joined([mask for mask in pair if mask is not None], pc.and_kleene))
    return joined(masks, pc.or_kleene)


def joined(masks: Sequence[Mask], join: Callable[[Any, Any], Any]) -> Mask:
    """Return several masks joined by `and` or `or`."""

    def mask(batch: pa.RecordBatch) -> Any:
        result = masks[0](batch)
        for other in masks[1:]:
            result = join(result, other(batch))
        return result

    return mask
