"""Parquet, zstd-compressed: one kind is one file, several kinds are a folder of KIND.parquet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pulsarscope.model.errors import UsageError
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
"""Columns whose values, like times, rarely repeat."""

ROW_GROUP_BYTES = 2 << 20
"""Bytes of Arrow columns at which a row group also ends: long rows would otherwise fill the memory."""

PENDING_BATCHES_MAX = 64
"""Number of pending batches at which they are joined: a batch of a few rows takes as much memory as one of a hundred."""


KINDS_IN_COLUMNS = frozenset({FrameRow.kind, ExchangeRow.kind, MessageRow.kind})
"""Kinds of records that the compiled reader may have in columns."""


class BatchesByKind:
    """An encoder of rows to record batches by kind."""

    def __init__(self, kinds: Sequence[str], names: Sequence[str] | None) -> None:
        require_pyarrow()
        self.by_kind = {kind: RecordBatches(kind, chosen) for kind, chosen in choose_columns(names, kinds, flat=True).items()}

    def encode(self, rows: list[Any]) -> dict[str, pa.RecordBatch]:
        """Encode rows (see `RowEncoder`)."""
        by_kind: dict[str, list[Any]] = {}
        row_class: Any
        for row_class, group in groupby(rows, type):  # messages of a batch follow one another
            by_kind.setdefault(row_class.kind, []).extend(group)
        return {kind: self.by_kind[kind].batch(kind_rows) for kind, kind_rows in by_kind.items()}

    def ordered(self, ordered: Any, following: Sequence[Any], encode: Any) -> dict[str, pa.RecordBatch]:  # noqa: ARG002 - of lines
        """Encode ordered rows and the rows after them, with all columns (see `ColumnEncoder`)."""
        by_kind: dict[str, list[Any]] = {}
        for row in (*ordered.others(), *following):
            by_kind.setdefault(row.kind, []).append(row)
        asked = (kind for kind in self.by_kind if kind in by_kind or kind in KINDS_IN_COLUMNS)
        made = {kind: self.by_kind[kind].of_ordered(ordered, by_kind.get(kind, ())) for kind in asked}
        return {kind: batch for kind, batch in made.items() if batch.num_rows}


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
        from pyarrow.parquet import ParquetWriter

        self._sink = sink
        self._schema = schema
        self._pending: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0
        with write_errors(sink.name):
            file: Any = _SinkFile(sink)
            dictionaries: Any = _repeating(kind, tuple(schema.names))
            self._writer = ParquetWriter(file, self._schema, compression="zstd", use_dictionary=dictionaries)

    def put(self, batch: pa.RecordBatch) -> None:
        """Write encoded rows (see `EncodedOutput`)."""
        self._pending.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.get_total_buffer_size()  # `nbytes` takes ten times as long
        if len(self._pending) >= PENDING_BATCHES_MAX:
            from pyarrow import Table

            self._pending = Table.from_batches(self._pending, self._schema).combine_chunks().to_batches()
        if self._rows >= ROW_GROUP_ROWS or self._bytes >= ROW_GROUP_BYTES:
            self._write_group()

    def close(self) -> None:
        """Write pending rows and the end (see `Output`)."""
        if self._pending:
            self._write_group()
        with write_errors(self._sink.name):
            self._writer.close()

    def _write_group(self) -> None:
        from pyarrow import Table

        table = Table.from_batches(self._pending, self._schema)
        self._pending, self._rows, self._bytes = [], 0, 0
        with write_errors(self._sink.name):
            self._writer.write_table(table, row_group_size=ROW_GROUP_ROWS)


def _repeating(kind: str, names: tuple[str, ...]) -> list[str]:
    """Return the columns whose values repeat. For the others, a dictionary takes time and makes the file larger."""
    types = cell_types(kind)
    return [name for name in names if name not in UNIQUE_COLUMNS and types.get(name) in {"string", "int64", "bool", "strings"}]


def _use_system_memory() -> None:
    """Make Arrow use malloc. Its own allocator returns and requests pages for each row group: 30 MiB and a tenth of the time."""
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())


class ParquetOutput:
    """The output `parquet`."""

    def __init__(self, sink: Sink, options: OutputOptions) -> None:
        self._batches = BatchesByKind(options.kinds, options.columns)
        _use_system_memory()
        single = not sink.directory
        if single and len(options.kinds) > 1:
            several = ", ".join(options.kinds)
            raise UsageError(f"a Parquet file holds one kind of record, not {several}: give a folder with -o, or one kind with --records")
        self._files = {
            kind: ParquetFile(kind, batches.schema, sink if single else sink.child(f"{kind}.parquet"))
            for kind, batches in self._batches.by_kind.items()
        }

    def write(self, rows: list[Any]) -> None:
        """Write rows (see `Output`)."""
        self.put(self._batches.encode(rows))

    def put(self, encoded: Mapping[str, pa.RecordBatch]) -> None:
        """Write encoded rows (see `EncodedOutput`)."""
        for kind, batch in encoded.items():
            self._files[kind].put(batch)

    def close(self) -> None:
        """Write pending rows and the end (see `Output`)."""
        for file in self._files.values():
            file.close()
