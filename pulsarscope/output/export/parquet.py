"""Parquet, zstd-compressed: one kind is one file, several kinds are a folder of KIND.parquet."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pulsarscope.model.errors import UsageError
from pulsarscope.model.ordered_rows import as_ordered, others
from pulsarscope.model.platform import load_native
from pulsarscope.model.records import ExchangeRow, FrameRow, MessageRow
from pulsarscope.output.export.arrow import RecordBatches, require_pyarrow
from pulsarscope.output.export.columns import cell_types
from pulsarscope.output.export.sink import Sink, write_errors
from pulsarscope.output.registry import OutputOptions, choose_columns

if TYPE_CHECKING:
    import pyarrow as pa

ROW_GROUP_ROWS = 32_768
"""Rows of a row group: enough to compress well, few enough to be held in memory as Arrow columns."""

UNIQUE_COLUMNS = frozenset(
    {
        *("packet", "offset", "request", "latency_ns", "response_packet", "sequence_id", "entry", "index"),
        *("checksum_stored", "checksum_computed", "payload", "payload_sha256"),
    }
)
"""Columns whose values, like times, rarely repeat. Of numbers among them, only the differences are stored: files are a quarter smaller.
The same applies to the `key` of exchanges."""

ROW_GROUP_BYTES = 2 << 20
"""Bytes of Arrow columns at which a row group also ends: long rows would otherwise fill the memory."""

GATHERED_BYTES = 4 << 20
"""The same for columns of the compiled reader, of which there is one copy. Each column of a row group takes time and memory of its own."""

PENDING_BATCHES_MAX = 64
"""Number of pending batches at which they are joined: a batch of a few rows takes as much memory as one of a hundred."""


KINDS_IN_COLUMNS = frozenset({FrameRow.kind, ExchangeRow.kind, MessageRow.kind})
"""Kinds of records that the compiled reader may have in columns."""

ByKind = Mapping[str, tuple[Any, list[Any]]]
"""Rows by kind: ordered rows of the compiled reader or None, and the rows of the kind that are not in columns."""


class RowsByKind:
    """An encoder that only sorts rows by kind: what takes them is not text, and holds them in columns."""

    def __init__(self, kinds: Sequence[str], names: Sequence[str] | None) -> None:
        self._kinds = [*choose_columns(names, kinds, flat=True)]

    def encode(self, rows: list[Any]) -> ByKind:
        """Return the rows of each kind, with ordered rows that stand for all if the compiled reader is in use (see `RowEncoder`)."""
        return self._by_kind(None if load_native()[0] is None else as_ordered(rows), rows)

    def ordered(self, ordered: Any, following: Sequence[Any], encode: Any) -> ByKind:  # noqa: ARG002 - of lines
        """Return ordered rows and the rows after them for each kind that they may have (see `ColumnEncoder`)."""
        rows = [ordered, *following]
        return self._by_kind(as_ordered(rows), others(rows), KINDS_IN_COLUMNS)

    def _by_kind(self, ordered: Any, rows: Sequence[Any], kinds: frozenset[str] = frozenset()) -> ByKind:
        by_kind: dict[str, list[Any]] = {}
        row_class: Any
        for row_class, group in groupby(rows, type):  # messages of a batch follow one another
            by_kind.setdefault(row_class.kind, []).extend(group)
        return {kind: (ordered, by_kind.get(kind, [])) for kind in self._kinds if kind in by_kind or kind in kinds}


class _SinkFile:
    """The file of a sink, for pyarrow. pyarrow ends a file when its writer is garbage-collected; for an abandoned sink that is ignored."""

    closed = False

    def __init__(self, sink: Sink) -> None:
        self._file = sink.file

    def write(self, data: bytes) -> int:
        """Write data, unless the sink has ended."""
        return len(data) if self._file.closed else self._file.write(data)

    def flush(self) -> None:
        """Do nothing: the sink flushes."""

    def close(self) -> None:
        """Do nothing: the owner of the sink ends it."""


class ParquetFile:
    """A Parquet file, whose row groups are made from the batches of the run."""

    def __init__(self, kind: str, schema: pa.Schema, sink: Sink) -> None:
        from pyarrow import int64
        from pyarrow._parquet import ParquetWriter  # pyarrow.parquet imports cloud file systems, which take 11 MiB

        self._sink = sink
        self._schema = schema
        self._pending: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0
        with write_errors(sink.name):
            file: Any = _SinkFile(sink)
            dictionaries: Any = repeating(kind, schema.names)
            numbers = [field.name for field in schema if field.type == int64()]
            deltas: Any = {name: "DELTA_BINARY_PACKED" for name in numbers if name not in dictionaries}
            stored: Any = _stored(schema)
            self._writer = ParquetWriter(
                file,
                schema,
                writer_engine_version="V2",
                compression="ZSTD",
                use_dictionary=dictionaries,
                column_encoding=deltas,
                write_statistics=[*dictionaries, *numbers],
                write_batch_size=ROW_GROUP_ROWS,  # Arrow finds the least and greatest text of each batch, 1,024 rows by default, separately
                store_schema=stored is None,
            )
            if stored is not None:
                self._writer.add_key_value_metadata(stored)

    def put(self, batch: pa.RecordBatch) -> None:
        """Write encoded rows, once they fill a row group."""
        self._pending.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.get_total_buffer_size()  # `nbytes` takes ten times as long
        if len(self._pending) >= PENDING_BATCHES_MAX:
            from pyarrow import Table

            self._pending = Table.from_batches(self._pending, self._schema).combine_chunks().to_batches()
        if _fill_group(self._rows, self._bytes, ROW_GROUP_BYTES):
            self.write_group()

    def write_group(self) -> None:
        """Write pending rows as a row group, or several if they are too many."""
        from pyarrow import Table

        if not self._rows:
            return
        table = Table.from_batches(self._pending, self._schema)
        self._pending, self._rows, self._bytes = [], 0, 0
        with write_errors(self._sink.name):
            self._writer.write_table(table, row_group_size=ROW_GROUP_ROWS)

    def close(self) -> None:
        """Write pending rows and the end (see `Output`)."""
        self.write_group()
        with write_errors(self._sink.name):
            self._writer.close()


def _stored(schema: pa.Schema) -> dict[str, bytes] | None:
    """Return the metadata of a file whose dictionaries are read as texts: they are only a way to write these. None if it has none."""
    import pyarrow as pa

    texts = [field.with_type(field.type.value_type) if isinstance(field.type, pa.DictionaryType) else field for field in schema]
    stored = pa.schema(texts)
    return None if stored.equals(schema) else {"ARROW:schema": b64encode(stored.serialize().to_pybytes())}


class _RowsFile:
    """A Parquet file for rows of one kind. The compiled reader gathers them in columns; else, each block is a batch."""

    def __init__(self, kind: str, names: Sequence[str], sink: Sink) -> None:
        self._batches = RecordBatches(kind, names, repeating(kind, names))
        self._file = ParquetFile(kind, self._batches.schema, sink)
        self._gathers = False

    def put(self, ordered: Any, rows: list[Any]) -> None:
        """Write rows of the kind (see `ByKind`)."""
        if ordered is None:
            self._file.put(self._batches.batch(rows))
            return
        self._gathers = True
        if _fill_group(*self._batches.gather(ordered, rows), GATHERED_BYTES):
            self._write_group()

    def close(self) -> None:
        """Write pending rows and the end (see `Output`)."""
        self._write_group()
        self._file.close()

    def _write_group(self) -> None:
        if self._gathers:
            self._file.put(self._batches.take())
            self._file.write_group()


def _fill_group(rows: int, size: int, most: int) -> bool:
    return rows >= ROW_GROUP_ROWS or size >= most


def repeating(kind: str, names: Sequence[str]) -> list[str]:
    """Return the columns whose values repeat. For the others, a dictionary takes time and makes the file larger."""
    types = cell_types(kind)
    unique = UNIQUE_COLUMNS | {"key"} if kind == ExchangeRow.kind else UNIQUE_COLUMNS
    return [name for name in names if name not in unique and types.get(name) in {"string", "int64", "bool", "strings"}]


class ParquetOutput:
    """The output `parquet`."""

    def __init__(self, sink: Sink, options: OutputOptions) -> None:
        require_pyarrow()
        self._encode = RowsByKind(options.kinds, options.columns).encode
        single = not sink.directory
        if single and len(options.kinds) > 1:
            several = ", ".join(options.kinds)
            raise UsageError(f"a Parquet file holds one kind of record, not {several}: give a folder with -o, or one kind with --records")
        self._files = {
            kind: _RowsFile(kind, names, sink if single else sink.child(f"{kind}.parquet"))
            for kind, names in choose_columns(options.columns, options.kinds, flat=True).items()
        }

    def write(self, rows: list[Any]) -> None:
        """Write rows (see `Output`)."""
        self.put(self._encode(rows))

    def put(self, encoded: ByKind) -> None:
        """Write encoded rows (see `EncodedOutput`)."""
        for kind, of_kind in encoded.items():
            self._files[kind].put(*of_kind)

    def close(self) -> None:
        """Write pending rows and the end (see `Output`)."""
        for file in self._files.values():
            file.close()
