"""`pipeline --watch` decodes captures that arrive in a folder into tables, batch by batch, until a signal; `--incremental`: once."""

from __future__ import annotations

import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import msgspec

from pulsarscope.cli.arguments.pipeline_request import PipelineRequest, output_folder, partition_by, spark_settings, table_options
from pulsarscope.cli.exit_codes import EXIT_DAMAGED, EXIT_DONE, EXIT_INCOMPLETE, findings_exit_code
from pulsarscope.cli.signals import Interrupts, handled
from pulsarscope.cli.standard_error import warn
from pulsarscope.model.errors import UsageError
from pulsarscope.model.text import plural, printable

if TYPE_CHECKING:
    from pulsarscope.spark.data_source.landing_folder import LandingFolder, NamedCaptures
    from pulsarscope.spark.jobs.capture_stream import BatchSummary, CaptureStream


def watch(request: PipelineRequest) -> int:
    """Decode captures that arrive in the folder until a signal, or only those that are new now, and return the exit code.

    Raises the errors of `write_tables`.
    """
    from pulsarscope.spark.sessions.spark_session import require_distributions, session

    watching = request.watching
    folder, checkpoint_folder = _places(request)
    options, out = table_options(request), _absolute(output_folder(request))
    partition_by(request)
    require_distributions(request.spark.master)
    from pulsarscope.spark.checkpoints.checkpoint import Checkpoint
    from pulsarscope.spark.data_source.landing_folder import LandingFolder, NamedCaptures
    from pulsarscope.spark.files.table_files import locate, written_alone
    from pulsarscope.spark.jobs.capture_stream import CaptureStream, Stopped, stopped_by

    checkpoint, identity = Checkpoint(checkpoint_folder), _identity(request, folder, out)
    locate(out)
    resumes = checkpoint.resumes(identity)
    severities: Counter[str] = Counter()
    damaged = False

    def on_batch(batch: BatchSummary) -> None:
        nonlocal damaged
        severities.update(batch.severities)
        damaged = damaged or batch.damaged
        for path in batch.changed:
            warn(f"{path} changed or was removed before its batch was done: its rows may be incomplete")
        if not request.quiet:
            sys.stdout.write(f"{_line(batch)}\n")
            sys.stdout.flush()

    stopping = Event()
    try:
        with (
            written_alone(out, anew=not resumes),
            checkpoint.lock(None if resumes else identity),
            Interrupts(),
            session(request.spark.master, spark_settings(request.spark)) as spark,
            handled(lambda *_: stopping.set()),
            stopped_by(stopping),
            ExitStack() as stack,
        ):
            stream = CaptureStream(
                spark, checkpoint, out, options, request.format, request.spark.partitions, on_batch, partition_by(request)
            )
            stack.callback(stream.close)
            given = request.reading.source_by, watching.settle, stream.captures
            landing = NamedCaptures(request.files, *given) if watching.incremental else LandingFolder(folder, *given)
            if not (watching.finish or watching.incremental):
                follow(landing, stream, watching.every, stopping)
                return EXIT_DONE
            landed = landing.poll(time.monotonic(), take_all=watching.finish, clock=time.time() if watching.incremental else None)
            taken = len(landed)
            if watching.finish:
                landed += landing.close()
            stream.advance(landed, stopping=stopping.is_set)
            _warn_of_grown(landing)
            if isinstance(landing, NamedCaptures):
                _report_named(landing, taken, quiet=request.quiet)
                damaged = damaged or bool(landing.findings)
            return EXIT_DAMAGED if damaged else findings_exit_code(request.fail_on, severities)
    except (KeyboardInterrupt, Stopped):
        pass
    return EXIT_INCOMPLETE if watching.finish or watching.incremental else EXIT_DONE


