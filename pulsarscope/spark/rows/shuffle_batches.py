"""Packed batches: rows of one kind as an Arrow stream in one cell, so that one pass yields all kinds at little cost to Spark.

In addition to the kinds of records, there are facts for the rules across connections, a report of each task, and the files that a task
wrote if it writes its records itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pyarrow as pa

from pulsarscope.engine import packed_facts
from pulsarscope.engine.flows import Fact, RuleFact
from pulsarscope.output.export.arrow import RecordBatches
from pulsarscope.spark.files.table_files import TableFile
from pulsarscope.spark.rows.record_batch import to_record_batch

FACT = "fact"
REPORT = "report"
TABLE_FILE = "table-file"

_BATCH: Any = [("kind", pa.string()), ("rows", pa.int64()), ("data", pa.binary())]

SCHEMA = pa.schema(_BATCH)
"""A row per packed batch: the kind, number and data of its rows."""

BATCH_BYTES = 4 << 20
"""Data bytes of one record batch."""

ONE_THREAD = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
"""Columns are compressed one after the other: they are small, and passing them to threads would take longer."""

_FACT: Any = [
    ("rule", pa.string()),
    ("key", pa.string()),
    ("source", pa.string()),
    ("file", pa.int64()),
    ("packet", pa.int64()),
    ("sub", pa.int64()),
    ("connection", pa.string()),
    ("number", pa.int64()),
    ("fact", pa.binary()),
    ("outer", pa.string()),
]

FACTS = pa.schema(_FACT)
"""A row per fact. `number` orders the facts of one connection at the same place; `outer` is the outer leg of the connection if that is an
inner leg."""

FACT_ORDER = ("rule", "key", "source", "file", "packet", "sub", "connection", "number")


class StreamProgress(msgspec.Struct, frozen=True):
    """The progress of a stream after a batch."""

    files: int
    """Number of decoded captures in its list."""
    newest: int
    """Time up to which the captures were read, in nanoseconds since the epoch."""
    ends: bool
    """True if no connection and no key stays open."""


class TaskReport(msgspec.Struct):
    """The counts of one task."""

    packets: int = 0
    """Number of decoded packets."""
    unrecognised: int = 0
    """Number of packets of unrecognised flows, from the scan."""
    bytes: int = 0
    """Payload bytes of the decoded packets."""
    flows: int = 0
    largest: int = 0
    """Payload bytes of the largest flow."""
    connections: int = 0
    open: int = 0
    """Number of connections that continue in the next batch of a stream."""
    progress: StreamProgress | None = None
    """None outside of streams."""
    facts: int = 0
    """Number of facts that it passes on."""
    severities: dict[str, int] = {}
    damaged: bool = False
    seconds: float = 0.0

    def add(self, other: TaskReport) -> None:
        """Add the counts of another task."""
        self.packets += other.packets
        self.unrecognised += other.unrecognised
        self.bytes += other.bytes
        self.flows += other.flows
        self.largest = max(self.largest, other.largest)
        self.connections += other.connections
        self.open += other.open
        self.facts += other.facts
        self.severities = {
            name: self.severities.get(name, 0) + other.severities.get(name, 0) for name in self.severities.keys() | other.severities.keys()
        }
        self.damaged = self.damaged or other.damaged
        self.seconds += other.seconds


def outcome(rows: Iterable[tuple[str, Any]]) -> tuple[list[TaskReport], list[TableFile]]:
    """Return the reports of tasks and the files that they wrote, from kind and data of packed batches."""
    reports, files = [], []
    for kind, data in rows:
        if kind == REPORT:
            reports.append(msgspec.json.decode(data, type=TaskReport))
        elif kind == TABLE_FILE:
            files.append(msgspec.json.decode(data, type=TableFile))
    return reports, files


class BatchEncoder:
    """An encoder of rows as Arrow streams with all flat columns."""

    def __init__(self) -> None:
        self._encoders: dict[str, RecordBatches] = {}

    def encode(self, kind: str, rows: list[Any]) -> bytes:
        """Return the data of a packed batch of rows of one kind."""
        if kind not in self._encoders:
            self._encoders[kind] = RecordBatches(kind)
        return stream_bytes(self._encoders[kind].batch(rows))


def stream_bytes(batch: pa.RecordBatch) -> bytes:
    """Return a record batch as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=ONE_THREAD) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the record batches in packed batches of one kind."""
    for batch in batches:
        for data in batch.column("data"):
            yield from pa.ipc.open_stream(data.as_buffer())


def fact_batch(facts: list[tuple[int, str, str, Fact]]) -> pa.RecordBatch:
    """Return the rows of facts, each with its number, rule and key."""
    rows = [
        (rule, key, where.source, where.file, where.packet, where.sub, where.connection, number, packed_facts.pack(fact), None)
        for number, rule, key, fact in facts
        for where in (fact.where,)
    ]
    return to_record_batch(rows, FACTS)


def facts_in(batches: Iterable[pa.RecordBatch]) -> Iterator[RuleFact]:
    """Yield the rule, key and fact of each row."""
    for batch in batches:
        for rule, key, packed, outer in zip(*(batch.column(name) for name in ("rule", "key", "fact", "outer")), strict=True):
            fact = packed_facts.unpack(packed.as_py())[0]
            yield rule.as_py(), key.as_py(), fact if not outer.is_valid else packed_facts.of_leg(fact, outer.as_py())


class ShuffleBuffer:
    """Packed batches to be returned together."""

    def __init__(self) -> None:
        self._batches: list[tuple[str, int, bytes]] = []
        self._bytes = 0

    def add(self, kind: str, rows: int, data: bytes) -> None:
        """Add a packed batch."""
        self._batches.append((kind, rows, data))
        self._bytes += len(data)

    @property
    def full(self) -> bool:
        """True when the packed batches should be taken."""
        return self._bytes >= BATCH_BYTES

    def take(self) -> Iterator[pa.RecordBatch]:
        """Remove all packed batches; yield them as one record batch if there are any."""
        if self._batches:
            batches, self._batches, self._bytes = self._batches, [], 0
            yield to_record_batch(batches, SCHEMA)
