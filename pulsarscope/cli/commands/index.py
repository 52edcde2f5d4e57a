"""The command `index`."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import msgspec

from pulsarscope.cli.arguments.declarations import option
from pulsarscope.cli.arguments.options import CommandRequest, Files, JobsOption, QuietOption, ReadOptions
from pulsarscope.cli.arguments.read_options import engine_options
from pulsarscope.cli.command_output import CommandOutput, with_output
from pulsarscope.cli.encoded_rows import damage, warn_of
from pulsarscope.cli.engine_run import start_run
from pulsarscope.cli.exit_codes import EXIT_DAMAGED, EXIT_DONE
from pulsarscope.cli.indexes import find_index, prune
from pulsarscope.cli.progress import with_progress
from pulsarscope.cli.standard_error import warn
from pulsarscope.model.errors import OutputError, UsageError, system_reason
from pulsarscope.model.findings import ERROR
from pulsarscope.model.limits import ROWS_MAX
from pulsarscope.model.text import plural
from pulsarscope.output.export.arrow import require_pyarrow

if TYPE_CHECKING:
    from pathlib import Path

    from pulsarscope.engine.parallel import AnyRun
    from pulsarscope.index.identity import Identity


class IndexRequest(CommandRequest, frozen=True, kw_only=True):
    """Options of `index`."""

    files: Files
    beside: Annotated[bool, option("--beside", help="Keep it beside the capture, as FILE.psidx, not in the cache.")] = False
    into: Annotated[
        str | None, option("--into", metavar="DIR", help="Keep it in this folder, the indexLocation of Spark's data source.")
    ] = None
    quiet: QuietOption = False
    jobs: JobsOption = 1
    reading: ReadOptions = ReadOptions()


@with_output
def index(request: IndexRequest, output: CommandOutput) -> int:
    """Index captures, to make browse, decode -Y and follow fast.

    An index lists all frames of the named captures, and where their packets are. It is used as long as the captures do not change: -Y on
    time, topic, connection or command, and follow --topic and --connection, then read only the frames asked for; extract, their packets.
    """
    require_pyarrow("index needs")
    from pulsarscope.index.reader import open_index
    from pulsarscope.index.run import SERVED

    options = msgspec.structs.replace(engine_options(request.reading), records=SERVED, rules=True, rows_max=ROWS_MAX, places=True)
    run = start_run(request.files, options, request.jobs)
    unread = [finding for finding in run.inputs.findings if finding.severity == ERROR]
    if run.inputs.findings:  # the index is of the captures alone, and serves runs that name no other file
        for finding in unread:
            warn(finding.advice)
        run = start_run(run.inputs.paths, options, request.jobs)
    known, identity = find_index(run.inputs, options, quiet=request.quiet)
    place = place_of(identity, beside=request.beside, into=request.into)
    if request.into is not None and identity is not None:
        known, _ = open_index([place], identity)
    if known is not None and known.path == place:
        count, code = len(known), EXIT_DAMAGED if known.totals.damaged else EXIT_DONE
        said = "up to date"
    else:
        count = _write(request, run, identity, place, output)
        code = EXIT_DAMAGED if run.damaged else EXIT_DONE
        said = "written"
    if unread:
        code = EXIT_DAMAGED
    if not request.quiet:
        warn(f"{said}: {place}, {plural(count, 'frame')}, {place.stat().st_size:,} bytes")
    return code


def place_of(identity: Identity | None, *, beside: bool, into: str | None = None) -> Path:
    """Return the path for an index of captures. Raises UsageError when no index can be there."""
    from pathlib import Path

    from pulsarscope.index.identity import cache_folder, places_of

    if identity is None:
        raise UsageError(
            "pipes cannot be indexed, nor captures that are read with keys, key logs or passwords: the index would hold what these reveal"
        )
    places = places_of(identity, os.environ)
    if beside and len(identity.captures) != 1:
        raise UsageError("--beside is for one capture: the index of several is in the cache")
    if into is not None:
        if beside:
            raise UsageError("--beside and --into are two places: give one")
        return Path(into) / identity.place
    if not beside and cache_folder(os.environ) is None:
        raise UsageError("there is no folder for the index: set HOME or XDG_CACHE_HOME, or give --beside")
    return places[0] if beside else places[-1]


def _write(request: IndexRequest, run: AnyRun, identity: Identity | None, place: Path, output: CommandOutput) -> int:
    """Read the captures into an index, and return the number of frames."""
    from pulsarscope.browse.browsed_capture import browsed_tables
    from pulsarscope.engine.local import packets
    from pulsarscope.index.writer import IndexTotals, IndexWriter

    assert identity is not None  # noqa: S101 - place_of raises
    try:
        writer = IndexWriter(place, identity)
        folds = {table.name: table.make() for table in browsed_tables(run.dissectors.values())}
        with ExitStack() as stack:
            stack.callback(writer.abandon)
            for batch in with_progress(run.inputs, run, quiet=request.quiet):
                warn_of(damage(batch.rows), run.inputs.paths)
                with output.interrupts.deferred():
                    writer.add(batch.rows)
                    for fold in folds.values():
                        fold.feed(batch.rows, run.endpoints)
            for packets_read in with_progress(run.inputs, packets(run.inputs, run.starts), quiet=request.quiet):
                with output.interrupts.deferred():
                    writer.add_packets(packets_read)
            writer.finish(IndexTotals.of(run), [(name, fold.records()) for name, fold in folds.items()])
            prune(place.parent)
            return writer.frames
    except OSError as error:
        raise OutputError(f"{place} cannot be written: {system_reason(error)}") from error
