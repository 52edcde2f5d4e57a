"""Tables of the captures in a growing list, batch after batch: the work of `pipeline --watch` and `--incremental`.

A query of Structured Streaming reads the list through the source of `readStream` (`stream_source`), whose tasks write the files of the
tables under names that readers ignore. A batch takes effect with its commit: only then do its files get their final names. If the driver is
killed before that, Spark repeats the batch from the state before it; a committed batch is not read again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from threading import Event
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.errors import StreamingQueryException

from pulsarscope.capture import Inputs
from pulsarscope.engine.options import Options
from pulsarscope.model.limits import ROWS_MAX
from pulsarscope.spark.checkpoints.checkpoint import Checkpoint, Commit, LandedCapture
from pulsarscope.spark.checkpoints.waiting_facts import WaitingFacts
from pulsarscope.spark.data_source.source import TABLES, table_source
from pulsarscope.spark.data_source.source_options import SourceOptions, StreamOptions
from pulsarscope.spark.files.table_files import TableFile, final_names, finish_files, sync_files
from pulsarscope.spark.jobs.decoding import outcome, run_tasks
from pulsarscope.spark.rows import shuffle_batches
from pulsarscope.spark.sessions.cluster import parallelism
from pulsarscope.spark.sessions.spark_session import is_spark_error
from pulsarscope.spark.tasks.flow_shares import SHARES_MAX
from pulsarscope.spark.tasks.partition import Evaluation, Job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STOP_POLL_SECONDS = 0.5
"""Time between checks for a request to stop while a batch is decoded."""

CHECK_SECONDS = 0.001
"""Wait in a check whether the query has ended: the shortest that Spark accepts."""

STARTS_MAX = 20
"""Maximum number of starts of the query for a batch."""

TOO_SLOW = "failed to connect back"
"""Part of the error with which Spark ends a query whose Python process does not start within ten seconds, as on a busy machine."""

LOOK = "200 milliseconds"
"""Interval at which the query checks the list."""


class BatchSummary(msgspec.Struct):
    """Counts of a batch."""

    number: int
    files: int
    packets: int
    """Number of packets of any protocol in the files."""
    bytes: int
    """Stored bytes of the files."""
    rows: dict[str, int]
    """Number of rows by kind."""
    open: int
    """Number of connections that continue."""
    severities: dict[str, int]
    damaged: bool
    changed: list[str]
    """Captures that changed or disappeared before the commit: their rows may be incomplete."""
    seconds: float


class Stopped(Exception):  # noqa: N818 - not an error
    """The stream stopped on request."""


@contextmanager
def stopped_by(stopping: Event) -> Iterator[None]:
    """Turn exceptions of Spark after a signal into Stopped: a signal to the process group also ends Java."""
    try:
        yield
    except Exception as error:
        if stopping.is_set() and is_spark_error(error):
            raise Stopped from error
        raise


class CaptureStream:
    """A stream of captures at its latest commit."""

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
        """Resume after the last commit. `table_format`: parquet or json; `partitions`: number of tasks (None: by the number of cores)."""
        self._spark = spark
        self._checkpoint = checkpoint
        self._on_batch = on_batch
        options = msgspec.structs.replace(options, rows_max=ROWS_MAX, together=table_format != "json")
        self._job = Job(Inputs([], None, []), options, None, out, table_format, partition_by)
        self._tasks = checkpoint.shares(partitions or min(parallelism(spark), SHARES_MAX))
        self._failure: Exception | None = None
        self._query: Any = None
        self._starts = 0
        """Number of starts of the query since the last commit."""
        self._has_committed = Event()
        self._committed = checkpoint.last_commit()
        self.captures = checkpoint.captures()
        """List entries."""
        if self._committed.batch >= 0:
            finish_files(out, self._committed.names, self._job.kinds, again=True)

    def advance(self, landed: Sequence[LandedCapture], *, stopping: Callable[[], bool] = lambda: False) -> None:
        """Decode new captures, and captures in the list that are not decoded yet.

        Raises Stopped when `stopping` returned True while a batch was decoded.
        """
        # A query may take everything in the list at once, but a batch must not have facts from both sides of a closing entry.
        self._decode_listed(stopping)
        if landed:
            self.decode(landed, stopping=stopping)

    def decode(self, landed: Sequence[LandedCapture], seconds: float = inf, *, stopping: Callable[[], bool] = lambda: False) -> None:
        """Append captures to the list, and decode it for `seconds`, or until nothing is left.

        The rest is decoded in the background and in later calls: the query runs, or its error is raised, whatever `seconds` is. Raises
        Stopped when `stopping` returned True.
        """
        if landed:
            self.captures += landed  # first, as the query sees what the checkpoint lists
            self._checkpoint.append(landed)
        self._decode_listed(stopping, seconds)

    def _decode_listed(self, stopping: Callable[[], bool], seconds: float = inf) -> None:
        end = time.monotonic() + seconds
        while self._committed.files < len(self.captures):
            if self._query is None:
                self._starts += 1
                self._query = self._started()
            try:
                if self._query.awaitTermination(CHECK_SECONDS) or stopping():
                    raise Stopped
            except StreamingQueryException as error:
                cause, self._query, self._failure = self._failure or error, None, None
                if TOO_SLOW not in str(cause) or self._starts == STARTS_MAX:
                    raise cause from None
                continue
            if (left := end - time.monotonic()) <= 0:
                return
            self._has_committed.wait(min(STOP_POLL_SECONDS, left))
            self._has_committed.clear()

    def close(self) -> None:
        """Stop the query."""
        if self._query is not None:
            self._query.stop()

    def _started(self) -> Any:
        location = StreamOptions(self._checkpoint.path)
        options = SourceOptions((), self._job.options.source_by, TABLES, partitions=self._tasks, engine=self._job.options, stream=location)
        self._spark.dataSource.register(table_source(options, self._job))
        writer = self._spark.readStream.format(TABLES).load().writeStream.foreachBatch(self._write)
        return writer.option("checkpointLocation", self._checkpoint.query_folder).trigger(processingTime=LOOK).start()

    def _write(self, batch: DataFrame, number: int) -> None:
        if number <= self._committed.batch:
            return  # it was committed, but Spark was stopped before it learned that
        try:
            self._commit(batch, number)
        except Exception as error:
            self._failure = error  # Spark would raise an error of its own
            raise

    def _commit(self, decoded: DataFrame, number: int) -> None:
        """Complete the files of a batch, and commit it."""
        began = time.monotonic()
        before, out, kinds = self._committed, self._job.out or "", self._job.kinds
        reports, files = outcome(decoded)
        progress = next(report.progress for report in reports if report.progress is not None)
        packets = max(report.packets for report in reports)  # each task reads all
        facts = None
        if self._job.options.evaluates:
            has_facts = any(report.facts for report in reports)
            facts = (before.facts or WaitingFacts(self._tasks)).with_batch(progress.files, progress.newest, has_facts=has_facts)
            if due := facts.due(None if progress.ends else progress.newest):
                found, found_files, facts = self._evaluate(decoded.sparkSession, facts, due, progress)
                reports, files = reports + found, files + found_files
        done = Commit(number, progress.files, facts, final_names(files, f"{number:06}-"))
        sync_files(out, done.names)
        self._checkpoint.commit(done)
        finish_files(out, done.names, kinds)
        captures = [capture for capture in self.captures[before.files : done.files] if not capture.closes]
        total = shuffle_batches.TaskReport()
        for report in reports:
            total.add(report)
        rows = Counter(dict.fromkeys(kinds, 0))
        for file in files:
            rows[file.kind] += file.rows
        self._on_batch(
            BatchSummary(
                number,
                len(captures),
                packets,
                sum(capture.size for capture in captures),
                dict(rows),
                total.open,
                total.severities,
                total.damaged,
                [capture.path for capture in captures if not capture.is_unchanged()],
                time.monotonic() - began,
            )
        )
        self._committed, self._starts = done, 0
        self._has_committed.set()

    def _evaluate(
        self, spark: SparkSession, facts: WaitingFacts, due: Sequence[int], progress: shuffle_batches.StreamProgress
    ) -> tuple[list[shuffle_batches.TaskReport], list[TableFile], WaitingFacts | None]:
        """Evaluate slices of the waiting facts; return the reports and files of the evaluation, and the facts that still wait."""
        tasks = min(len(due), self._tasks)
        evaluation = Evaluation(self._job, self._checkpoint.path, facts, progress, due, tasks)
        of_legs = (batch.select(["kind", "data"]).to_pylist() for batch in evaluation.join_legs())
        reports, files = shuffle_batches.outcome((row["kind"], row["data"]) for rows in of_legs for row in rows)
        found, found_files = run_tasks(spark, tasks, evaluation)
        left = None if progress.ends else facts.evaluated(due, progress.files, tasks, progress.newest)
        return reports + found, files + found_files, left
