"""Reader of records from the parts of an index that the filters may pass, without reading the captures."""

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
"""Kinds of records that an index gives; findings in it are those of `decode`, which a read of findings judges anew."""

COMPARED = ("file", "packet", "sub", "time", "connection", "command", "topic", "request", "latency_ns")
"""Columns of frames that an index has beside the rows."""

CHUNKS_PER_TASK = 64
"""A quarter of a million frames."""


class UsableIndex(msgspec.Struct, frozen=True):
    """An index of the captures as they are."""

    path: str
    identity: Identity
    chunks: int
    """Number of chunks of frames."""


def usable_index(options: SourceOptions, inputs: Inputs) -> UsableIndex | None:
    """Return the index of the captures in the folder of the options, or beside a single one; None where none serves the read.

    Warns of one that cannot be used.
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
    """Reader with a task for some chunks of an index."""

    def __init__(self, options: SourceOptions, inputs: Inputs, columns: Sequence[str], index: UsableIndex) -> None:
        """Read nothing; `columns` are those of the table."""
        super().__init__(options, inputs, columns)
        self._index = index

    def partitions(self) -> list[InputPartition]:
        """Return ranges of chunks; one for connections."""
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
        """Return the positions in each chunk of the frames that may pass all filters."""
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
        """Return how many bytes of the index a read takes."""
        with _CountedFile(self._index.path) as file:
            index = self._open(lambda _: pa.PythonFile(file, "r"))
            for number in self._chosen(index, range(index.chunks)):
                index.columns(number, ("row",))
            return file.bytes_read


class FilteredIndexedReader(FilteredRecordReader, IndexedRecordReader):
    """Reader that takes filters from Spark, too."""


class _CountedFile(io.FileIO):
    """A file that counts what is read of it."""

    bytes_read = 0

    def read(self, size: int | None = -1, /) -> Any:
        data = super().read(-1 if size is None else size)
        self.bytes_read += len(data or b"")
        return data
