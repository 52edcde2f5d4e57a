"""Decoding captures into tables in a folder, on a cluster or on this machine: the work of the command `pipeline`."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from statistics import median
from typing import TYPE_CHECKING

import msgspec

from pulsarscope.capture import Inputs, expand_inputs
from pulsarscope.engine.options import Options
from pulsarscope.model.errors import UsageError
from pulsarscope.spark.files.partition_columns import check_sources
from pulsarscope.spark.files.remote_files import list_files, open_path
from pulsarscope.spark.files.table_files import SUFFIXES, finish_tables, written_alone
from pulsarscope.spark.jobs.decoding import CaptureScan, Records, task_count
from pulsarscope.spark.jobs.lakes import require_format, write_table
from pulsarscope.spark.rows.shuffle_batches import TaskReport
from pulsarscope.spark.sessions.cluster import described
from pulsarscope.spark.tasks.partition import Job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Summary(msgspec.Struct):
    """Counts of a run."""

    inputs: Inputs
    packets: int
    """Number of packets of any protocol in the files."""
    segments: int
    """Number of TCP packets."""
    bytes: int
    """Stored bytes of the files."""
    rows: dict[str, int]
    """Number of rows by kind."""
    reports: list[TaskReport]
    severities: Counter[str]
    damaged: bool
    seconds: float

    @property
    def total(self) -> TaskReport:
        """The sum of the reports of all tasks."""
        total = TaskReport()
        for report in self.reports:
            total.add(report)
        return total

    @property
    def median(self) -> float:
        """Median seconds of a decoding task."""
        return median(self._times)

    @property
    def longest(self) -> float:
        """Most seconds of a decoding task; high with a large connection or a slow machine."""
        return max(self._times)

    @property
    def _times(self) -> list[float]:
        return [report.seconds for report in self.reports if report.packets] or [0.0]


def run(
    spark: SparkSession,
    inputs: Sequence[str],
    out: str,
    options: Options,
    table_format: str = "parquet",
    partitions: int | None = None,
    split: int | None = None,
    partition_by: tuple[str, ...] = (),
    show_step: Callable[[str], None] = lambda _: None,
) -> Summary:
    """Decode captures into one table for each kind of record.

    `out` is the folder of the tables, or its URI; it must be empty (`table_files.require_empty`). `partitions` is the number of decoding
    tasks; by default, it depends on the size of the captures. Files of more than `split` bytes are read in portions of that size, if
    possible. `partition_by` has the partition columns of tables in Parquet or JSON.

    Raises CaptureError when no input can be read as a capture, UsageError when the options cannot be combined or Spark lacks the format,
    OutputError when nothing can be written to `out`.
    """
    began = time.monotonic()
    tasks_write = table_format in SUFFIXES
    if not tasks_write:
        require_format(spark, table_format, out)
    show_step("looking for captures")
    captures = expand_inputs(inputs, options.source_by, list_files, open_path)
    check_sources(captures.sources, partition_by)
    if captures.sizes is None:
        raise UsageError("pipeline reads each file more than once: it cannot read standard input, pipes or devices")
    with written_alone(out, anew=True) if tasks_write else nullcontext(), described(spark) as describe:

        def begin(phase: str) -> None:
            show_step(phase)
            describe(phase)

        begin("scanning the captures")
        scan = CaptureScan(spark, captures, options, split)
        job = Job(captures, scan.options, scan.lossy, out if tasks_write else None, table_format, partition_by)
        records = Records(scan.packed_segments(), job, partitions or task_count(spark, captures.sizes))
        begin("decoding")
        reports, files = records.outcome()
        rows = Counter({file.kind: 0 for file in files})
        for file in files:
            rows[file.kind] += file.rows
        if tasks_write:
            finish_tables(out, files, job.kinds)
        else:
            for kind in records:
                begin(f"writing {kind}")
                write_table(records[kind], table_format, out, kind)
                rows[kind] = records.count(kind)
        records.unpersist()
        scan.close()
    severities: Counter[str] = Counter()
    for report in reports:
        severities.update(report.severities)
    return Summary(
        captures,
        sum(summary.packets for summary in scan.portions),
        sum(summary.segments for summary in scan.portions),
        sum(summary.size for summary in scan.portions),
        {kind: rows[kind] for kind in job.kinds},
        reports,
        severities,
        any(report.damaged for report in reports),
        time.monotonic() - began,
    )
