"""Filters that Spark pushes down, evaluated on Arrow columns.

Spark evaluates all of them again, so a filter that is not understood can be ignored here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import datasource

from pulsarscope.output.export.arrow import RecordBatches

_compute: Any = pc

_COMPARED: dict[type[Any], Callable[[Any, Any], Any]] = {
    datasource.EqualTo: _compute.equal,
    datasource.GreaterThan: _compute.greater,
    datasource.GreaterThanOrEqual: _compute.greater_equal,
    datasource.LessThan: _compute.less,
    datasource.LessThanOrEqual: _compute.less_equal,
}

_TEXTS: dict[type[Any], Callable[[Any, str], Any]] = {
    datasource.StringStartsWith: _compute.starts_with,
    datasource.StringEndsWith: _compute.ends_with,
    datasource.StringContains: _compute.match_substring,
}

_VALUES: dict[pa.DataType, type[Any]] = {pa.int64(): int, pa.string(): str, pa.bool_(): bool}
"""Type of the values that a column is compared with."""

_INTEGERS = range(-(1 << 63), 1 << 63)


class RowFilters:
    """The filters of a read that are understood. A row that passes meets all of them."""

    def __init__(self, kind: str, schema: pa.Schema, filters: Iterable[Any] = ()) -> None:
        """Take the filters that are understood, for these columns of a kind."""
        self._filters = [each for each in filters if _is_understood(each, schema)]
        self._names = tuple(dict.fromkeys(_column(each) for each in self._filters))
        self._kind = kind

    def __bool__(self) -> bool:
        return bool(self._filters)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that the filters read."""
        return self._names

    def select(self, rows: Sequence[Any]) -> Sequence[Any]:
        """Return the rows that pass."""
        if not (self._filters and rows):
            return rows
        batch = RecordBatches(self._kind, self._names).batch(rows)
        mask = _mask(self._filters, dict(zip(self._names, batch.columns, strict=True)))
        return list(compress(rows, mask.to_pylist()))

    def passing(self, name: str, values: Sequence[Any], value_type: pa.DataType) -> list[bool]:
        """Return for each value of a column whether a row with it may pass."""
        filters = [each for each in self._filters if _column(each) == name]
        if not (filters and values):
            return [True] * len(values)
        passing: list[bool] = _mask(filters, {name: pa.array(values, value_type)}).to_pylist()
        return passing

    def mask(self, batch: pa.RecordBatch) -> Any:
        """Return for each row of a batch whether it may pass, by the columns in the batch."""
        columns = {name: batch.column(name) for name in self._names if name in batch.schema.names}
        wide = {name: column.cast(pa.int64()) if column.type == pa.int32() else column for name, column in columns.items()}
        return _mask([each for each in self._filters if _column(each) in wide], wide)

    def one_of(self, name: str) -> frozenset[str] | None:
        """Return the set of texts to which a column is restricted; None if it may have any value."""
        texts: frozenset[str] | None = None
        for each in self._filters:
            if _column(each) == name and isinstance(each, (datasource.EqualTo, datasource.In)):
                own = frozenset(each.value if isinstance(each, datasource.In) else (each.value,)) - {None}
                texts = own if texts is None else texts & own
        return texts


def _column(each: Any) -> str:
    while isinstance(each, datasource.Not):
        each = each.child
    name: str = each.attribute[0]
    return name


def _is_understood(each: Any, schema: pa.Schema) -> bool:
    if isinstance(each, datasource.Not):
        return _is_understood(each.child, schema)
    if len(each.attribute) != 1 or each.attribute[0] not in schema.names:
        return False
    if isinstance(each, (datasource.IsNull, datasource.IsNotNull)):
        return True
    wanted = _VALUES.get(schema.field(each.attribute[0]).type)
    if isinstance(each, datasource.In):
        return all(value is None or _is_of(value, wanted) for value in each.value)
    if isinstance(each, datasource.EqualNullSafe):
        return each.value is None or _is_of(each.value, wanted)
    if type(each) in _TEXTS:
        return wanted is str and isinstance(each.value, str)
    return type(each) in _COMPARED and _is_of(each.value, wanted)


def _is_of(value: Any, wanted: type[Any] | None) -> bool:
    return type(value) is wanted and (wanted is not int or value in _INTEGERS)


def _mask(filters: Iterable[Any], columns: Mapping[str, Any]) -> Any:
    """Return for each row whether all filters hold."""
    mask = None
    for each in filters:
        own = _compute.fill_null(_holds(each, columns[_column(each)]), fill_value=False)
        mask = own if mask is None else _compute.and_(mask, own)
    return mask


def _holds(each: Any, column: Any) -> Any:
    """Return for each row whether a filter holds; null as in SQL."""
    if isinstance(each, datasource.Not):
        return _compute.invert(_holds(each.child, column))
    if isinstance(each, datasource.IsNull):
        return _compute.is_null(column)
    if isinstance(each, datasource.IsNotNull):
        return _compute.is_valid(column)
    if isinstance(each, datasource.EqualNullSafe):
        return _compute.is_null(column) if each.value is None else _compute.fill_null(_compute.equal(column, each.value), fill_value=False)
    if isinstance(each, datasource.In):
        return _in(column, each.value)
    if type(each) in _TEXTS:
        return _TEXTS[type(each)](column, each.value)
    return _COMPARED[type(each)](column, each.value)


def _in(column: Any, values: Sequence[Any]) -> Any:
    """Return whether a column has one of the values; null where the column is null, or matches none while one of the values is null."""
    found = _compute.is_in(column, value_set=pa.array([value for value in values if value is not None], column.type))
    unknown = _compute.is_null(column) if None not in values else _compute.invert(found)
    return _compute.if_else(unknown, pa.scalar(None, pa.bool_()), found)
