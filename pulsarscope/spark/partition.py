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
from pulsarscope.spark import packed_segments as runs
from pulsarscope.spark import packets
from pulsarscope.spark.record_batch import batch_of
from pulsarscope.spark.remote_files import opened
from pulsarscope.spark.shuffle_batches import FACT, OPEN, PART, REPORT, Cells, Encoder, Report, fact_batch, facts_in, stream_bytes
from pulsarscope.spark.table_files import Parts

Batches = Iterator[pa.RecordBatch]

COLLECT_EVERY_OBJECTS = 100_000
"""As on the command line: rows are trees, which reference counts free."""

WAITING_BYTES = 4 << 20
"""Payload of packets whose rows wait as objects before they are packed."""


class Moment(msgspec.Struct, frozen=True):
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
    moment: Moment | None = None
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
                yield from self.of_portion(self.portions[position])

    def of_portion(self, portion: Portion) -> Batches:
        """All of one portion."""
        file = portion.file
        path = self.inputs.paths[file]
        reader = BlockReader(path, file, by_interface=self.inputs.by_interface, opener=opened, portion=portion)
        blocks: Iterator[Block] = reader
        if (file, portion.start) == (self.portions[0].file, 0):  # what is not about the packets of a file is said once
            blocks = chain([Block(file, {}, set(), [*self.findings, *self.inputs.findings], 0, 1, 0, 0, 0)], blocks)
        source = self.inputs.source(file)
        if self.packets:
            return packets.batches(blocks, source, file, path, reader.take_secrets)
        return runs.runs_of_file(blocks, source, file, self.strangers.get(file, frozenset()))


class Decode(msgspec.Struct, frozen=True):
    """Runs sorted by `runs.ORDER`, or packets, which are sorted by columns of the same names -> cells."""

    job: Job
    packets: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Batches:
        """All runs of a flow must be among them."""
        gc.set_threshold(COLLECT_EVERY_OBJECTS, 20, 20)
        return _records(self.job, lambda collected: _decoded(self.job, packets.runs(batches) if self.packets else batches, collected))


class Judge(msgspec.Struct, frozen=True):
    """Facts sorted by `cells.FACT_ORDER` -> cells of findings."""

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
    report: Report = msgspec.field(default_factory=Report)

    def emit_fact(self, rule: str, key: str, fact: Fact) -> None:
        """Take a fact."""
        self.told += 1
        self.facts.append((self.told, rule, key, fact))

    def keep(self, flow: runs.Flow, left: OpenFlow) -> None:
        """Take what is open of a flow."""
        self.open.append(runs.open_row(flow.source, flow.key, left))
        self.waiting_bytes += len(left.state)
        self.report.open += 1


def _records(job: Job, work: Callable[[_Collected], Iterator[list[Any]]], told: int = 0) -> Batches:
    """The cells of the rows that the work gives, or of the files that they are in."""
    began = time.monotonic()
    collected = _Collected(told)
    cells = Cells()
    encoder = Encoder()
    parts = None if job.out is None else Parts(job.out, job.table_format, job.kinds)
    waiting: dict[str, list[Any]] = {}
    count = 0

    def pack() -> None:
        for kind, some in waiting.items():
            if parts is not None:
                parts.put(kind, some)
            else:
                cells.add(kind, count_rows(some), encoder.encode(kind, some))
        if collected.facts:
            cells.add(FACT, len(collected.facts), stream_bytes(fact_batch(collected.facts)))
        if collected.open:
            cells.add(OPEN, len(collected.open), stream_bytes(batch_of(collected.open, runs.SCHEMA)))
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
                if cells.full:
                    yield from cells.take()
        pack()
        for part in [] if parts is None else parts.finish():
            cells.add(PART, part.rows, msgspec.json.encode(part))
    except BaseException:  # also when nobody takes the rest
        if parts is not None:
            parts.abandon()
        raise
    collected.report.seconds = time.monotonic() - began
    cells.add(REPORT, 1, msgspec.json.encode(collected.report))
    yield from cells.take()


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

    for part in runs.Sorted(batches, resumes=job.moment is not None):
        if isinstance(part, runs.Flow):
            before = report.bytes
            yield from _flow(job, run, part._replace(blocks=noted(part.blocks)), collected)
            report.flows += 1
            report.largest = max(report.largest, report.bytes - before)
        elif isinstance(part, Finding):
            yield run.report([part])
        else:
            report.strange += sum(row.packets or 0 for row in part if isinstance(row, ConnectionRow))
            yield run.select(part)
    report.connections = run.totals.connections
    report.severities = dict(run.totals.severities)
    report.damaged = run.totals.damaged


def _flow(job: Job, run: FlowRun, flow: runs.Flow, collected: _Collected) -> Iterator[list[Any]]:
    """The rows of a flow to its end; or, as long as more may come of it in a stream, those of this batch."""
    moment, left = job.moment, flow.before
    if left is None or not flow.silent:
        if left is not None:
            run.resume(left)
        yield from run.flow(flow.blocks)
        if moment is None or moment.ends:
            yield from run.end()
            return
        left = run.suspend()
    if left is None:
        return
    if moment is None or moment.ends or left.is_over(moment.newest.get(flow.source, 0), job.inputs):
        run.resume(left)
        yield from run.end()
    else:
        collected.keep(flow, left)
        yield []


def _evaluated(job: Job, batches: Iterable[pa.RecordBatch], collected: _Collected) -> Iterator[list[Any]]:
    severities = collected.report.severities
    newest = None if job.moment is None or job.moment.ends else max(job.moment.newest.values(), default=0)
    for row in evaluate(facts_in(batches), job.options, newest, collected.emit_fact):
        severities[row.severity or ""] = severities.get(row.severity or "", 0) + 1
        if row.kind in job.options.records:
            yield [row]
