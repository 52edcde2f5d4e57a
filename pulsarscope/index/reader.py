"""Reading an index: frames by their position, their columns, and the other results of the run."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec
import pyarrow as pa

from pulsarscope.capture.portions import Portion
from pulsarscope.index.identity import OTHERWISE_MADE, Identity, is_there
from pulsarscope.index.writer import IDENTITY, MODULES, PORTION, SCHEMA, TABLE, TOTALS, IndexTotals
from pulsarscope.model.errors import CaptureError
from pulsarscope.model.limits import INDEX_CHUNKS_CACHED, INDEXED_FRAMES_PER_CHUNK
from pulsarscope.model.platform import modules_mark
from pulsarscope.model.records import ConnectionRow, FindingRow, FrameRow
from pulsarscope.model.text import printable

_DAMAGE = (OSError, ValueError, TypeError, LookupError, pa.ArrowException)
"""Exceptions that a damaged index raises."""


class IndexUnusable(Exception):  # noqa: N818 - a state, as its text says
    """An index that must not be used. The text completes a sentence whose subject is the index."""


class Index:
    """The frames of captures, by their position in the run. Threads may share it."""

    def __init__(self, path: Path, identity: Identity | None = None, opener: Callable[[str], pa.NativeFile] = pa.memory_map) -> None:
        """Open a file. Raises IndexUnusable when it is damaged or does not match `identity`."""
        self.path = path
        self._open = opener
        try:
            self._arrow = pa.ipc.open_file(opener(str(path)))
            metadata = self._arrow.schema.metadata or {}
            self.identity = msgspec.json.decode(metadata.get(IDENTITY, b""), type=Identity)
            if not self._arrow.schema.equals(SCHEMA) or not self._arrow.num_record_batches:
                raise IndexUnusable("is not of this version")
            self._read_others(_validated(self._arrow.get_batch(self._arrow.num_record_batches - 1)).to_pylist())
        except _DAMAGE as error:
            raise IndexUnusable("is damaged, or cut") from error
        if identity is not None:
            of_others = metadata.get(MODULES) != modules_mark().encode()
            if (difference := OTHERWISE_MADE if of_others else self.identity.difference(identity)) is not None:
                raise IndexUnusable(difference)
        self.chunks = -(-self._count // INDEXED_FRAMES_PER_CHUNK)
        """Number of chunks of frames."""
        self.packet_chunks = range(self.chunks, self._arrow.num_record_batches - 1)
        """Numbers of the chunks of packets."""
        self._readers: dict[tuple[str, ...], Any] = {}
        self._cache: OrderedDict[int, Any] = OrderedDict()
        self._decode = msgspec.msgpack.Decoder(FrameRow).decode
        self._lock = Lock()

    def _read_others(self, others: Sequence[Mapping[str, Any]]) -> None:
        """Read the rows after the frames. Raises one of `_DAMAGE` if they are damaged."""
        decoders = {row_type.kind: msgspec.msgpack.Decoder(row_type) for row_type in (ConnectionRow, FindingRow)}
        self.others: list[tuple[int, Any]] = []
        """Rows of other kinds in their order, each with the number of frames before it."""
        self.tables: dict[str, list[dict[str, Any]]] = {}
        """Records of tables of statistics, by name."""
        self.portions: list[Portion] = []
        """Positions from which captures can be read; empty for compressed captures."""
        totals: IndexTotals | None = None
        for other in others:
            kind, data = other["record"], other["row"]
            if kind == TABLE:
                table = msgspec.msgpack.decode(data)
                self.tables[table["name"]] = table["records"]
            elif kind == PORTION:
                self.portions.append(msgspec.msgpack.decode(data, type=Portion))
            elif kind == TOTALS:
                totals = msgspec.msgpack.decode(data, type=IndexTotals)
                self._count = int(other["at"])
            else:
                self.others.append((other["at"], decoders[kind].decode(data)))
        if totals is None:
            raise IndexUnusable("is damaged, or cut")
        self.totals = totals

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> FrameRow:
        """Return the frame at a position, from 0. Raises IndexError, or CaptureError where the index is damaged."""
        number, at = divmod(index, INDEXED_FRAMES_PER_CHUNK)
        data = self._rows(number)[at]
        with self._reading():
            return self._decode(data.as_py())

    def start(self, number: int) -> int:
        """Return the position of the first frame of a chunk."""
        return number * INDEXED_FRAMES_PER_CHUNK

    def size(self, number: int) -> int:
        """Return the number of frames in a chunk."""
        return min(self._count - self.start(number), INDEXED_FRAMES_PER_CHUNK)

    def chunk(self, number: int) -> list[FrameRow]:
        """Return the frames of a chunk. Raises the same errors as `__getitem__`."""
        return self.some(number, None)

    def names(self, number: int) -> list[tuple[int, int, int]]:
        """Return file, packet and sub of the frames of a chunk, without reading their rows. Raises the same errors as `columns`."""
        columns = [column.to_pylist() for column in self.columns(number, ("file", "packet", "sub")).columns]
        return [(file or 0, packet or 0, sub or 0) for file, packet, sub in zip(*columns, strict=True)]  # null where it is damaged

    def some(self, number: int, positions: Sequence[int] | None) -> list[FrameRow]:
        """Return the frames at some positions in a chunk (None: all)."""
        decode, rows = self._decode, self._rows(number)
        if positions is not None:
            rows = rows.take(pa.array(positions, pa.int64()))
        with self._reading():
            return [decode(data) for data in rows.to_pylist()]

    def columns(self, number: int, names: Sequence[str]) -> pa.RecordBatch:
        """Return some columns of a chunk without reading the others. Raises CaptureError where the index is damaged."""
        with self._lock, self._reading():
            if (reader := self._readers.get(tuple(names))) is None:
                fields = [SCHEMA.get_field_index(name) for name in names]
                options = pa.ipc.IpcReadOptions(included_fields=fields)
                reader = self._readers[tuple(names)] = pa.ipc.open_file(self._open(str(self.path)), options=options)
            return _validated(reader.get_batch(number))

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except _DAMAGE as error:
            raise CaptureError(f"the index {printable(str(self.path))} is damaged: remove it") from error

    def _rows(self, number: int) -> Any:
        if not 0 <= number < self.chunks:
            raise IndexError(number)
        if (rows := self._cache.get(number)) is None:
            rows = self._cache[number] = self.columns(number, ("row",)).column("row")
            if len(self._cache) > INDEX_CHUNKS_CACHED:
                self._cache.popitem(last=False)
        return rows


def _validated(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch after validating its offsets and texts. Raises ArrowInvalid."""
    batch.validate(full=True)
    return batch


def open_index(places: Sequence[Path], identity: Identity) -> tuple[Index | None, list[str]]:
    """Return the first usable index of captures, and in words why others are not usable."""
    refusals: list[str] = []
    for place in places:
        if not is_there(place):
            continue
        try:
            return Index(place, identity), refusals
        except IndexUnusable as reason:
            refusals.append(f"the index {place} {reason}")
    return None, refusals