def follow(landing: LandingFolder, stream: CaptureStream, every: float, stopping: Event) -> None:
    """Look for captures at intervals, also while others are decoded, until a signal. Raises Stopped when it comes during a batch."""
    stream.advance([], stopping=stopping.is_set)
    while not stopping.is_set():
        now = time.monotonic()
        landed = landing.poll(now)
        _warn_of_grown(landing)
        stream.decode(landed, now + every - time.monotonic(), stopping=stopping.is_set)
        stopping.wait(max(0.0, now + every - time.monotonic()))


def _warn_of_grown(landing: LandingFolder) -> None:
    for path in landing.grown:
        warn(f"{path} has grown since it was listed: its later packets may be missing")


def _report_named(landing: NamedCaptures, taken: int, *, quiet: bool) -> None:
    """Report files that are not captures, and how many captures were taken, already known, and left."""
    for finding in landing.findings:
        warn(finding.text)
    if not quiet:
        known = landing.listed - taken - landing.left
        sys.stdout.write(f"{plural(taken, 'new capture')}, {known:,} known, {landing.left:,} still written to\n")


def _places(request: PipelineRequest) -> tuple[str, str]:
    """Return the watched folder and the checkpoint folder. Raises UsageError when the options are invalid or contradict each other."""
    from pulsarscope.spark.sessions.cluster import is_address

    watching = request.watching
    name = "--incremental" if watching.incremental else "--watch"
    message = None
    if watching.incremental and watching.watch is not None:
        message = "--incremental takes the captures that are there, --watch those to come: give one of them"
    elif watching.incremental and watching.checkpoint is None:
        message = "--incremental continues where the last run ended: give --checkpoint DIR, too"
    elif watching.incremental and not request.files:
        message = "no capture given: name files, folders or patterns"
    elif not watching.incremental and (watching.watch is None or watching.checkpoint is None):
        message = "to watch a folder, give both --watch DIR and --checkpoint DIR"
    elif watching.watch is not None and request.files:
        message = "--watch cannot be combined with captures on the command line"
    elif request.format not in ("parquet", "json"):
        message = f"{name} writes parquet or json, not {request.format}"
    elif is_address(request.spark.master):
        message = f"{name} keeps its state in the process of Spark's driver: behind Spark Connect, use spark.readStream"
    elif request.spark.split is not None:
        message = f"{name} cannot be combined with --split: it reads each capture whole"
    elif watching.watch is not None and not Path(watching.watch).is_dir():
        message = f"--watch {watching.watch}: no such folder"
    named = ([] if watching.incremental else [watching.watch or ""]) + [watching.checkpoint or "", output_folder(request)]
    places = [_absolute(place) for place in named]
    if message is None and len({*places}) < len(places):
        message = "--watch, --checkpoint and -o must name different folders"
    if message is not None:
        raise UsageError(message)
    return places[0], places[-2]


def _absolute(place: str) -> str:
    """Return the absolute form of a place. Raises UsageError when the checkpoint cannot store its name."""
    absolute = place if "://" in place else str(Path(place).resolve())
    try:
        absolute.encode()
    except UnicodeEncodeError:
        raise UsageError(f"--watch needs names in UTF-8: {printable(absolute)}") from None
    return absolute


def _identity(request: PipelineRequest, folder: str, out: str) -> dict[str, Any]:
    """Return the options that must be the same when the command resumes."""
    reading = msgspec.structs.asdict(request.reading)
    return {
        "--watch": None if request.watching.incremental else folder,
        "--output": out,
        "--records": sorted(request.records.split(",")),
        "--format": request.format,
        "--partition-by": request.partition_by,
        "--partitions": request.spark.partitions,
        "--payload": request.payload,
        "--show-secrets": request.show_secrets,
        **{f"--{name.replace('_', '-')}": value for name, value in reading.items()},
    }


def _line(batch: BatchSummary) -> str:
    rows = ", ".join(plural(count, kind) for kind, count in batch.rows.items())
    return (
        f"batch {batch.number}: {plural(batch.files, 'capture')}, {batch.bytes / 1e6:,.1f} MB, "
        f"{batch.packets:,} packets in {batch.seconds:,.1f} s; {rows}; {plural(batch.open, 'connection')} open"
    )
