"""`pipeline --watch`: the captures that land in a folder to tables, batch after batch, until a signal comes. Experimental."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from pulsarscope import __version__
from pulsarscope.cli.options import Cluster, Watching
from pulsarscope.cli.pipeline import folder_of, options_of, settings_of
from pulsarscope.cli.run_command import EXIT_DAMAGED, EXIT_DONE, EXIT_INCOMPLETE, Request, complain, failing_code
from pulsarscope.cli.signals import Interrupts, handled
from pulsarscope.model.errors import UsageError
from pulsarscope.output.render.cell_text import escape

if TYPE_CHECKING:
    from pulsarscope.spark.stream import Batch


def watch(request: Request, cluster: Cluster, watching: Watching) -> int:
    """Carry out the command in a session of its own; the exit code. Raises as `cli.pipeline.run_pipeline`."""
    from pulsarscope.spark.session import refuse_lacking, session  # noqa: PLC0415 - Spark is an extra

    folder, checkpoint = _places(request, cluster, watching)
    options, out = options_of(request), _absolute(folder_of(request))
    refuse_lacking()
    from pulsarscope.spark.checkpoint import Checkpoint  # noqa: PLC0415 - as above
    from pulsarscope.spark.landing_folder import Landing  # noqa: PLC0415 - as above
    from pulsarscope.spark.stream import Stopped, Stream  # noqa: PLC0415 - as above
    from pulsarscope.spark.table_files import place, refuse_full  # noqa: PLC0415 - as above

    kept, asked = Checkpoint(checkpoint), _asked(request, folder, out)
    place(out)
    if not kept.goes_on(asked):
        refuse_full(out)
        kept.begin(asked)
    severities: Counter[str] = Counter()
    damaged = False

    def tell(batch: Batch) -> None:
        nonlocal damaged
        severities.update(batch.severities)
        damaged = damaged or batch.damaged
        for path in batch.changed:
            complain(f"{path} was written to or removed before its batch was done: it may not be decoded as it was")
        if not request.quiet:
            sys.stdout.write(f"{_line(batch)}\n")
            sys.stdout.flush()

    try:
        with kept.alone(), Interrupts(), session(cluster.master, settings_of(cluster)) as spark, _signals() as told:
            stream = Stream(spark, kept, out, options, request.format or "parquet", cluster.partitions, tell)
            landing = Landing(folder, request.reading.source_by, watching.settle, stream.captures)
            while not told.is_set():
                stream.advance(landing, everything=watching.finish, stopping=told.is_set)
                for path in landing.grown:
                    complain(f"{path} was not finished when it was taken: what was written to it since is not decoded")
                if watching.finish:
                    stream.end()
                    return EXIT_DAMAGED if damaged else failing_code(request.fail_on, severities)
                told.wait(watching.every)
    except (KeyboardInterrupt, Stopped):
        pass
    return EXIT_INCOMPLETE if watching.finish else EXIT_DONE


def _places(request: Request, cluster: Cluster, watching: Watching) -> tuple[str, str]:
    """The folder that is watched, and that of the checkpoint.

    Raises:
        UsageError: the command line does not go together.
    """
    message = None
    if watching.watch is None or watching.checkpoint is None:
        message = "to watch a folder takes both --watch DIR and --checkpoint DIR"
    elif request.files:
        message = "--watch takes no other captures than those that land in its folder"
    elif request.format not in (None, "parquet", "json"):
        message = f"--watch writes parquet or json, not {request.format}"
    elif cluster.split is not None:
        message = "--watch reads each capture whole: give it no --split"
    elif not Path(watching.watch).is_dir():
        message = f"--watch {watching.watch}: there is no such folder"
    places = [_absolute(place) for place in (watching.watch or "", watching.checkpoint or "", folder_of(request))]
    if message is None and len({*places}) < len(places):
        message = "--watch, --checkpoint and -o must name three folders"
    if message is not None:
        raise UsageError(message)
    return places[0], places[1]


def _absolute(place: str) -> str:
    """The same, wherever the command goes on. Raises UsageError: the checkpoint cannot hold its name."""
    found = place if "://" in place else str(Path(place).resolve())
    try:
        found.encode()
    except UnicodeEncodeError:
        message = f"{escape(found)} is no name in UTF-8: --watch needs such"
        raise UsageError(message) from None
    return found


def _asked(request: Request, folder: str, out: str) -> dict[str, Any]:
    """What must be the same whenever the command goes on; of what another version has left open nothing can be made."""
    return {
        "version": __version__,
        "--watch": folder,
        "--output": out,
        "--records": sorted(request.records.split(",")),
        "--format": request.format or "parquet",
        "--payload": request.payload,
        "--show-secrets": request.show_secrets,
        **{f"--{name.replace('_', '-')}": value for name, value in request.reading._asdict().items()},
    }


@contextmanager
def _signals() -> Iterator[Event]:
    """An event that the signals set which end a command."""
    told = Event()
    with handled(lambda *_: told.set()):
        yield told


def _line(batch: Batch) -> str:
    """What came of a batch, in words."""
    rows = ", ".join(f"{count:,} {kind}{'s' if count != 1 else ''}" for kind, count in batch.rows.items())
    return (
        f"batch {batch.number}: {batch.files:,} capture{'s' if batch.files != 1 else ''}, {batch.bytes / 1e6:,.1f} MB, "
        f"{batch.packets:,} packets in {batch.seconds:,.1f} s; {rows}; {batch.open:,} connection{'s' if batch.open != 1 else ''} open"
    )
