"""Writing an index during a run: a table of frames in Arrow's file format, followed by packets, all other rows and the totals."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from pulsarscope.capture.portions import Portion, portions
from pulsarscope.engine.local import PacketBatch
from pulsarscope.engine.row_batch import Totals
from pulsarscope.index.identity import UNFINISHED, Identity
from pulsarscope.model.limits import INDEX_PORTION_BYTES, INDEXED_FRAMES_PER_CHUNK, INDEXED_PACKETS_PER_CHUNK
from pulsarscope.model.platform import modules_mark
from pulsarscope.model.records import ConnectionRow, FrameRow

PACKET, PORTION, TABLE, TOTALS = "packet", "portion", "table", "totals"
"""Kinds of rows other than records: a packet of a connection with frames, a position to read a capture from, a table of statistics, the
totals of the run."""

_FIELDS: list[pa.Field[Any]] = [
    pa.field("record", pa.string(), metadata={"description": "Kind of the row: frame; behind all frames packet, then the others."}),
    pa.field("at", pa.int64(), metadata={"description": "Number of frames before the row."}),
    pa.field("file", pa.int32()),
    pa.field("offset", pa.int64(), metadata={"description": "Position in the file from which its packet is read; null: compressed."}),
    pa.field("packet", pa.int64()),
    pa.field("sub", pa.int32()),
    pa.field("time", pa.int64(), metadata={"description": "Nanoseconds since the epoch."}),
    pa.field("connection", pa.string()),
    pa.field("command", pa.string()),
    pa.field("topic", pa.string()),
    pa.field("topics", pa.list_(pa.string()), metadata={"description": "Of a frame with several topics."}),
    pa.field("request", pa.string(), metadata={"description": "Name of the frame that it answers."}),
    pa.field("latency_ns", pa.int64()),
    pa.field("findings", pa.list_(pa.string())),
    pa.field("row", pa.binary(), metadata={"description": "The whole row, in MessagePack; not of packets."}),
    pa.field("source", pa.string(), metadata={"description": "Endpoint of the sender of a packet."}),
    pa.field("flags", pa.uint8(), metadata={"description": "Its TCP flags."}),
    pa.field("start", pa.int64(), metadata={"description": "Place of its first byte in the stream of its sender."}),
    pa.field("end", pa.int64(), metadata={"description": "Place behind its last byte."}),
]

PLACE = ("packet", "connection", "source", "flags", "start", "end")
"""Columns of a packet other than its file."""

SCHEMA = pa.schema(_FIELDS)

IDENTITY = b"pulsarscope"
"""Key of the identity in the metadata."""

MODULES = b"modules"
"""Key of the mark of the modules that made the rows: the form of rows may change between two releases."""


class IndexTotals(msgspec.Struct):
    """Totals of a run, known at its end."""

    packets: int
    connections: int
    damaged: bool
    start: int | None
    fragmented: bool

    @classmethod
    def of(cls, run: Totals) -> IndexTotals:
        """Return the totals of a run."""
        return cls(run.packets, run.connections, run.damaged, run.start, run.fragmented)


class IndexWriter:
    """A writer of an index, which has another name until it is complete."""

    def __init__(self, path: Path, identity: Identity) -> None:
        """Open a file beside `path`. Raises OSError when it cannot be written."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path = path
        self._unfinished = path.with_name(f"{path.name}.{os.getpid()}{UNFINISHED}")
        descriptor = os.open(self._unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0), 0o600)
        self._file = os.fdopen(descriptor, "wb")
        schema = SCHEMA.with_metadata({IDENTITY: msgspec.json.encode(identity), MODULES: modules_mark()})
        self._arrow = pa.ipc.new_file(self._file, schema, options=pa.ipc.IpcWriteOptions(compression="zstd"))
        self._waiting: list[FrameRow] = []
        self._others: list[tuple[Any, ...]] = []
        self._with_frames: set[str] = set()  # names of connections of a known protocol
        self._packets: dict[str, list[Any]] = {name: [] for name in ("file", *PLACE)}
        self.frames = 0
        """Number of frames written."""
        self._encode = msgspec.msgpack.Encoder().encode
        self._places = [_Places(capture.path, file) for file, capture in enumerate(identity.captures)]

    def add(self, rows: Iterable[Any]) -> None:
        """Add the rows of a run in order. Raises OSError when they cannot be written."""
        for row in rows:
            if isinstance(row, FrameRow):
                self._waiting.append(row)
                if len(self._waiting) == INDEXED_FRAMES_PER_CHUNK:
                    self._write_frames()
            else:
                self._other(row.kind, row)
                if isinstance(row, ConnectionRow) and row.dissector is not None:
                    self._with_frames.add(row.connection or "")

    def add_packets(self, batch: PacketBatch) -> None:
        """Add the packets of a capture in order, after all rows. Raises OSError when they cannot be written."""
        if self._waiting:
            self._write_frames()
        waiting, with_frames = self._packets, self._with_frames
        placed = [(record.number, *place) for record, place in batch.packets if place is not None and place.connection in with_frames]
        for name, values in zip(PLACE, zip(*placed, strict=True), strict=True) if placed else ():
            waiting[name] += values
        waiting["file"] += [batch.file] * len(placed)
        if len(waiting["file"]) >= INDEXED_PACKETS_PER_CHUNK:
            self._write_packets()

    def finish(self, totals: IndexTotals, tables: Iterable[tuple[str, Any]] = ()) -> None:
        """Write the rest, and move the index to its place. Raises OSError when it cannot be written."""
        if self._waiting:
            self._write_frames()
        if self._packets["file"]:
            self._write_packets()
        for name, records in tables:
            self._other(TABLE, {"name": name, "records": records})
        for places in self._places:
            for portion in places.all():
                self._other(PORTION, portion)
        self._other(TOTALS, totals)
        self._arrow.write_batch(_batch(self._others))
        self._arrow.close()
        self._file.close()
        self._unfinished.replace(self.path)

    def abandon(self) -> None:
        """Remove the written file."""
        with suppress(OSError, pa.ArrowException):
            self._file.close()
        with suppress(OSError):
            self._unfinished.unlink(missing_ok=True)

    def _other(self, kind: str, row: Any) -> None:
        where = (getattr(row, name, None) for name in ("file", "packet", "sub", "time", "connection"))
        file, packet, sub, time, connection = where
        at = self.frames + len(self._waiting)
        codes = [row.code] if kind == "finding" else None
        own = (kind, at, file, None, packet, sub, time, connection, None, None, None, None, None, codes, self._encode(row))
        self._others.append((*own, *_NO_PLACE))

    def _write_frames(self) -> None:
        encode, places = self._encode, self._places
        rows = [
            (
                row.kind,
                self.frames + at,
                row.file,
                places[row.file or 0].offset(row.packet or 0),
                row.packet,
                row.sub,
                row.time,
                row.connection,
                row.command,
                row.topic,
                None if row.topics is None else list(row.topics),
                row.request,
                row.latency_ns,
                row.findings,
                encode(row),
                *_NO_PLACE,
            )
            for at, row in enumerate(self._waiting)
        ]
        self._arrow.write_batch(_batch(rows))
        self.frames += len(rows)
        self._waiting.clear()

    def _write_packets(self) -> None:
        columns: Mapping[str, list[Any]] = self._packets
        count = len(columns["file"])
        given = {**columns, "record": [PACKET] * count, "at": [self.frames] * count}
        arrays = [pa.array(given[field.name], field.type) if field.name in given else pa.nulls(count, field.type) for field in SCHEMA]
        self._arrow.write_batch(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))
        for values in columns.values():
            values.clear()


_NO_PLACE = (None,) * 4
"""Values of the packet columns in other rows."""


def _batch(rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays([pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


class _Places:
    """Positions in one capture from which packets can be read, found on demand."""

    def __init__(self, path: str, file: int) -> None:
        self.passed: list[Portion] = []
        self._coming: Iterator[Portion] = portions(path, file, INDEX_PORTION_BYTES)
        self._next = next(self._coming, None)

    def offset(self, packet: int) -> int | None:
        """Return the start of the portion with a packet. Numbers mostly ascend; a smaller one is found in an earlier portion."""
        while self._next is not None and self._next.packets < packet:
            self.passed.append(self._next)
            self._next = next(self._coming, None)
        at = len(self.passed) - 1
        while at >= 0 and self.passed[at].packets >= packet:
            at -= 1
        return self.passed[at].start if at >= 0 else None

    def all(self) -> list[Portion]:
        """Return all portions, to the end of the capture."""
        while self._next is not None:
            self.passed.append(self._next)
            self._next = next(self._coming, None)
        return self.passed
