"""Rows of a part whose frames stay in the columns of the compiled reader: one object of that stands for all of them, in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from pulsarscope.dissect.column_batch import ColumnBatch
from pulsarscope.engine.ordering import FILE_SHIFT, Step, orders_of, spread
from pulsarscope.model.platform import load_native
from pulsarscope.model.records import ExchangeRow

if TYPE_CHECKING:
    from pulsarscope.engine.options import Options


def ordered_rows_type(options: Options) -> Any:
    """Return a function that makes ordered rows of the compiled reader; None where there is none, or somebody looks into rows."""
    native, _ = load_native()
    if native is None or not options.columns or options.evaluates:
        return None
    return partial(native.OrderedRows, exchanges=ExchangeRow.kind in options.records)


def rows_in_columns(steps: Iterable[Step], made: Any, observe: Callable[..., None], carry_out: Callable[..., None]) -> Any:
    """Carry out steps, and return their rows: an object that `made` makes."""
    ordered = made()
    for order, name, frames in steps:
        rows: list[Any] = []
        if isinstance(frames, ColumnBatch):
            observe(name, frames)
            ordered.add(frames.columns, order >> FILE_SHIFT << FILE_SHIFT, order)
        elif frames is not None:
            orders = orders_of(order, frames)
            carry_out(name, frames, rows)
            if len(rows) != len(orders):
                spread(orders, frames, rows)
            ordered.extend_each(rows, orders)
        else:
            carry_out(name, None, rows)
            ordered.extend(rows, order)
    ordered.sort()
    return ordered
