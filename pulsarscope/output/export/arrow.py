"""Rows as Arrow: the schema of each kind, from the column table, record batches and tables. pyarrow is an extra."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

from pulsarscope.model.errors import UsageError
from pulsarscope.model.records import EntryMessages, columns
from pulsarscope.output.export.columns import cell_types, cells, is_constant, json_texts
from pulsarscope.output.registry import CHECKSUM_COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa

INTEGERS = frozenset({"int64", "time"})
"""Column types that are 64-bit integers in Arrow."""

BATCH_ROWS = 16_384
"""Rows that wait as Python objects before they become Arrow columns."""


def require_pyarrow() -> None:
    """Make sure that pyarrow is there.

    Raises:
        UsageError: it is not; the message says how to get it.
    """
    try:
        import pyarrow as pa  # noqa: F401 - whether it is there is the question
    except ImportError as error:
        message = 'Arrow and Parquet need pyarrow: pip install "pulsarscope[parquet]"'
        raise UsageError(message) from error


def arrow_types() -> dict[str, pa.DataType]:
    """Column type -> Arrow type. A time is int64 nanoseconds since the epoch."""
    import pyarrow as pa

    return {
        "int64": pa.int64(),
        "string": pa.string(),
        "bool": pa.bool_(),
        "time": pa.int64(),
        "bytes": pa.binary(),
        "json": pa.string(),
        "strings": pa.list_(pa.string()),
    }


def arrow_schema(kind: str, names: Sequence[str] | None = None) -> pa.Schema:
    """The schema of a kind, or of some of its flat columns in the order given. A field's `description` says what it means."""
    import pyarrow as pa

    types = cell_types(kind)
    texts = {column.name: column.text for column in columns(kind)}
    texts |= dict.fromkeys(CHECKSUM_COLUMNS, texts.get("checksum", ""))
    arrow = arrow_types()
    return pa.schema([pa.field(name, arrow[types[name]], metadata={"description": texts[name]}) for name in names or types])


class RecordBatches:
    """Rows of one kind as record batches with all flat columns, or with some of them in the order given."""

    def __init__(self, kind: str, names: Sequence[str] | None = None) -> None:
        self.schema = arrow_schema(kind, names)
        types = cell_types(kind)
        # Asked once: pyarrow makes a new object of a name or type each time.
        self._names = self.schema.names
        self._types = [(types[field.name], field.type) for field in self.schema]

    def batch(self, rows: Sequence[Any]) -> pa.RecordBatch:
        """These rows, or `EntryMessages` among them, as one batch."""
        import pyarrow as pa

        if any(type(row) is EntryMessages for row in rows):
            arrays = self._messages(rows)
        else:
            arrays = [_array(values, *types) for values, types in zip(cells(rows, self._names), self._types, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _messages(self, rows: Sequence[Any]) -> list[pa.Array[Any]]:
        """The columns of messages of which some stand together: what those of an entry share is asked for once."""
        entries = [row if type(row) is EntryMessages else EntryMessages(row, 1, {}) for row in rows]
        counts = [entry.count for entry in entries]
        own = {name for entry in entries for name in entry.columns}
        arrays = []
        for name, values, types in zip(self._names, cells([entry.shared for entry in entries], self._names), self._types, strict=True):
            if name in own:
                parts = [entry.columns.get(name) or repeat(value, entry.count) for entry, value in zip(entries, values, strict=True)]
                arrays.append(_array([*chain.from_iterable(parts)], *types))
            else:
                arrays.append(_array(values, *types, counts))
        return arrays


def _array(values: Sequence[Any], kind_type: str, arrow_type: pa.DataType, counts: Sequence[int] | None = None) -> pa.Array[Any]:
    """A column of these values, each so many times. (Arrow's `take` does that, too, but loads 13 MiB for it.)"""
    import pyarrow as pa

    made: Any = pa
    if kind_type == "json":
        values = json_texts(values)
    if is_constant(values):
        count = len(values) if counts is None else sum(counts)
        same: pa.Array[Any] = made.nulls(count, arrow_type) if values[0] is None else made.repeat(made.scalar(values[0], arrow_type), count)
        return same
    if kind_type in INTEGERS:
        with suppress(TypeError):  # a value is absent
            data = array("q", values).tobytes()  # a third faster than their own conversion
            if counts is not None:
                data = b"".join([data[8 * at : 8 * at + 8] * count for at, count in enumerate(counts)])
            return pa.Array.from_buffers(arrow_type, len(data) // 8, [None, pa.py_buffer(data)])
    return pa.array(values if counts is None else [*chain.from_iterable(map(repeat, values, counts))], arrow_type)


def table(kind: str, rows: Iterable[Any]) -> pa.Table:
    """All rows of one kind, or `EntryMessages` among them, as a table.

    Raises:
        UsageError: pyarrow is missing.
    """
    require_pyarrow()
    import pyarrow as pa

    made = RecordBatches(kind)
    return pa.Table.from_batches([made.batch(some) for some in _parts(rows)], made.schema)


def _parts(rows: Iterable[Any]) -> Iterator[list[Any]]:
    some: list[Any] = []
    count = 0
    for row in rows:
        some.append(row)
        count += row.count if type(row) is EntryMessages else 1
        if count >= BATCH_ROWS:
            yield some
            some, count = [], 0
    if some:
        yield some
