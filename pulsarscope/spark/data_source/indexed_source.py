"""A reader of records from the parts of an index that filters may pass, without reading the captures."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from warnings import warn

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import InputPartition

from pulsarscope import __version__
from pulsarscope.capture import Inputs
from pulsarscope.engine.options import Options
from pulsarscope.index.candidates import DISPLAY_COLUMNS, Mask, filter_mask, joined, passing
from pulsarscope.index.identity import Identity, identity_of, places_beside
from pulsarscope.index.reader import Index, IndexUnusable, open_index
from pulsarscope.index.run import IndexRun
from pulsarscope.model.errors import CaptureError
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.spark.data_source.record_source import FilteredRecordReader, RecordSourceReader, SharePartition
from pulsarscope.spark.data_source.source_options import SourceOptions

SERVED = (FrameRow.kind, ConnectionRow.kind)
"""Kinds of records that are read from an index. Findings are not: an index has those of `decode`, and a read of findings evaluates
rules."""

COMPARED = ("file", "packet", "sub", "time", "connection", "command", "topic", "request", "latency_ns")
"""Columns of frames that an index has in addition to the rows."""

CHUNKS_PER_TASK = 64
"""A quarter of a million frames."""


class UsableIndex(msgspec.Struct, frozen=True):
    """An index of the captures in their current state."""

    path: str
    identity: Identity
    chunks: int
    """Number of chunks of frames."""


def usable_index(options: SourceOptions, inputs: Inputs) -> UsableIndex | None:
    """Return the index of the captures, in the folder of the options or beside a single capture; None if no index serves the read.

    Warn of an index that cannot be used.
    """
    if options.kind not in SERVED or options.window or inputs.findings:
        return None
    if (identity := identity_of(inputs.paths, options.engine, __version__)) is None:
        return None
    folder = [Path(options.index_location, identity.place)] if options.index_location else []
    index, refusals = open_index([*folder, *places_beside(identity)], identity)
    for refusal in refusals:
        warn(f"{refusal}: the captures are read", stacklevel=2)
    return None if index is None else UsableIndex(str(index.path), identity, index.chunks)


class IndexedRecordReader(RecordSourceReader):
    """A reader whose tasks each read some chunks of an index."""

    def __init__(self, options: SourceOptions, inputs: Inputs, columns: Sequence[str], index: UsableIndex) -> None:
        """Prepare to read; `columns`: columns of the table."""
        super().__init__(options, inputs, columns)
        self._index = index

    def partitions(self) -> list[InputPartition]:
        """Return ranges of chunks; a single range for connections."""
        chunks = self._index.chunks
        if self._options.kind == ConnectionRow.kind:
            return [SharePartition(range(0))]
        count = min(self._options.partitions or -(-chunks // CHUNKS_PER_TASK), chunks) or 1
        return [SharePartition(range(chunks * number // count, chunks * (number + 1) // count)) for number in range(count)]

    def _run(self, share: range, options: Options) -> IndexRun:
        index = self._open()
        return IndexRun(index, self._inputs, options, self._chosen(index, share))

    def _open(self, opener: Callable[[str], pa.NativeFile] = pa.memory_map) -> Index:
        """Open the index. Raises CaptureError when it has changed since the read was planned."""
        try:
            return Index(Path(self._index.path), self._index.identity, opener)
        except IndexUnusable as reason:
            raise CaptureError(f"the index {self._index.path} {reason}") from reason

    def _chosen(self, index: Index, chunks: range) -> dict[int, list[int]]:
        """Return the positions of the frames that may pass all filters, by chunk."""
        masks: list[Mask] = []
        columns = [name for name in self._filters.names if name in COMPARED]
        if columns:
            masks.append(self._filters.mask)
        if (display_filter := self._options.make_filter()) is not None:
            display_filter.begin(index.totals)
            if (mask := filter_mask(display_filter)) is not None:
                masks.append(mask)
                columns += DISPLAY_COLUMNS
        if not masks:
            return {number: [*range(index.size(number))] for number in chunks}
        return passing(index, joined(masks, pc.and_kleene), tuple(dict.fromkeys(columns)), chunks)

    def bytes_read(self) -> int:
        """Return the number of bytes of the index that a read takes."""
        with _CountedFile(self._index.path) as file:
            index = self._open(lambda _: pa.PythonFile(file, "r"))
            for number in self._chosen(index, range(index.chunks)):
                index.columns(number, ("row",))
            return file.bytes_read


class FilteredIndexedReader(FilteredRecordReader, IndexedRecordReader):
    """A reader that also takes filters from Spark."""


class _CountedFile(io.FileIO):
    """A file that counts the bytes read from it."""

    bytes_read = 0

    def read(self, size: int | None = -1, /) -> Any:
        data = super().read(-1 if size is None else size)
        self.bytes_read += len(data or b"")
        return data
