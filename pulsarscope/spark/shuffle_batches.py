"""What a partition makes, packed: rows of one kind as one cell of bytes, so that one pass gives all kinds and costs Spark next to nothing.

Beside the kinds of records there are facts, for the rules that look across connections, a report for each partition, the names of the
files that it wrote, when it wrote its records itself, and the flows that are open when a batch of a stream ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pyarrow as pa

from pulsarscope.engine import packed_facts
from pulsarscope.engine.flows import Fact
from pulsarscope.output.export.arrow import RecordBatches
from pulsarscope.spark.record_batch import to_record_batch

FACT = "fact"
REPORT = "report"
TABLE_FILE = "part"
OPEN = "open"

_CELL: Any = [("kind", pa.string()), ("rows", pa.int64()), ("data", pa.binary())]

SCHEMA = pa.schema(_CELL)
"""One row per cell: the records of one kind in it, and how many."""

BATCH_BYTES = 4 << 20
"""Bytes of cells in one record batch."""

_FACT: Any = [
    ("rule", pa.string()),
    ("key", pa.string()),
    ("source", pa.string()),
    ("file", pa.int64()),
    ("packet", pa.int64()),
    ("sub", pa.int64()),
    ("connection", pa.string()),
    ("told", pa.int64()),
    ("fact", pa.binary()),
]

FACTS = pa.schema(_FACT)
"""One row per fact. Those of one connection that stand at the same place were told in the order of `told`."""

FACT_ORDER = ("rule", "key", "source", "file", "packet", "sub", "connection", "told")


class TaskReport(msgspec.Struct):
    """What happened in one partition."""

    packets: int = 0
    """Packets decoded."""
    unrecognised: int = 0
    """Packets of connections of no known protocol that were counted before."""
    bytes: int = 0
    """Payload in them."""
    flows: int = 0
    largest: int = 0
    """Payload of the largest flow."""
    connections: int = 0
    open: int = 0
    """Flows that the next batch of a stream goes on with."""
    severities: dict[str, int] = {}
    damaged: bool = False
    seconds: float = 0.0

    def add(self, other: TaskReport) -> None:
        """Take the counts of another partition."""
        self.packets += other.packets
        self.unrecognised += other.unrecognised
        self.bytes += other.bytes
        self.flows += other.flows
        self.largest = max(self.largest, other.largest)
        self.connections += other.connections
        self.open += other.open
        self.severities = {
            name: self.severities.get(name, 0) + other.severities.get(name, 0) for name in self.severities.keys() | other.severities.keys()
        }
        self.damaged = self.damaged or other.damaged
        self.seconds += other.seconds


class BatchEncoder:
    """Rows -> cells, Arrow streams of all flat columns."""

    def __init__(self) -> None:
        self._made: dict[str, RecordBatches] = {}

    def encode(self, kind: str, rows: list[Any]) -> bytes:
        """Rows of one kind as a cell."""
        if kind not in self._made:
            self._made[kind] = RecordBatches(kind)
        return stream_bytes(self._made[kind].batch(rows))


def stream_bytes(batch: pa.RecordBatch) -> bytes:
    """A record batch as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def unpack(cells: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What is in cells of one kind, when they are Arrow streams."""
    for batch in cells:
        for data in batch.column("data"):
            yield from pa.ipc.open_stream(data.as_buffer())


def fact_batch(facts: list[tuple[int, str, str, Fact]]) -> pa.RecordBatch:
    """Facts, each as (told, rule, key, fact)."""
    rows = [
        (rule, key, where.source, where.file, where.packet, where.sub, where.connection, told, packed_facts.pack(fact))
        for told, rule, key, fact in facts
        for where in (fact.where,)
    ]
    return to_record_batch(rows, FACTS)


def facts_in(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, str, Fact]]:
    """(rule, key, fact) of each row."""
    for batch in batches:
        for rule, key, fact in zip(*(batch.column(name) for name in ("rule", "key", "fact")), strict=True):
            yield rule.as_py(), key.as_py(), packed_facts.unpack(fact.as_py())[0]


class ShuffleBuffer:
    """ShuffleBuffer that wait to be handed on together."""

    def __init__(self) -> None:
        self._batches: list[tuple[str, int, bytes]] = []
        self._bytes = 0

    def add(self, kind: str, rows: int, data: bytes) -> None:
        """One more cell."""
        self._batches.append((kind, rows, data))
        self._bytes += len(data)

    @property
    def full(self) -> bool:
        """Whether they should be handed on."""
        return self._bytes >= BATCH_BYTES

    def take(self) -> Iterator[pa.RecordBatch]:
        """All cells, if there are any, as one batch; none is left."""
        if self._batches:
            cells, self._batches, self._bytes = self._batches, [], 0
            yield to_record_batch(cells, SCHEMA)
