"""Tables of the captures in a list that grows, batch after batch: the work of `pipeline --watch` and `--incremental`.

A query of Structured Streaming reads the list by the source of `readStream` (`stream_source`), whose tasks write the files of the tables
under names that readers ignore. A batch takes effect with its commit: only then its files get their final names. Wherever the driver is
killed before that, Spark repeats the batch from the state before it; a batch that was committed is not read again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark import StorageLevel
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

from pulsarscope.capture import Inputs
from pulsarscope.engine.options import Options
from pulsarscope.model.limits import ROWS_MAX
from pulsarscope.spark import shuffle_batches
from pulsarscope.spark.checkpoint import Checkpoint, Commit, LandedCapture
from pulsarscope.spark.cluster import parallelism
from pulsarscope.spark.flow_shares import SHARES_MAX
from pulsarscope.spark.partition import Job
from pulsarscope.spark.source import TABLES, table_source
from pulsarscope.spark.source_options import SourceOptions, StreamOptions
from pulsarscope.spark.table_files import final_names, finish_files, sync_files
from pulsarscope.spark.tables import evaluated, of_kind, outcome, spark_schema, unpacked_facts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STOP_POLL_SECONDS = 0.5
"""Time between checks for a request to stop while a batch is decoded."""

STARTS_MAX = 20
"""Maximum number of starts of the query for the listed captures."""

TOO_SLOW = "failed to connect back"
"""Part of the error with which Spark ends a query whose process of Python does not start within ten seconds, as on a busy machine."""

NEW_FACTS = 0.5
"""Share of new facts, of those that wait, with which they are evaluated."""

BATCHES_MAX = 50
"""Number of batches with new facts after which they are evaluated, however few they are: Spark's plan grows with each."""

EVALUATION_NANOSECONDS = 3_600_000_000_000
"""Time of the captures after which facts are evaluated, however few are new."""

FACTS_MAX = 1 << 40
"""More facts than a task has in a batch."""

LOOK = "500 milliseconds"
"""Time between looks of the query at the list."""


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
    """Number of connections that go on."""
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
        """Resume after the last commit. `table_format` is parquet or json, `partitions` None a number of tasks by the cores."""
        self._spark = spark
        self._checkpoint = checkpoint
        self._on_batch = on_batch
        options = msgspec.structs.replace(options, rows_max=ROWS_MAX, together=table_format != "json")
        self._job = Job(Inputs([], None, []), options, None, out, table_format, partition_by)
        self._shares = checkpoint.shares(partitions or min(parallelism(spark), SHARES_MAX))
        self._failure: Exception | None = None
        self._query: Any = None
        self._committed = checkpoint.last_commit()
        self.captures = checkpoint.captures()
        """Entries of the list."""
        if self._committed.batch >= 0:
            finish_files(out, self._committed.names, self._job.kinds, again=True)

    def advance(self, landed: Sequence[LandedCapture], *, stopping: Callable[[], bool] = lambda: False) -> None:
        """Decode new captures, and those in the list that are not decoded yet.

        Raises Stopped when `stopping` returned True while a batch was decoded.
        """
        # A query may take all that is listed at once, but the facts of a batch must not be of both sides of a closing entry.
        self._decode_listed(stopping)
        if landed:
            self._checkpoint.append(landed)
            self.captures += landed
            self._decode_listed(stopping)

    def _decode_listed(self, stopping: Callable[[], bool]) -> None:
        starts = 0
        while self._committed.files < len(self.captures):
            if self._query is None:
                starts += 1
                self._query = self._started()
            try:
                if self._query.awaitTermination(STOP_POLL_SECONDS) or stopping():
                    raise Stopped
            except StreamingQueryException as error:
                cause, self._query, self._failure = self._failure or error, None, None
                if TOO_SLOW not in str(cause) or starts == STARTS_MAX:
                    raise cause from None

    def close(self) -> None:
        """Stop the query."""
        if self._query is not None:
            self._query.stop()

    def _started(self) -> Any:
        location = StreamOptions(self._checkpoint.path)
        options = SourceOptions((), self._job.options.source_by, TABLES, partitions=self._shares, engine=self._job.options, stream=location)
        self._spark.dataSource.register(table_source(options, self._job))
        writer = self._spark.readStream.format(TABLES).load().writeStream.foreachBatch(self._write)
        return writer.option("checkpointLocation", self._checkpoint.query_folder).trigger(processingTime=LOOK).start()

    def _write(self, batch: DataFrame, number: int) -> None:
        if number <= self._committed.batch:
            return  # it was committed, but Spark was stopped before it learned so
        # Spark turns it off in the session of a query, because of states of its own; without it, few facts are spread over many tasks.
        batch.sparkSession.conf.set("spark.sql.adaptive.enabled", "true")
        try:
            self._commit(batch.persist(StorageLevel.DISK_ONLY), number)
        except Exception as error:
            self._failure = error  # Spark would raise an error of its own
            raise

    def _commit(self, decoded: DataFrame, number: int) -> None:
        """Let a batch write its files, and commit it."""
        began = time.monotonic()
        before, out, kinds = self._committed, self._job.out or "", self._job.kinds
        reports, files = outcome(decoded)
        persisted = [decoded]
        progress = next(report.progress for report in reports if report.progress is not None)
        packets = max(report.packets for report in reports)  # each task reads all
        facts, evaluated_to = before.facts, before.evaluated
        if self._job.options.evaluates:
            new = sum(report.facts for report in reports)
            counts = [*(count for _, count in facts), new]
            if new:
                facts = [*facts, (number, new)]
            if facts and (progress.ends or are_due(counts, progress.newest - evaluated_to)):
                evaluated_to = progress.newest
                persisted += self._evaluated(decoded, progress)
                found, found_files = outcome(persisted[-1])
                reports, files = reports + found, files + found_files
                new = sum(report.facts for report in found)
                facts = [(number, new)] if new else []
            if new:
                of_kind(persisted[-1], shuffle_batches.FACT).write.mode("overwrite").parquet(self._checkpoint.facts(number))
        for frame in persisted:
            frame.unpersist()
        done = Commit(number, progress.files, facts, evaluated_to, final_names(files, f"{number:06}-"))
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
        self._committed = done

    def _evaluated(self, decoded: DataFrame, progress: shuffle_batches.StreamProgress) -> Sequence[DataFrame]:
        """Return packed batches of the findings across connections, with the facts that stay."""
        read = decoded.sparkSession.read.schema(spark_schema(shuffle_batches.SCHEMA))
        pending = [unpacked_facts(read.parquet(self._checkpoint.facts(batch))) for batch, _ in self._committed.facts]
        # Facts of one place come in the order of their batches.
        ordered = [
            facts.withColumn("number", facts.number - age * FACTS_MAX)
            for age, facts in zip(range(len(pending), 0, -1), pending, strict=True)
        ]
        job = msgspec.structs.replace(self._job, progress=progress)
        return evaluated(decoded, job, reduce(DataFrame.unionByName, ordered) if ordered else None)


def are_due(counts: Sequence[int], elapsed: int) -> bool:
    """Return True when facts are evaluated: the first count is of those that the latest evaluation left, the others are new.

    So each fact is evaluated a few times, however many batches come while it waits. `elapsed` is the time of the captures since then: below
    zero after one whose clock was ahead.
    """
    left, *new = counts
    return not new or sum(new) >= left * NEW_FACTS or len(new) >= BATCHES_MAX or abs(elapsed) > EVALUATION_NANOSECONDS
