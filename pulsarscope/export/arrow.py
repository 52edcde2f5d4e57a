"""Rows as Arrow: the schema of each kind, from the column table, record batches and tables. pyarrow is an extra."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from pulsarscope.errors import UsageError
from pulsarscope.export.cells import cell_types, cells, is_constant, json_texts
from pulsarscope.outputs import CHECKSUM_COLUMNS
from pulsarscope.records import Row, columns

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

    def batch(self, rows: Sequence[Row]) -> pa.RecordBatch:
        """These rows as one batch."""
        import pyarrow as pa

        columns = cells(rows, self._names)
        arrays = [_array(values, *types) for values, types in zip(columns, self._types, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _array(values: Sequence[Any], kind_type: str, arrow_type: pa.DataType) -> pa.Array[Any]:
    import pyarrow as pa

    if kind_type == "json":
        values = json_texts(values)
    if is_constant(values):
        made: Any = pa
        same: pa.Array[Any] = (
            made.nulls(len(values), arrow_type) if values[0] is None else made.repeat(made.scalar(values[0], arrow_type), len(values))
        )
        return same
    if kind_type in INTEGERS:
        with suppress(TypeError):  # a value is absent
            return pa.Array.from_buffers(arrow_type, len(values), [None, pa.py_buffer(array("q", values))])  # a third faster
    return pa.array(values, arrow_type)


def table(kind: str, rows: Iterable[Row]) -> pa.Table:
    """All rows of one kind as a table.

    Raises:
        UsageError: pyarrow is missing.
    """
    require_pyarrow()
    import pyarrow as pa

    made = RecordBatches(kind)
    return pa.Table.from_batches([made.batch(some) for some in _parts(rows)], made.schema)


def _parts(rows: Iterable[Row]) -> Iterator[list[Row]]:
    iterator = iter(rows)
    while some := list(islice(iterator, BATCH_ROWS)):
        yield some
