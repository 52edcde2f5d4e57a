"""The command `pipeline`: captures to tables, on a Spark cluster or on this machine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import msgspec

from pulsarscope.cli.options import Cluster, Watching
from pulsarscope.cli.run_command import (
    EXIT_DAMAGED,
    EXIT_DONE,
    EXIT_INCOMPLETE,
    Request,
    complain,
    failing_code,
    kinds_named,
    reading_options,
)
from pulsarscope.model.errors import UsageError
from pulsarscope.model.findings import SEVERITIES
from pulsarscope.output.render.cell_text import escape
from pulsarscope.output.render.style import is_terminal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pulsarscope.engine.local import Options
    from pulsarscope.spark.job import Summary

REFRESH_SECONDS = 0.5

SPLIT_BYTES = 1 << 30
"""Larger plain files are read in portions: rings of smaller ones keep the tasks of a cluster busy as they are."""

SPLIT_LEAST_BYTES = 64 << 10
"""Of a portion: the driver keeps some hundred bytes of each."""


def run_pipeline(request: Request, cluster: Cluster, watching: Watching) -> int:
    """Carry out the command; the exit code.

    Raises:
        UsageError: it cannot be carried out as asked. CaptureError: no input is a capture. OutputError: it cannot be written.
    """
    if cluster.check:
        return check_cluster(cluster)
    if watching == Watching():
        return write_tables(request, cluster)
    from pulsarscope.cli.watch import watch  # noqa: PLC0415 - asked for by few

    return watch(request, cluster, watching)


def check_cluster(cluster: Cluster) -> int:
    """Say what is there and what is missing; the exit code."""
    from pulsarscope.spark.requirements import checks  # noqa: PLC0415 - Spark is an extra

    ready = True
    for found, text in checks(cluster.master, settings_of(cluster)):
        ready = ready and found
        sys.stdout.write(f"{'ok     ' if found else 'missing'}  {escape(text)}\n")
        sys.stdout.flush()
    return EXIT_DONE if ready else UsageError.exit_code


def write_tables(request: Request, cluster: Cluster) -> int:
    """Carry out a request in a session of its own; the exit code. Raises as `run_pipeline`."""
    from pulsarscope.spark.session import refuse_lacking, session  # noqa: PLC0415 - as above

    options = options_of(request)
    _split_bytes(cluster.split)
    out = folder_of(request)
    if not request.files:
        message = "no capture given: name files, folders or patterns"
        raise UsageError(message)
    refuse_lacking()
    from pulsarscope.spark.table_files import SUFFIXES, refuse_full  # noqa: PLC0415 - as above

    if "://" not in out or (request.format or "parquet") in SUFFIXES:  # lakes may lie where only Spark finds them
        refuse_full(out)
    try:
        with session(cluster.master, settings_of(cluster)) as spark, _progress(spark, wanted=not request.quiet) as tell:
            return carry_out(spark, request, options, cluster, tell)
    except KeyboardInterrupt:
        complain("interrupted; the output is not complete")
        return EXIT_INCOMPLETE


def folder_of(request: Request) -> str:
    """Where the tables are to be. Raises UsageError: that was not said."""
    if not request.out:
        message = "pipeline writes a folder of tables: name it with -o"
        raise UsageError(message)
    return request.out


def options_of(request: Request) -> Options:
    """What a request asks of the decoder.

    Raises:
        UsageError: it cannot be carried out as asked.
    """
    from pulsarscope.engine.flows import check_options  # noqa: PLC0415 - as above

    kinds = kinds_named(request.records)
    options = msgspec.structs.replace(
        reading_options(request.reading),
        records=frozenset(kinds),
        show_secrets=request.show_secrets,
        payload=request.payload if "message" in kinds else None,
        rules="finding" in kinds,
    )
    check_options(options)
    return options


def carry_out(spark: SparkSession, request: Request, options: Options, cluster: Cluster, tell: Callable[[str], None]) -> int:
    """Carry out a request; the exit code. `tell` takes what is being done."""
    from pulsarscope.spark.job import run  # noqa: PLC0415 - as above

    out = folder_of(request)
    table_format, split = request.format or "parquet", _split_bytes(cluster.split)
    summary = run(spark, request.files, out, options, table_format, cluster.partitions, split, tell)
    if not request.quiet:
        sys.stdout.write("".join(f"{line}\n" for line in _lines(summary, out)))
    return EXIT_DAMAGED if summary.damaged else failing_code(request.fail_on, summary.severities)


def _split_bytes(word: str | None) -> int | None:
    """Bytes of a portion; None: files are not split.

    Raises:
        UsageError: that is none.
    """
    from pulsarscope.cli.live import scaled  # noqa: PLC0415 - as above
    from pulsarscope.filter.literals import SIZES  # noqa: PLC0415 - as above

    if word is None:
        return SPLIT_BYTES
    if word == "off":
        return None
    try:
        size = int(scaled(word, SIZES, "--split"))
    except UsageError as error:
        message = f"{error}; or off"
        raise UsageError(message) from None
    if size < SPLIT_LEAST_BYTES:
        message = f"--split {word}: a portion has {SPLIT_LEAST_BYTES >> 10}KiB at least; or give off"
        raise UsageError(message)
    return size


def settings_of(cluster: Cluster) -> Mapping[str, str]:
    """What Spark is to be told. Raises UsageError: that is no setting."""
    settings = {}
    for text in cluster.settings or ():
        name, equals, value = text.partition("=")
        if not (name and equals):
            message = f"--conf {text}: give a setting of Spark and its value, as in --conf spark.executor.memory=4g"
            raise UsageError(message)
        settings[name] = value
    return settings


@contextmanager
def _progress(spark: Any, *, wanted: bool) -> Iterator[Any]:
    """A line on standard error, when someone is there to see it: what is done, and how many tasks of it are."""
    if not wanted or not is_terminal(sys.stderr):
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415 - only for a terminal
    from rich.status import Status  # noqa: PLC0415 - as above

    said = ["starting"]
    ended = Event()

    def watch() -> None:
        tracker = spark.sparkContext.statusTracker()
        while not ended.wait(REFRESH_SECONDS):
            stages = [info for stage in tracker.getActiveStageIds() if (info := tracker.getStageInfo(stage)) is not None]
            done, tasks = sum(info.numCompletedTasks for info in stages), sum(info.numTasks for info in stages)
            status.update(f"{said[0]}{f': {done:,} of {tasks:,} tasks' if tasks else ''}")

    with Status(said[0], console=Console(stderr=True)) as status:
        watcher = Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield lambda text: said.__setitem__(0, text)
        finally:
            ended.set()
            watcher.join()


def _lines(summary: Summary, out: str) -> Iterator[str]:
    """What came of it, in words."""
    files = len(summary.inputs.paths)
    yield (
        f"{files:,} capture{'s' if files != 1 else ''}, {summary.bytes / 1e6:,.1f} MB, {summary.packets:,} packets "
        f"in {summary.seconds:,.1f} s ({summary.bytes / 1e6 / max(summary.seconds, 0.001):,.1f} MB/s)"
    )
    width = max(map(len, summary.rows))
    for kind, rows in summary.rows.items():
        worth = ", ".join(
            f"{number:,} {severity}{'s' if number != 1 else ''}" for severity in SEVERITIES if (number := summary.severities.get(severity))
        )
        yield f"  {kind:{width}}  {rows:>12,}{f'  {worth}' if kind == 'finding' and worth else ''}"
    total = summary.total
    largest, slowest = total.largest / max(total.bytes, 1), summary.longest / max(summary.median, 0.001)
    yield (
        f"{total.connections:,} connection{'s' if total.connections != 1 else ''}; "
        f"the largest pair of endpoints has {largest:.0%} of the bytes, the longest task took {slowest:.1f} times the median"
    )
    yield f"written to {escape(out)}"
