"""The command `pipeline`: captures to tables, on a Spark cluster or on this machine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pulsarscope.cli.arguments.pipeline_request import (
    PipelineRequest,
    SparkOptions,
    WatchOptions,
    output_folder,
    partition_by,
    spark_settings,
    table_options,
)
from pulsarscope.cli.arguments.quantities import quantity
from pulsarscope.cli.command_output import interrupted
from pulsarscope.cli.exit_codes import EXIT_DAMAGED, EXIT_DONE, findings_exit_code
from pulsarscope.cli.signals import Interrupts
from pulsarscope.model.errors import UsageError
from pulsarscope.model.findings import SEVERITIES
from pulsarscope.model.text import escape, plural
from pulsarscope.model.units import SIZES
from pulsarscope.output.render.style import is_terminal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pulsarscope.engine.options import Options
    from pulsarscope.spark.jobs.job import Summary

SPLIT_BYTES = 1 << 30
"""Default size of portions. Smaller files, such as ring files, keep the tasks of a cluster busy without being split."""

SPLIT_LEAST_BYTES = 64 << 10
"""Smallest size of portions: the driver keeps a few hundred bytes for each."""


def pipeline(request: PipelineRequest) -> int:
    """Decode large sets of captures into tables with Spark.

    On a cluster or on this machine; the rows are those of decode.
    """
    if request.spark.check:
        return check_requirements(request.spark)
    if request.spark.explain:
        return explain(request)
    if request.compact is not None:
        return compact_tables(request, request.compact)
    if request.watching == WatchOptions():
        return write_tables(request)
    from pulsarscope.cli.watch import watch  # rarely used

    return watch(request)


def check_requirements(spark_options: SparkOptions) -> int:
    """Write a line for each requirement, met or not, and return the exit code."""
    from pulsarscope.spark.sessions.requirements import checks

    ready = True
    for is_met, text in checks(spark_options.master, spark_settings(spark_options)):
        ready = ready and is_met
        sys.stdout.write(f"{'ok     ' if is_met else 'missing'}  {escape(text)}\n")
        sys.stdout.flush()
    return EXIT_DONE if ready else UsageError.exit_code


def explain(request: PipelineRequest) -> int:
    """Write the plan and its estimated cost, without Spark, and return the exit code. Raises UsageError or CaptureError."""
    from pulsarscope.output.export.arrow import require_pyarrow

    require_pyarrow()
    from pulsarscope.spark.jobs.plan import local_cores, make_plan, plan_lines, planned_tasks

    options, split = table_options(request), _split_bytes(request.spark.split)
    if not request.files:
        raise UsageError("no capture given: name files, folders or patterns")
    plan = make_plan(request.files, options, split)
    cores = local_cores(request.spark.master)
    for line in plan_lines(plan, request.spark.partitions or planned_tasks(plan, cores), cores):
        sys.stdout.write(f"{line}\n")
    return EXIT_DONE


def write_tables(request: PipelineRequest) -> int:
    """Write the tables in a session of Spark, and return the exit code. Raises UsageError, CaptureError or OutputError."""
    from pulsarscope.spark.sessions.spark_session import require_distributions

    options = table_options(request)
    _split_bytes(request.spark.split)
    partition_by(request)
    out = output_folder(request)
    if not request.files:
        raise UsageError("no capture given: name files, folders or patterns")
    require_distributions(request.spark.master)
    from pulsarscope.spark.files.table_files import SUFFIXES, require_empty

    if "://" not in out or request.format in SUFFIXES:  # only Spark can read other lakes
        require_empty(out)
    try:
        with _session(request) as (spark, show):
            return run_job(spark, request, options, show)
    except KeyboardInterrupt:
        return interrupted()


def compact_tables(request: PipelineRequest, out: str) -> int:
    """Compact tables in a session of Spark, and return the exit code. Raises UsageError or OutputError."""
    from pulsarscope.spark.sessions.spark_session import require_distributions

    if request.files or request.out or request.watching != WatchOptions():
        raise UsageError("--compact DIR takes only the folder of tables, no captures and no other folder")
    require_distributions(request.spark.master)
    from pulsarscope.spark.jobs.compaction import compact, tables_in

    tables_in(out)
    try:
        with _session(request) as (spark, show):
            changed = compact(spark, out, show_step=show)
    except KeyboardInterrupt:
        return interrupted()
    for table in () if request.quiet else changed:
        sizes = f"{table.bytes_before / 1e6:,.1f} MB are {plural(table.files, 'file')}, {table.bytes / 1e6:,.1f} MB"
        sys.stdout.write(f"{table.name}: {plural(table.files_before, 'file')}, {sizes}\n")
    if not (changed or request.quiet):
        sys.stdout.write(f"nothing to compact in {escape(out)}\n")
    return EXIT_DONE


def run_job(spark: SparkSession, request: PipelineRequest, options: Options, show: Callable[[str], None]) -> int:
    """Write the tables and a summary, and return the exit code. `show` takes the name of each step."""
    from pulsarscope.spark.jobs.job import run

    out = output_folder(request)
    split = _split_bytes(request.spark.split)
    summary = run(spark, request.files, out, options, request.format, request.spark.partitions, split, partition_by(request), show)
    if not request.quiet:
        sys.stdout.write("".join(f"{line}\n" for line in _summary_lines(summary, out)))
    return EXIT_DAMAGED if summary.damaged else findings_exit_code(request.fail_on, summary.severities)


def _split_bytes(size_text: str | None) -> int | None:
    """Return the size of portions (None: files are not split). Raises UsageError when the value is invalid or too small."""
    if size_text is None:
        return SPLIT_BYTES
    if size_text == "off":
        return None
    try:
        size = int(quantity(size_text, SIZES, "--split"))
    except UsageError as error:
        raise UsageError(f"{error}; or off") from None
    if size < SPLIT_LEAST_BYTES:
        raise UsageError(f"--split {size_text}: at least {SPLIT_LEAST_BYTES >> 10}KiB; or off")
    return size


@contextmanager
def _session(request: PipelineRequest) -> Iterator[tuple[SparkSession, Callable[[str], None]]]:
    """Yield a session of Spark and the function that shows a step on the terminal. A signal raises KeyboardInterrupt."""
    from pulsarscope.spark.sessions.spark_session import session

    with (
        Interrupts(),
        session(request.spark.master, spark_settings(request.spark)) as spark,
        _progress(spark, enabled=not request.quiet) as show,
    ):
        yield spark, show


@contextmanager
def _progress(spark: Any, *, enabled: bool) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows the step in progress and its finished tasks on standard error, if that is a terminal."""
    if not enabled or not is_terminal(sys.stderr):
        yield lambda _: None
        return
    from rich.console import Console  # only for a terminal
    from rich.status import Status

    from pulsarscope.spark.sessions.cluster import watched_tasks

    step = "starting"
    with Status(step, console=Console(stderr=True)) as status:

        def show(text: str) -> None:
            nonlocal step
            step = text

        def show_tasks(done: int, tasks: int) -> None:
            status.update(f"{step}{f': {done:,} of {tasks:,} tasks' if tasks else ''}")

        with watched_tasks(spark, show_tasks):
            yield show


def _summary_lines(summary: Summary, out: str) -> Iterator[str]:
    yield (
        f"{plural(len(summary.inputs.paths), 'capture')}, {summary.bytes / 1e6:,.1f} MB, {summary.packets:,} packets "
        f"in {summary.seconds:,.1f} s ({summary.bytes / 1e6 / max(summary.seconds, 0.001):,.1f} MB/s)"
    )
    width = max(map(len, summary.rows))
    for kind, rows in summary.rows.items():
        severities = ", ".join(plural(count, severity) for severity in SEVERITIES if (count := summary.severities.get(severity)))
        yield f"  {kind:{width}}  {rows:>12,}{f'  {severities}' if kind == 'finding' and severities else ''}"
    total = summary.total
    largest, slowest = total.largest / max(total.bytes, 1), summary.longest / max(summary.median, 0.001)
    yield (
        f"{plural(total.connections, 'connection')}; "
        f"the largest pair of endpoints has {largest:.0%} of the bytes, the longest task took {slowest:.1f} times the median"
    )
    yield f"written to {escape(out)}"
