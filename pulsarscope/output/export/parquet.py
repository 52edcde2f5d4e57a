"""Parquet, zstd-compressed: one kind is one file, several kinds are a folder of KIND.parquet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pulsarscope.model.errors import UsageError
from pulsarscope.output.export.arrow import RecordBatches, require_pyarrow
from pulsarscope.output.export.columns import cell_types
from pulsarscope.output.export.sink import Sink, write_errors
from pulsarscope.output.registry import OutputOptions, choose_columns

if TYPE_CHECKING:
    import pyarrow as pa

ROW_GROUP_ROWS = 32_768
"""Rows of a row group: large enough to compress well, small enough to wait in memory as Arrow columns."""

UNIQUE_COLUMNS = frozenset(
    {
        *("packet", "offset", "request", "latency_ns", "response_packet", "sequence_id", "entry", "index"),
        *("checksum_stored", "checksum_computed", "payload", "payload_sha256"),
    }
)
"""Whose values, as times, hardly come again."""

ROW_GROUP_BYTES = 4 << 20
"""A row group also ends at this many bytes of Arrow columns, so that long rows do not fill the memory."""


WAITING_BATCHES_MAX = 64
"""Batches that wait before they become one: a batch of a few rows takes as much memory as one of a hundred."""


class BatchesByKind:
    """Rows -> record batches by kind."""

    def __init__(self, kinds: Sequence[str], names: Sequence[str] | None) -> None:
        require_pyarrow()
        self.by_kind = {kind: RecordBatches(kind, chosen) for kind, chosen in choose_columns(names, kinds, flat=True).items()}

    def encode(self, rows: list[Any]) -> dict[str, pa.RecordBatch]:
        """As `Encoder.encode`."""
        by_kind: dict[str, list[Any]] = {}
        made: Any
        for made, some in groupby(rows, type):  # messages of a batch stand together
            by_kind.setdefault(made.kind, []).extend(some)
        return {kind: self.by_kind[kind].batch(some) for kind, some in by_kind.items()}


class ParquetFile:
    """One Parquet file; row groups are put together from the batches of the run."""

    def __init__(self, kind: str, schema: pa.Schema, sink: Sink) -> None:
        from pyarrow.parquet import ParquetWriter

        class Writer(ParquetWriter):
            """One that does not end its file when it is collected: of an abandoned file that fails, and Python prints how."""

            def __del__(self) -> None:
                pass

        self._sink = sink
        self._schema = schema
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0
        with write_errors(sink.name):
            dictionaries: Any = _repeating(kind, tuple(schema.names))
            self._writer = Writer(sink.file, self._schema, compression="zstd", use_dictionary=dictionaries)

    def put(self, batch: pa.RecordBatch) -> None:
        """As `EncodedOutput.put`."""
        self._waiting.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.get_total_buffer_size()  # `nbytes` takes ten times as long
        if len(self._waiting) >= WAITING_BATCHES_MAX:
            from pyarrow import Table

            self._waiting = Table.from_batches(self._waiting, self._schema).combine_chunks().to_batches()
        if self._rows >= ROW_GROUP_ROWS or self._bytes >= ROW_GROUP_BYTES:
            self._write_group()

    def close(self) -> None:
        """As `Output.close`."""
        if self._waiting:
            self._write_group()
        with write_errors(self._sink.name):
            self._writer.close()

    def _write_group(self) -> None:
        from pyarrow import Table

        table = Table.from_batches(self._waiting, self._schema)
        self._waiting, self._rows, self._bytes = [], 0, 0
        with write_errors(self._sink.name):
            self._writer.write_table(table, row_group_size=ROW_GROUP_ROWS)


def _repeating(kind: str, names: tuple[str, ...]) -> list[str]:
    """The columns whose values come again: a dictionary of all others is work for nothing, and larger."""
    types = cell_types(kind)
    return [name for name in names if name not in UNIQUE_COLUMNS and types[name] in {"string", "int64", "bool", "strings"}]


def _use_system_memory() -> None:
    """Arrow's own allocator gives pages back and takes them anew for each row group: 30 MiB more, and a tenth of the time."""
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())


class Parquet:
    """The output `parquet`."""

    def __init__(self, sink: Sink, options: OutputOptions) -> None:
        _use_system_memory()
        self._batches = BatchesByKind(options.kinds, options.columns)
        single = not sink.directory
        if single and len(options.kinds) > 1:
            several = ", ".join(options.kinds)
            text = f"a Parquet file holds one kind of record, not {several}: give a folder with -o, or one kind with --records"
            raise UsageError(text)
        self._files = {
            kind: ParquetFile(kind, batches.schema, sink if single else sink.child(f"{kind}.parquet"))
            for kind, batches in self._batches.by_kind.items()
        }

    def write(self, rows: list[Any]) -> None:
        """As `Output.write`."""
        self.put(self._batches.encode(rows))

    def put(self, encoded: Mapping[str, pa.RecordBatch]) -> None:
        """As `EncodedOutput.put`."""
        for kind, batch in encoded.items():
            self._files[kind].put(batch)

    def close(self) -> None:
        """As `Output.close`."""
        for file in self._files.values():
            file.close()
