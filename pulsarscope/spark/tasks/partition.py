"""The work of the tasks, without Spark: files to packed segments, sorted packed segments to records, sorted facts to findings."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import chain
from typing import Any

import msgspec
import pyarrow as pa

from pulsarscope.capture import Block, BlockReader, Inputs, Portion
from pulsarscope.engine.flows import Fact, FlowRun, RuleFact, evaluate, fact_rules, join_legs
from pulsarscope.engine.options import Options
from pulsarscope.engine.packed_facts import place_of
from pulsarscope.model.findings import Finding
from pulsarscope.model.limits import ROWS_MAX
from pulsarscope.model.records import ConnectionRow, FindingRow, JourneyRow
from pulsarscope.model.row_lists import count_rows
from pulsarscope.spark.checkpoints.checkpoint import Checkpoint
from pulsarscope.spark.checkpoints.fact_slices import FactWriter, evaluated, facts_of, read_slice, written
from pulsarscope.spark.checkpoints.waiting_facts import ANCHORS, WaitingFacts, left_by, of_task
from pulsarscope.spark.files.remote_files import open_path
from pulsarscope.spark.files.table_files import TableWriter
from pulsarscope.spark.rows import packed_segments, packets
from pulsarscope.spark.rows.shuffle_batches import (
    FACT,
    REPORT,
    TABLE_FILE,
    BatchEncoder,
    ShuffleBuffer,
    StreamProgress,
    TaskReport,
    fact_batch,
    facts_in,
    stream_bytes,
)
from pulsarscope.spark.sessions.task_process import prepare_process
from pulsarscope.spark.tasks.share_decoder import ShareBatch, ShareDecoder, States

Batches = Iterator[pa.RecordBatch]

WAITING_BYTES = 4 << 20
"""Payload bytes of packets whose rows are held as objects until they are packed."""


class Job(msgspec.Struct, frozen=True):
    """Values that all tasks of a run share."""

    inputs: Inputs
    options: Options
    lossy: int | None = None
    """First file with a finding that packets are missing."""
    out: str | None = None
    """Folder to which tasks write their records; None to return them in packed batches."""
    table_format: str = "parquet"
    partition_by: tuple[str, ...] = ()
    """Partition columns of the tables."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of records."""
        return tuple(sorted(self.options.records))


class ReadFiles(msgspec.Struct, frozen=True):
    """A task from positions in the list of portions to packed segments, or to packets."""

    inputs: Inputs
    portions: Sequence[Portion]
    packets: bool = False
    skipped: Mapping[int, Collection[bytes]] = {}
    """Lower flow keys that packed segments leave out, by file."""
    findings: tuple[Finding, ...] = ()
    """Findings about key logs; `inputs` has the findings about captures."""

    def __call__(self, positions: Iterable[Any]) -> Batches:
        """Yield the contents of portions; the only column of `positions` has their positions."""
        prepare_process()
        for batch in positions:
            for position in batch.column(0).to_pylist():
                yield from self.read_portion(self.portions[position])

    def read_portion(self, portion: Portion) -> Batches:
        """Yield the contents of one portion."""
        file = portion.file
        path = self.inputs.paths[file]
        reader = BlockReader(path, file, by_interface=self.inputs.by_interface, opener=open_path, portion=portion)
        blocks: Iterator[Block] = reader
        if (file, portion.start) == (self.portions[0].file, 0):  # findings without a packet are reported once
            blocks = chain([Block(file, {}, set(), [*self.findings, *self.inputs.findings], 0, 1, 0, 0, 0)], blocks)
        source = self.inputs.source(file)
        if self.packets:
            return packets.packet_batches(blocks, source, file, path, reader.take_secrets)
        return packed_segments.pack_file(blocks, source, file, self.skipped.get(file, frozenset()))


class DecodeFlows(msgspec.Struct, frozen=True):
    """A task from packed segments or packets, sorted by `packed_segments.ORDER`, to packed batches."""

    job: Job
    packets: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Batches:
        """Yield packed batches; `batches` has all rows of each of its flows."""
        prepare_process()
        return _records(
            self.job, lambda collected: _decoded(self.job, packets.pack_packets(batches) if self.packets else batches, collected)
        )


