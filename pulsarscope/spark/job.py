"""The command `pipeline`: captures to tables in a folder, on a cluster or on this machine."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import median
from typing import TYPE_CHECKING

import msgspec

from pulsarscope.capture import Inputs, expand_inputs
from pulsarscope.engine.options import Options
from pulsarscope.model.errors import UsageError
from pulsarscope.spark.lakes import require_format, write_table
from pulsarscope.spark.partition import Job
from pulsarscope.spark.remote_files import list_files, open_path
from pulsarscope.spark.shuffle_batches import TaskReport
from pulsarscope.spark.table_files import SUFFIXES, finish_tables, make_folder
from pulsarscope.spark.tables import CaptureScan, Records, task_count

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMATS = ("parquet", "json", "delta", "iceberg")
"""Formats of tables; the last two where the cluster has them."""


class Summary(msgspec.Struct):
    """What came of a run."""

    inputs: Inputs
    packets: int
    """In the files, of any kind."""
    segments: int
    """Of them those of TCP."""
    bytes: int
    """Of the files, as stored."""
    rows: dict[str, int]
    """By kind of record."""
    reports: list[TaskReport]
    severities: Counter[str]
    damaged: bool
    seconds: float

    @property
    def total(self) -> TaskReport:
        """Of all partitions."""
        total = TaskReport()
        for report in self.reports:
            total.add(report)
        return total

    @property
    def median(self) -> float:
        """Seconds of a task that decoded."""
        return median(self._times)

    @property
    def longest(self) -> float:
        """The same, of the one that took longest: it had a large connection, or a slow machine."""
        return max(self._times)

    @property
    def _times(self) -> list[float]:
        return [report.seconds for report in self.reports if report.packets] or [0.0]


Progress = Callable[[str], None]
"""Told what is being done."""


def run(
    spark: SparkSession,
    inputs: Sequence[str],
    out: str,
    options: Options,
    table_format: str = "parquet",
    partitions: int | None = None,
    split: int | None = None,
    progress: Progress = lambda _: None,
) -> Summary:
    """Decode captures into one table for each kind of record, in folders of `out`, which has none yet (`parts.require_empty`).

    Files that have more bytes than `split` are read in portions of about so many, as far as they can be; None: each is read by one task.

    Raises:
        CaptureError: no input can be read as a capture. UsageError: the options cannot be carried out, or Spark lacks the format.
        OutputError: nothing can be written to `out`.
    """
    began = time.monotonic()
    here = table_format in SUFFIXES
    if not here:
        require_format(spark, table_format, out)
    progress("looking for captures")
    found = expand_inputs(inputs, options.source_by, list_files, open_path)
    if found.sizes is None:
        message = "pipeline reads files, which tasks can read again: not standard input, pipes or devices"
        raise UsageError(message)
    if here:
        make_folder(out)
    progress("scanning the captures")
    scan = CaptureScan(spark, found, options, split)
    seen = scan.seen
    job = Job(found, scan.options, scan.lossy, out if here else None, table_format)
    records = Records(scan.packed_segments(), job, partitions or task_count(spark, found.sizes or 0))
    progress("decoding")
    reports, parts = records.outcome()
    rows = Counter({part.kind: 0 for part in parts})
    for part in parts:
        rows[part.kind] += part.rows
    if here:
        finish_tables(out, parts, job.kinds)
    else:
        for kind in records:
            progress(f"writing {kind}")
            write_table(records[kind], table_format, out, kind)
            rows[kind] = records.count(kind)
    records.unpersist()
    scan.close()
    severities: Counter[str] = Counter()
    for report in reports:
        severities.update(report.severities)
    return Summary(
        found,
        sum(one.packets for one in seen),
        sum(one.segments for one in seen),
        sum(one.size for one in seen),
        {kind: rows[kind] for kind in job.kinds},
        reports,
        severities,
        any(report.damaged for report in reports),
        time.monotonic() - began,
    )
