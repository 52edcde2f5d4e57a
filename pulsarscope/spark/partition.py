"""What runs in the tasks: files to runs, sorted runs to records, sorted facts to findings. Nothing here asks Spark for anything."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec
import pyarrow as pa

from pulsarscope.capture import Block, BlockReader, Inputs, Portion
from pulsarscope.engine.flows import Fact, FlowRun, OpenFlow, evaluate
from pulsarscope.engine.options import Options
from pulsarscope.model.findings import Finding
from pulsarscope.model.limits import ROWS_MAX
from pulsarscope.model.records import ConnectionRow, count_rows
from pulsarscope.spark import packed_segments, packets
from pulsarscope.spark.record_batch import to_record_batch
from pulsarscope.spark.remote_files import open_path
from pulsarscope.spark.shuffle_batches import (
    FACT,
    OPEN,
    REPORT,
    TABLE_FILE,
    BatchEncoder,
    ShuffleBuffer,
    TaskReport,
    fact_batch,
    facts_in,
    stream_bytes,
)
from pulsarscope.spark.table_files import TableWriter

Batches = Iterator[pa.RecordBatch]

COLLECT_EVERY_OBJECTS = 100_000
"""As on the command line: rows are trees, which reference counts free."""

WAITING_BYTES = 4 << 20
"""Payload of packets whose rows wait as objects before they are packed."""


class StreamProgress(msgspec.Struct, frozen=True):
    """How far a stream has come with a batch."""

    newest: Mapping[str | None, int]
    """How far each source has come, nanoseconds since the epoch."""
    ends: bool = False
    """Nothing will come: no flow and no key stays open."""


class Job(msgspec.Struct, frozen=True):
    """What all tasks of a run share."""

    inputs: Inputs
    options: Options
    lossy: int | None = None
    """The first file that says that it lacks packets."""
    out: str | None = None
    """The folder where tasks write their records; None: cells bring them."""
    table_format: str = "parquet"
    progress: StreamProgress | None = None
    """Of the stream of which this is a batch; None: it is all there is."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """Of records."""
        return tuple(sorted(self.options.records))


class ReadFiles(msgspec.Struct, frozen=True):
    """Positions in the list of portions, the rows of the only column -> runs, or packets."""

    inputs: Inputs
    portions: Sequence[Portion]
    packets: bool = False
    strangers: Mapping[int, frozenset[bytes]] = {}
    """Lower flow keys of what is left out, by file; only of runs."""
    findings: tuple[Finding, ...] = ()
    """About key logs; those of the inputs come with them."""

    def __call__(self, positions: Iterable[Any]) -> Batches:
        """All of the portions."""
        gc.set_threshold(COLLECT_EVERY_OBJECTS, 20, 20)
        for batch in positions:
            for position in batch.column(0).to_pylist():
                yield from self.read_portion(self.portions[position])

    def read_portion(self, portion: Portion) -> Batches:
        """All of one portion."""
        file = portion.file
        path = self.inputs.paths[file]
        reader = BlockReader(path, file, by_interface=self.inputs.by_interface, opener=open_path, portion=portion)
        blocks: Iterator[Block] = reader
        if (file, portion.start) == (self.portions[0].file, 0):  # what is not about the packets of a file is said once
            blocks = chain([Block(file, {}, set(), [*self.findings, *self.inputs.findings], 0, 1, 0, 0, 0)], blocks)
        source = self.inputs.source(file)
        if self.packets:
            return packets.packet_batches(blocks, source, file, path, reader.take_secrets)
        return packed_segments.pack_file(blocks, source, file, self.strangers.get(file, frozenset()))


class DecodeFlows(msgspec.Struct, frozen=True):
    """Runs sorted by `packed_segments.ORDER`, or packets, which are sorted by columns of the same names -> cells."""

    job: Job
    packets: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Batches:
        """All runs of a flow must be among them."""
        gc.set_threshold(COLLECT_EVERY_OBJECTS, 20, 20)
        return _records(
            self.job, lambda collected: _decoded(self.job, packets.pack_packets(batches) if self.packets else batches, collected)
        )


class EvaluateFacts(msgspec.Struct, frozen=True):
    """Facts sorted by `shuffle_batches.FACT_ORDER` -> cells of findings."""

    job: Job

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Batches:
        """All facts of a key must be among them."""
        gc.set_threshold(COLLECT_EVERY_OBJECTS, 20, 20)
        # Facts that wait for the next batch come before those told in it.
        return _records(self.job, lambda collected: _evaluated(self.job, batches, collected), -(1 << 62))


class _Collected(msgspec.Struct):
    """What a task collects beside rows."""

    told: int = 0
    facts: list[tuple[int, str, str, Any]] = []
    open: list[tuple[Any, ...]] = []
    waiting_bytes: int = 0
    report: TaskReport = msgspec.field(default_factory=TaskReport)

    def emit_fact(self, rule: str, key: str, fact: Fact) -> None:
        """Take a fact."""
        self.told += 1
        self.facts.append((self.told, rule, key, fact))

    def keep(self, flow: packed_segments.PackedFlow, left: OpenFlow) -> None:
        """Take what is open of a flow."""
        self.open.append(packed_segments.suspended_row(flow.source, flow.key, left))
        self.waiting_bytes += len(left.state)
        self.report.open += 1


def _records(job: Job, work: Callable[[_Collected], Iterator[list[Any]]], told: int = 0) -> Batches:
    """The cells of the rows that the work gives, or of the files that they are in."""
    began = time.monotonic()
    collected = _Collected(told)
    buffer = ShuffleBuffer()
    encoder = BatchEncoder()
    parts = None if job.out is None else TableWriter(job.out, job.table_format, job.kinds)
    waiting: dict[str, list[Any]] = {}
    count = 0

    def pack() -> None:
        for kind, some in waiting.items():
            if parts is not None:
                parts.put(kind, some)
            else:
                buffer.add(kind, count_rows(some), encoder.encode(kind, some))
        if collected.facts:
            buffer.add(FACT, len(collected.facts), stream_bytes(fact_batch(collected.facts)))
        if collected.open:
            buffer.add(OPEN, len(collected.open), stream_bytes(to_record_batch(collected.open, packed_segments.SCHEMA)))
        waiting.clear()
        collected.open.clear()
        collected.facts.clear()
        collected.waiting_bytes = 0

    try:
        for rows in work(collected):
            for row in rows:
                waiting.setdefault(row.kind, []).append(row)
            count += count_rows(rows)
            if count >= ROWS_MAX or collected.waiting_bytes >= WAITING_BYTES or job.options.payload is not None:
                pack()
                count = 0
                if buffer.full:
                    yield from buffer.take()
        pack()
        for part in [] if parts is None else parts.finish():
            buffer.add(TABLE_FILE, part.rows, msgspec.json.encode(part))
    except BaseException:  # also when nobody takes the rest
        if parts is not None:
            parts.abandon()
        raise
    collected.report.seconds = time.monotonic() - began
    buffer.add(REPORT, 1, msgspec.json.encode(collected.report))
    yield from buffer.take()


def _decoded(job: Job, batches: Iterable[pa.RecordBatch], collected: _Collected) -> Iterator[list[Any]]:
    report = collected.report
    together = job.table_format != "json"  # of all others it is Arrow's columns that rows become
    run = FlowRun(job.inputs, msgspec.structs.replace(job.options, rows_max=ROWS_MAX, together=together), collected.emit_fact, job.lossy)

    def noted(blocks: Iterator[Block]) -> Iterator[Block]:
        for block in blocks:
            size = sum([len(segment[6]) for segments in block.flows.values() for segment in segments])
            report.packets += block.packets
            report.bytes += size
            collected.waiting_bytes += size
            yield block

    for part in packed_segments.FlowReader(batches, resumes=job.progress is not None):
        if isinstance(part, packed_segments.PackedFlow):
            before = report.bytes
            yield from _flow(job, run, part._replace(blocks=noted(part.blocks)), collected)
            report.flows += 1
            report.largest = max(report.largest, report.bytes - before)
        elif isinstance(part, Finding):
            yield run.report([part])
        else:
            report.unrecognised += sum(row.packets or 0 for row in part if isinstance(row, ConnectionRow))
            yield run.select(part)
    report.connections = run.totals.connections
    report.severities = dict(run.totals.severities)
    report.damaged = run.totals.damaged


def _flow(job: Job, run: FlowRun, flow: packed_segments.PackedFlow, collected: _Collected) -> Iterator[list[Any]]:
    """The rows of a flow to its end; or, as long as more may come of it in a stream, those of this batch."""
    progress, left = job.progress, flow.before
    if left is None or not flow.silent:
        if left is not None:
            run.resume(left)
        yield from run.flow(flow.blocks)
        if progress is None or progress.ends:
            yield from run.end()
            return
        left = run.suspend()
    if left is None:
        return
    if progress is None or progress.ends or left.is_over(progress.newest.get(flow.source, 0), job.inputs):
        run.resume(left)
        yield from run.end()
    else:
        collected.keep(flow, left)
        yield []


def _evaluated(job: Job, batches: Iterable[pa.RecordBatch], collected: _Collected) -> Iterator[list[Any]]:
    severities = collected.report.severities
    newest = None if job.progress is None or job.progress.ends else max(job.progress.newest.values(), default=0)
    for row in evaluate(facts_in(batches), job.options, newest, collected.emit_fact):
        severities[row.severity or ""] = severities.get(row.severity or "", 0) + 1
        if row.kind in job.options.records:
            yield [row]
