"""Rows as Arrow: the schema of each kind from the column table, record batches and tables. pyarrow is an extra."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

from pulsarscope.model.errors import UsageError
from pulsarscope.model.ordered_rows import as_ordered
from pulsarscope.model.platform import install_command, load_native
from pulsarscope.model.records import columns
from pulsarscope.model.row_lists import EntryMessages
from pulsarscope.output.export.columns import cell_types, cells, is_constant, json_texts
from pulsarscope.output.registry import CHECKSUM_COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa

INTEGERS = frozenset({"int64", "time"})
"""Column types that are 64-bit integers in Arrow."""

BATCH_ROWS = 16_384
"""Rows of a batch of a table."""


def require_pyarrow(needing: str = "Arrow and Parquet need") -> None:
    """Raise UsageError when pyarrow is missing, with the way to install it, or cannot be loaded; `needing` says what needs it."""
    try:
        import pyarrow as pa  # noqa: F401 - the import is the test
    except ModuleNotFoundError as error:
        raise UsageError(f"{needing} pyarrow: {install_command('parquet')}") from error
    except ImportError as error:  # a broken installation, or not enough memory
        raise UsageError(f"{needing} pyarrow, which cannot be loaded: {error}") from error


def arrow_types() -> dict[str, pa.DataType]:
    """Return the Arrow type of each column type. A time is int64 nanoseconds since the epoch."""
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
    """Return the schema of a kind, with all flat columns or the named ones, and their descriptions as metadata `description`."""
    import pyarrow as pa

    types = cell_types(kind)
    texts = {column.name: column.text for column in columns(kind)}
    texts |= dict.fromkeys(CHECKSUM_COLUMNS, texts.get("checksum", ""))
    arrow = arrow_types()
    return pa.schema([pa.field(name, arrow[types[name]], metadata={"description": texts[name]}) for name in names or types])


def with_dictionaries(schema: pa.Schema, names: Collection[str]) -> pa.Schema:
    """Return a schema in which the named columns that are texts are dictionaries."""
    import pyarrow as pa

    texts = [name in names and field.type == pa.string() for name, field in zip(schema.names, schema, strict=True)]
    dictionary = pa.dictionary(pa.int32(), pa.string())
    return pa.schema([field.with_type(dictionary) if is_text else field for field, is_text in zip(schema, texts, strict=True)])


class RecordBatches:
    """A converter of rows of one kind to record batches, with all flat columns or the named ones."""

    def __init__(self, kind: str, names: Sequence[str] | None = None, dictionaries: Collection[str] = ()) -> None:
        """`dictionaries`: names of columns of texts that the compiled reader gathers as dictionaries."""
        compiled = load_native()[0] is not None
        self.schema = with_dictionaries(arrow_schema(kind, names), dictionaries if compiled else ())
        types = cell_types(kind)
        self._kind = kind
        # Cached, because pyarrow makes a new object for a name or type at each access.
        self._names = self.schema.names
        self._types = [(types[field.name], field.type) for field in self.schema]

    def batch(self, rows: Sequence[Any]) -> pa.RecordBatch:
        """Return rows, which may include `EntryMessages`, as one batch."""
        import pyarrow as pa

        if load_native()[0] is not None:
            self.gather(as_ordered(rows), rows)
            return self.take()
        if any(type(row) is EntryMessages for row in rows):
            arrays = self._messages(rows)
        else:
            arrays = [_array(values, *types) for values, types in zip(cells(rows, self._names), self._types, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def gather(self, ordered: Any, rows: Sequence[Any]) -> tuple[int, int]:
        """Gather the rows of the kind in ordered rows (`model.ordered_rows`); return the numbers of rows and of bytes gathered so far.

        `rows`: those of the rows that are not in columns. No array is made from objects, because pyarrow would import pandas for that.
        """
        of_python = [row for row in rows if type(row) is not EntryMessages]
        given = [
            json_texts(values) if kind_type == "json" else [*values]
            for values, (kind_type, _) in zip(cells(of_python, self._names), self._types, strict=True)
        ]
        gathered: tuple[int, int] = self._gathered.append(ordered, given)
        return gathered

    def take(self) -> pa.RecordBatch:
        """Return the gathered rows as one batch, and begin anew."""
        import pyarrow as pa

        count, made = self._gathered.take()
        arrays = [_from_buffers(arrow_type, count, *column) for (_, arrow_type), column in zip(self._types, made, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    @cached_property
    def _gathered(self) -> Any:
        """Rows in the columns of the compiled reader."""
        import pyarrow as pa

        columns = [
            (name, "repeated" if isinstance(arrow_type, pa.DictionaryType) else kind_type)
            for name, (kind_type, arrow_type) in zip(self._names, self._types, strict=True)
        ]
        return load_native()[0].ArrowTable(self._kind, columns, json_texts, EntryMessages)

    def _messages(self, rows: Sequence[Any]) -> list[pa.Array[Any]]:
        """Return the columns of messages; those of one entry share most values."""
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


def _from_buffers(
    arrow_type: pa.DataType, count: int, absent: int, buffers: Sequence[Any], items: tuple[int, int, Sequence[Any]] | None
) -> pa.Array[Any]:
    """Return a column from buffers of the compiled reader, which are missing if all values are absent.

    `items`: the items of lists, or the values of a dictionary, as (count, absent, buffers).
    """
    import pyarrow as pa

    arrow: Any = pa
    if not buffers:
        absent_values: pa.Array[Any] = arrow.nulls(count, arrow_type)
        return absent_values
    given = [None if data is None else arrow.foreign_buffer(*data.place(), data) for data in buffers]
    made: pa.Array[Any]
    if isinstance(arrow_type, pa.DictionaryType):
        values = _from_buffers(arrow_type.value_type, *items, None) if items else None
        indices = arrow.Array.from_buffers(arrow_type.index_type, count, given, absent)
        made = arrow.DictionaryArray.from_arrays(indices, values, safe=False)
    else:
        children = None if items is None else [_from_buffers(arrow_type.field(0).type, *items, None)]
        made = arrow.Array.from_buffers(arrow_type, count, given, absent, children=children)
    return made


def _array(values: Sequence[Any], kind_type: str, arrow_type: pa.DataType, counts: Sequence[int] | None = None) -> pa.Array[Any]:
    """Return a column of values, each repeated by its count. (Arrow's `take` would load 13 MiB for that.)"""
    import pyarrow as pa

    arrow: Any = pa
    if kind_type == "json":
        values = json_texts(values)
    if is_constant(values):
        count = len(values) if counts is None else sum(counts)
        constant: pa.Array[Any] = (
            arrow.nulls(count, arrow_type) if values[0] is None else arrow.repeat(arrow.scalar(values[0], arrow_type), count)
        )
        return constant
    if kind_type in INTEGERS:
        with suppress(TypeError):  # a value is absent
            data = array("q", values).tobytes()  # a third faster than pa.array
            if counts is not None:
                data = b"".join([data[8 * at : 8 * at + 8] * count for at, count in enumerate(counts)])
            return pa.Array.from_buffers(arrow_type, len(data) // 8, [None, pa.py_buffer(data)])
    return pa.array(values if counts is None else [*chain.from_iterable(map(repeat, values, counts))], arrow_type)


def table(kind: str, rows: Iterable[Any]) -> pa.Table:
    """Return all rows of one kind, which may include `EntryMessages`, as a table. Raises UsageError when pyarrow is missing."""
    require_pyarrow()
    import pyarrow as pa

    batches = RecordBatches(kind)
    return pa.Table.from_batches([batches.batch(part) for part in _parts(rows)], batches.schema)


def with_timestamps(kind: str, rows: pa.Table) -> pa.Table:
    """Return a table of a kind whose times are timestamps in nanoseconds, UTC; their numbers stay the same."""
    import pyarrow as pa

    for column in columns(kind):
        if column.type == "time" and (at := rows.schema.get_field_index(column.name)) >= 0:
            field = rows.schema.field(at).with_type(pa.timestamp("ns", tz="UTC"))
            rows = rows.set_column(at, field, rows.column(at).cast(field.type))
    return rows


def stream(kind: str, rows: Iterable[Any]) -> pa.RecordBatchReader:
    """Return the rows of one kind as batches that are made on demand. Raises UsageError when pyarrow is missing."""
    require_pyarrow()
    import pyarrow as pa

    batches = RecordBatches(kind)
    return pa.RecordBatchReader.from_batches(batches.schema, (batches.batch(part) for part in _parts(rows)))


def _parts(rows: Iterable[Any]) -> Iterator[list[Any]]:
    part: list[Any] = []
    count = 0
    for row in rows:
        part.append(row)
        count += row.count if type(row) is EntryMessages else 1
        if count >= BATCH_ROWS:
            yield part
            part, count = [], 0
    if part:
        yield part
