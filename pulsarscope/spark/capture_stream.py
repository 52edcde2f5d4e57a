"""Decoding of captures that land in a folder into tables, batch after batch, by a query of Structured Streaming. Experimental.

The query reads the lists of the checkpoint. Each of its batches decodes the captures that are new in them, resumes the flows and facts that
the batch before suspended, and suspends its own. A batch takes effect with its commit: only then its files get their final names. Wherever
the driver is killed before that, the batch is repeated from the state after the previous one.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING

import msgspec
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

from pulsarscope.capture import Inputs, Portion
from pulsarscope.engine.flows import with_secrets
from pulsarscope.engine.options import Options
from pulsarscope.model.errors import OutputError
from pulsarscope.spark import packed_segments, scan, shuffle_batches
from pulsarscope.spark.checkpoint import Checkpoint, LandedCapture
from pulsarscope.spark.cluster import parallelism
from pulsarscope.spark.partition import Job, ReadFiles, StreamProgress
from pulsarscope.spark.plan import TASK_BYTES
from pulsarscope.spark.scan import ScanPortions
from pulsarscope.spark.table_files import final_names, finish_files, sync_files
from pulsarscope.spark.tables import Records, map_positions, restore_open, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STOP_POLL_SECONDS = 0.5
"""Time between checks for a request to stop while a batch is decoded."""

QUERIES_MAX = 3
"""Maximum number of queries for the listed captures: the first one may only repeat a batch that was committed before a stop."""

LISTS_MAX_AGE = "36500d"
"""Spark ignores files a week older than the newest one by default; a stream may be stopped for longer."""


class BatchSummary(msgspec.Struct):
    """Counts of a batch."""

    number: int
    files: int
    packets: int
    """Number of packets in the files, of any protocol."""
    bytes: int
    """Stored bytes of the files."""
    rows: dict[str, int]
    """Number of rows by kind."""
    open: int
    """Number of suspended flows."""
    severities: dict[str, int]
    damaged: bool
    changed: list[str]
    """Captures that changed or disappeared before the commit: their rows may be incomplete."""
    seconds: float


class Stopped(Exception):  # noqa: N818 - not an error
    """The stream stopped on request."""


class CaptureStream:
    """Stream of captures at its latest commit."""

    def __init__(
        self,
        spark: SparkSession,
        checkpoint: Checkpoint,
        out: str,
        options: Options,
        table_format: str,
        partitions: int | None,
        on_batch: Callable[[BatchSummary], None],
        partition_by: tuple[str, ...] = (),
    ) -> None:
        """Resume after the last commit. `table_format` is parquet or json, `partitions` None a number of tasks by the captures' size."""
        self._partition_by = partition_by
        self._spark = spark
        self._checkpoint = checkpoint
        self._out = out
        self._format = table_format
        self._partitions = partitions
        self._on_batch = on_batch
        self._kinds = tuple(sorted(options.records))
        self._failure: Exception | None = None
        self._committed = checkpoint.last_commit()
        self.captures = checkpoint.captures()
        """Captures in the list."""
        self._options = options
        if self._committed.batch >= 0:
            finish_files(out, self._committed.names, self._kinds, again=True)
            self._options = self._without_findings(with_secrets(self._inputs(), options, checkpoint.secrets(self._committed)))

    def advance(self, landed: Sequence[LandedCapture], *, stopping: Callable[[], bool] = lambda: False) -> None:
        """Decode new captures, and those in the list that are not decoded yet.

        Raises Stopped when `stopping` returned True while a batch was decoded, OutputError when the checkpoint is incomplete.
        """
        if landed:
            self._checkpoint.append(landed)
            self.captures += landed
        queries = 0
        while self._committed.files < len(self.captures):
            if queries == QUERIES_MAX:
                message = f"Spark's query does not come to the captures listed in {self._checkpoint.path}: that folder is incomplete"
                raise OutputError(message)
            queries += 1
            self._run_query(stopping)

    def end(self) -> None:
        """End all suspended flows: no more captures will come."""
        self._decode_to(len(self.captures), ends=True)

    def _run_query(self, stopping: Callable[[], bool]) -> None:
        lists = self._spark.readStream.schema("position long").option("maxFileAge", LISTS_MAX_AGE).json(self._checkpoint.list_folder)
        query = (
            lists.writeStream.foreachBatch(self._decode_listed)
            .option("checkpointLocation", self._checkpoint.query_folder)
            .trigger(availableNow=True)
            .start()
        )
        try:
            while not query.awaitTermination(STOP_POLL_SECONDS):
                if stopping():
                    query.stop()
                    raise Stopped
        except StreamingQueryException:
            if self._failure is None:
                raise
            raise self._failure from None

    def _decode_listed(self, listed: DataFrame, _: int) -> None:
        end = 1 + max(row.position for row in listed.collect())
        if end <= self._committed.files:
            return  # it was committed, but Spark was stopped before it learned so
        try:
            self._decode_to(end)
        except Exception as error:
            self._failure = error  # Spark would raise an error of its own
            raise

    def _decode_to(self, end: int, *, ends: bool = False) -> None:
        """Decode the list up to a position."""
        began = time.monotonic()
        before, first = self._committed, self._committed.files
        inputs = self._inputs(first, end)
        summaries = self._scan(inputs, first)
        secrets = sorted(secret for summary in summaries for secret in summary.secrets)
        options = with_secrets(inputs, self._options, secrets)
        done = before.after(inputs, summaries)
        progress = StreamProgress(dict(done.newest), ends)
        job = Job(inputs, options, done.lossy, self._out, self._format, self._partition_by, progress)
        frames, facts = [], None
        if before.batch >= 0:
            state = self._spark.read.schema(spark_schema(shuffle_batches.SCHEMA)).parquet(self._checkpoint.open_state(before.batch))
            flows, facts = restore_open(state)
            frames.append(flows)
        if first < end:
            portions = _complete_files(inputs, first)
            task = ReadFiles(inputs, portions, findings=options.key_logs.findings)
            frames.append(map_positions(self._spark, len(portions), inputs.sizes, task, packed_segments.SCHEMA))
        if not frames:
            return  # there never was a capture
        records = Records(reduce(DataFrame.unionByName, frames), job, self._tasks(inputs), facts=facts)
        reports, files = records.outcome()
        records.open_state().write.mode("overwrite").parquet(self._checkpoint.open_state(done.batch))
        records.unpersist()
        if secrets:
            self._checkpoint.add_secrets(done.batch, secrets)
        done = msgspec.structs.replace(done, names=final_names(files, f"{done.batch:06}-"))
        sync_files(self._out, done.names)
        self._checkpoint.commit(done, before)
        finish_files(self._out, done.names, self._kinds)
        self._committed, self._options = done, self._without_findings(options)
        total = shuffle_batches.TaskReport()
        for report in reports:
            total.add(report)
        rows = Counter(dict.fromkeys(self._kinds, 0))
        for file in files:
            rows[file.kind] += file.rows
        self._on_batch(
            BatchSummary(
                done.batch,
                end - first,
                sum(summary.packets for summary in summaries),
                sum(summary.size for summary in summaries),
                dict(rows),
                total.open,
                total.severities,
                total.damaged,
                [capture.path for capture in self.captures[first:end] if not capture.is_unchanged()],
                time.monotonic() - began,
            )
        )

    def _scan(self, inputs: Inputs, first: int) -> list[scan.PortionSummary]:
        if not (portions := _complete_files(inputs, first)):
            return []
        task = ScanPortions(inputs, self._options, portions, finds_unrecognised=False)
        rows = map_positions(self._spark, len(portions), inputs.sizes, task, scan.SCHEMA)
        return [msgspec.json.decode(row.data, type=scan.PortionSummary) for row in rows.select("data").collect()]

    def _tasks(self, inputs: Inputs) -> int:
        """Return the number of tasks that decode; for a small batch it is the number of cores."""
        return self._partitions or max(parallelism(self._spark), (inputs.sizes or 0) // TASK_BYTES)

    def _inputs(self, first: int = 0, end: int | None = None) -> Inputs:
        """Return the captures up to `end`, without the paths of those before `first`."""
        captures = self.captures[:end]
        sources = [capture.source for capture in captures]
        paths = ["" if capture.position < first else capture.path for capture in captures]
        size = sum(capture.size for capture in captures[first:])
        named = any(source is not None for source in sources)
        return Inputs(paths, size, [], sources if named else [], by_interface=self._options.by_interface)

    @staticmethod
    def _without_findings(options: Options) -> Options:
        """Return options without the findings about key logs, which are reported once."""
        return msgspec.structs.replace(options, key_logs=options.key_logs._replace(findings=()))


def _complete_files(inputs: Inputs, first: int) -> list[Portion]:
    """Return the files from a position on, each as one portion."""
    return [Portion(file) for file in range(first, len(inputs.paths))]
