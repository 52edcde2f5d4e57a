"""Rows as Arrow: the schema of each kind, from the column table, record batches and tables. pyarrow is an extra."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from pulsarscope.errors import UsageError
from pulsarscope.export.cells import cell_types, cells, is_constant, json_texts
from pulsarscope.outputs import CHECKSUM_COLUMNS
from pulsarscope.records import Row, columns

if TYPE_CHECKING:
    import pyarrow as pa

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


def record_batch(kind: str, rows: Sequence[Row], schema: pa.Schema) -> pa.RecordBatch:
    """Rows of one kind as a record batch with the columns of `schema`."""
    import pyarrow as pa

    types = cell_types(kind)
    arrays = [_array(values, types[field.name], field.type) for field, values in zip(schema, cells(kind, rows, schema.names), strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: Sequence[Any], kind_type: str, arrow_type: pa.DataType) -> pa.Array[Any]:
    import pyarrow as pa

    if kind_type == "json":
        values = json_texts(values)
    if is_constant(values):
        scalar: Any = pa.scalar(values[0], arrow_type)
        same: pa.Array[Any] = pa.repeat(scalar, len(values))
        return same
    return pa.array(values, arrow_type)


def table(kind: str, rows: Iterable[Row]) -> pa.Table:
    """All rows of one kind as a table.

    Raises:
        UsageError: pyarrow is missing.
    """
    require_pyarrow()
    import pyarrow as pa

    schema = arrow_schema(kind)
    return pa.Table.from_batches([record_batch(kind, some, schema) for some in _parts(rows)], schema)


def _parts(rows: Iterable[Row]) -> Iterator[list[Row]]:
    iterator = iter(rows)
    while some := list(islice(iterator, BATCH_ROWS)):
        yield some