class EvaluateFacts(msgspec.Struct, frozen=True):
    """A task from facts, sorted by `shuffle_batches.FACT_ORDER`, to packed batches of findings."""

    job: Job

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Batches:
        """Yield packed batches; `batches` has all facts of each of its keys."""
        prepare_process()
        return _records(self.job, lambda collected: _findings(self.job, evaluate(facts_in(batches), self.job.options), collected))


class JoinLegs(msgspec.Struct, frozen=True):
    """A task from the anchors shared by several connections, in the order of their places, to packed batches of findings and facts."""

    job: Job

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Batches:
        """Yield packed batches; the facts name the connections that are inner legs."""

        def rows(collected: _Collected) -> Iterator[list[Any]]:
            return _findings(self.job, join_legs(facts_in(batches), self.job.options, collected.emit_fact), collected)

        return _records(self.job, rows)


class Evaluation(msgspec.Struct):
    """The evaluation of slices of the waiting facts of a stream, by tasks that each have some of the slices."""

    job: Job
    checkpoint: str
    facts: WaitingFacts
    progress: StreamProgress
    slices: Sequence[int]
    tasks: int
    joined: list[RuleFact] = []
    """Facts about the legs of paths."""

    def join_legs(self) -> list[pa.RecordBatch]:
        """Find the legs of paths before the tasks run; return packed batches of the findings about them."""
        return [*_records(self.job, self._join)]

    def _join(self, collected: _Collected) -> Iterator[list[Any]]:
        anchors = [*facts_of(self._slice(ANCHORS, {}))]
        anchors.sort(key=lambda fact: place_of(fact[2]))
        with self._left(self.tasks) as writer:

            def emit(rule: str, key: str, fact: Fact) -> None:
                if key:  # the fact names the outer leg of a connection
                    self.joined.append((rule, key, fact))
                else:
                    writer.add_again(rule, key, fact)

            yield from _findings(self.job, join_legs(anchors, self.job.options, emit, goes_on=not self.progress.ends), collected)

    def rows(self) -> Iterator[list[Any]]:
        """Yield the findings and journeys of all slices, and the findings about legs of paths, as the only task."""
        collected = _Collected()
        yield from self._join(collected)
        yield from self._evaluated(0, collected)

    def __call__(self, tasks: Iterable[Any]) -> Batches:
        """Yield packed batches of findings and journeys; the only column of `tasks` has the numbers of tasks."""
        prepare_process()
        for batch in tasks:
            for task in batch.column(0).to_pylist():
                yield from _records(self.job, partial(self._evaluated, task))

    def _evaluated(self, task: int, collected: _Collected) -> Iterator[list[Any]]:
        newest = None if self.progress.ends else self.progress.newest
        places: dict[str, bytes] = {}
        slices = ((number, self._slice(number, places)) for number in self.slices[task :: self.tasks])
        with self._left(task) as writer:
            yield from _findings(self.job, evaluated(slices, writer, self.job.options, newest, self.joined), collected)

    def _slice(self, number: int, places: dict[str, bytes]) -> pa.Table:
        return read_slice(Checkpoint(self.checkpoint), self.facts.of_slice(number), number, places)

    def _left(self, task: int) -> AbstractContextManager[FactWriter]:
        return written(Checkpoint(self.checkpoint), left_by(self.progress.files, task), fact_rules(self.job.options))


class _Collected(msgspec.Struct):
    """The facts and counts of a task."""

    number: int = 0
    """Number of the latest fact."""
    facts: list[tuple[int, str, str, Any]] = []
    waiting_bytes: int = 0
    report: TaskReport = msgspec.field(default_factory=TaskReport)

    def emit_fact(self, rule: str, key: str, fact: Fact) -> None:
        """Take a fact of a rule."""
        self.number += 1
        self.facts.append((self.number, rule, key, fact))


