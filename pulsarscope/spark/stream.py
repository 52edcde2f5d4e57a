"""Captures that land in a folder to tables, batch after batch, by a query of Structured Streaming. Experimental.

The query reads the lists of the checkpoint; each of its batches decodes the captures that are new in them, goes on with the flows and facts
that the batch before has left open, and leaves its own. A batch is done when its commit is written. It is done again from what is open
behind the one before when that did not come to pass, and its files only get their names when it did, wherever the driver was killed.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
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
from pulsarscope.spark.checkpoint import Checkpoint
from pulsarscope.spark.landing_folder import LandingFolder
from pulsarscope.spark.partition import Job, ReadFiles, StreamProgress
from pulsarscope.spark.scan import ScanPortions
from pulsarscope.spark.table_files import final_names, finish_files, sync_files
from pulsarscope.spark.tables import TASK_BYTES, Records, map_positions, restore_open, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STOP_POLL_SECONDS = 0.5
"""How often someone who wants to stop is heard while a batch is decoded."""

QUERIES_MAX = 3
"""Queries for what is listed: the first one may only do again what was done when it was stopped."""

LISTS_MAX_AGE = "36500d"
"""Spark passes over files that are a week older than the newest one; the lists of a stream that was stopped for longer are not too old."""


class BatchSummary(msgspec.Struct):
    """What came of a batch."""

    number: int
    files: int
    packets: int
    """In the files, of any kind."""
    bytes: int
    """Of the files, as stored."""
    rows: dict[str, int]
    """By kind of record."""
    open: int
    """Flows that go on."""
    severities: dict[str, int]
    damaged: bool
    changed: list[str]
    """Captures that were written to or removed before the batch was done: perhaps they were not read as they were."""
    seconds: float


class Stopped(Exception):  # noqa: N818 - nothing is wrong
    """Someone asked for it."""


class CaptureStream:
    """One stream, where it has come to."""

    def __init__(
        self,
        spark: SparkSession,
        checkpoint: Checkpoint,
        out: str,
        options: Options,
        table_format: str,
        partitions: int | None,
        tell: Callable[[BatchSummary], None],
    ) -> None:
        """`emit_fact` takes what came of each batch."""
        self._spark = spark
        self._checkpoint = checkpoint
        self._out = out
        self._format = table_format
        self._partitions = partitions
        self._emit = tell
        self._kinds = tuple(sorted(options.records))
        self._failure: Exception | None = None
        self._done = checkpoint.last_commit()
        self.captures = checkpoint.captures()
        """The list."""
        self._options = options
        if self._done.batch >= 0:
            finish_files(out, self._done.names, self._kinds, again=True)
            self._options = self._without_findings(with_secrets(self._inputs(), options, checkpoint.secrets(self._done)))

    def advance(self, landing: LandingFolder, *, everything: bool = False, stopping: Callable[[], bool] = lambda: False) -> None:
        """Decode what has landed and is finished, or all that is there.

        Raises:
            Stopped: `stopping` has said so, and a batch was abandoned.
        """
        landed = landing.poll(time.monotonic(), everything=everything)
        if landed:
            self._checkpoint.append(landed)
            self.captures += landed
        queries = 0
        while self._done.files < len(self.captures):
            if queries == QUERIES_MAX:
                message = f"Spark's query does not come to the captures listed in {self._checkpoint.path}: that folder is not whole"
                raise OutputError(message)
            queries += 1
            self._run_query(stopping)

    def end(self) -> None:
        """Nothing will come: what is open ends."""
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
        """One batch of the query."""
        end = 1 + max(row.position for row in listed.collect())
        if end <= self._done.files:
            return  # it was done, and Spark was not told any more
        try:
            self._decode_to(end)
        except Exception as error:
            self._failure = error  # Spark would tell of an error of its own
            raise

    def _decode_to(self, end: int, *, ends: bool = False) -> None:
        """Decode the list up to here."""
        began = time.monotonic()
        before, first = self._done, self._done.files
        inputs = self._inputs(first, end)
        seen = self._seen(inputs, first)
        secrets = sorted(secret for file in seen for secret in file.secrets)
        options = with_secrets(inputs, self._options, secrets)
        done = before.after(inputs, seen)
        job = Job(inputs, options, done.lossy, self._out, self._format, StreamProgress(dict(done.newest), ends))
        found, facts = [], None
        if before.batch >= 0:
            left = self._spark.read.schema(spark_schema(shuffle_batches.SCHEMA)).parquet(self._checkpoint.open_state(before.batch))
            flows, facts = restore_open(left)
            found.append(flows)
        if first < end:
            portions = _whole(inputs, first)
            task = ReadFiles(inputs, portions, findings=options.key_logs.findings)
            found.append(map_positions(self._spark, len(portions), inputs.sizes, task, packed_segments.SCHEMA))
        if not found:
            return  # nothing was ever taken
        records = Records(reduce(DataFrame.unionByName, found), job, self._tasks(inputs), facts=facts)
        reports, parts = records.outcome()
        records.open_state().write.mode("overwrite").parquet(self._checkpoint.open_state(done.batch))
        records.unpersist()
        if secrets:
            self._checkpoint.add_secrets(done.batch, secrets)
        done = msgspec.structs.replace(done, names=final_names(parts, f"{done.batch:06}-"))
        sync_files(self._out, done.names)
        self._checkpoint.commit(done, before)
        finish_files(self._out, done.names, self._kinds)
        self._done, self._options = done, self._without_findings(options)
        total = shuffle_batches.TaskReport()
        for report in reports:
            total.add(report)
        rows = Counter(dict.fromkeys(self._kinds, 0))
        for part in parts:
            rows[part.kind] += part.rows
        self._emit(
            BatchSummary(
                done.batch,
                end - first,
                sum(file.packets for file in seen),
                sum(file.size for file in seen),
                dict(rows),
                total.open,
                total.severities,
                total.damaged,
                [landed.path for landed in self.captures[first:end] if not landed.is_unchanged()],
                time.monotonic() - began,
            )
        )

    def _seen(self, inputs: Inputs, first: int) -> list[scan.PortionSummary]:
        portions = _whole(inputs, first)
        if not portions:
            return []
        task = ScanPortions(inputs, self._options, portions, strangers=False)
        looked = map_positions(self._spark, len(portions), inputs.sizes, task, scan.SCHEMA)
        return [msgspec.json.decode(row.data, type=scan.PortionSummary) for row in looked.select("data").collect()]

    def _tasks(self, inputs: Inputs) -> int:
        """How many decode: of a small batch no more than there are cores, for each has to be told of it."""
        cores: int = self._spark.sparkContext.defaultParallelism
        return self._partitions or max(cores, (inputs.sizes or 0) // TASK_BYTES)

    def _inputs(self, first: int = 0, end: int | None = None) -> Inputs:
        """The list up to `end`; the tasks need no paths of what is before `first`."""
        captures = self.captures[:end]
        sources = [landed.source for landed in captures]
        paths = ["" if landed.position < first else landed.path for landed in captures]
        size = sum(landed.size for landed in captures[first:])
        named = any(source is not None for source in sources)
        return Inputs(paths, size, [], sources if named else [], by_interface=self._options.by_interface)

    @staticmethod
    def _without_findings(options: Options) -> Options:
        """The options, when what is wrong with their key logs was said."""
        return msgspec.structs.replace(options, key_logs=options.key_logs._replace(findings=()))


def _whole(inputs: Inputs, first: int) -> list[Portion]:
    """The files from this position on, each as a whole."""
    return [Portion(file) for file in range(first, len(inputs.paths))]