def _records(job: Job, decode: Callable[[_Collected], Iterator[list[Any]]]) -> Batches:
    """Yield packed batches of rows, or of the names of the files to which they are written, and of facts and counts.

    `decode` yields lists of rows, and fills its argument.
    """
    began = time.monotonic()
    collected = _Collected()
    buffer = ShuffleBuffer()
    encoder = BatchEncoder()
    writer = None if job.out is None else TableWriter(job.out, job.table_format, job.kinds, job.partition_by)
    waiting: dict[str, list[Any]] = {}
    count = 0

    def pack() -> None:
        for kind, rows_of_kind in waiting.items():
            if writer is not None:
                writer.put(kind, rows_of_kind)
            else:
                buffer.add(kind, count_rows(rows_of_kind), encoder.encode(kind, rows_of_kind))
        if collected.facts:
            buffer.add(FACT, len(collected.facts), stream_bytes(fact_batch(collected.facts)))
        waiting.clear()
        collected.facts.clear()
        collected.waiting_bytes = 0

    try:
        for rows in decode(collected):
            for row in rows:
                waiting.setdefault(row.kind, []).append(row)
            count += count_rows(rows)
            if count >= ROWS_MAX or collected.waiting_bytes >= WAITING_BYTES or job.options.payload is not None:
                pack()
                count = 0
                if buffer.full:
                    yield from buffer.take()
        pack()
        for file in [] if writer is None else writer.finish():
            buffer.add(TABLE_FILE, file.rows, msgspec.json.encode(file))
    except BaseException:  # also when the caller stops early
        if writer is not None:
            writer.abandon()
        raise
    collected.report.seconds = time.monotonic() - began
    buffer.add(REPORT, 1, msgspec.json.encode(collected.report))
    yield from buffer.take()


def _decoded(job: Job, batches: Iterable[pa.RecordBatch], collected: _Collected) -> Iterator[list[Any]]:
    report = collected.report
    together = job.table_format != "json"  # all other formats convert rows to Arrow columns
    run = FlowRun(job.inputs, msgspec.structs.replace(job.options, rows_max=ROWS_MAX, together=together), collected.emit_fact, job.lossy)

    def counted(blocks: Iterator[Block]) -> Iterator[Block]:
        for block in blocks:
            size = sum([len(segment[6]) for segments in block.flows.values() for segment in segments])
            report.packets += block.packets
            report.bytes += size
            collected.waiting_bytes += size
            yield block

    for item in packed_segments.FlowReader(batches):
        if isinstance(item, Finding):
            yield run.report([item])
        elif isinstance(item, list):
            report.unrecognised += sum(row.packets for row in item if isinstance(row, ConnectionRow))
            yield run.select(item)
        else:
            before = report.bytes
            yield from run.flow(counted(item))
            report.flows += 1
            report.largest = max(report.largest, report.bytes - before)
    report.connections = run.totals.connections
    report.severities = dict(run.totals.severities)
    report.damaged = run.totals.damaged


def decode_shares(job: Job, batch: ShareBatch, states: States, keep: Callable[[States], None], location: str) -> Batches:
    """Yield packed batches for some shares of the connections of a stream with its checkpoint; `keep` takes the states after the batch."""

    def rows(collected: _Collected) -> Iterator[list[Any]]:
        report, after = collected.report, states
        name = of_task(batch.end, batch.task)
        with written(Checkpoint(location), name, fact_rules(job.options)) as facts:
            for divided in batch.divided():
                decoder = ShareDecoder(job.options, divided, after, facts.add)
                before = 0
                for part in decoder.rows():
                    collected.waiting_bytes += decoder.bytes - before
                    before = decoder.bytes
                    yield part
                totals, after = decoder.totals, decoder.snapshot()
                counts = TaskReport(totals.packets, bytes=decoder.bytes, connections=totals.connections)
                counts.severities, counts.damaged = dict(totals.severities), totals.damaged
                report.add(counts)
                report.open, report.progress = decoder.open, decoder.progress
            report.facts = facts.count
        keep(after)

    return _records(job, rows)


def _findings(job: Job, findings: Iterable[FindingRow | JourneyRow], collected: _Collected) -> Iterator[list[Any]]:
    """Yield findings, which are counted, and journeys one by one."""
    severities = collected.report.severities
    for row in findings:
        if type(row) is FindingRow:
            severities[row.severity] = severities.get(row.severity, 0) + 1
        if row.kind in job.options.records:
            yield [row]
