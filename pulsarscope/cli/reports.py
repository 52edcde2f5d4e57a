"""The parts shared by commands that read a capture to its end before they write: stats, diagnose, compare."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from pulsarscope.analysis.counted_once import CountedOnce
from pulsarscope.cli.arguments.options import CommandRequest
from pulsarscope.cli.arguments.read_options import engine_options
from pulsarscope.cli.encoded_rows import damage, warn_of
from pulsarscope.cli.engine_run import start_run
from pulsarscope.cli.exit_codes import EXIT_INCOMPLETE
from pulsarscope.cli.growing_input import growing_run
from pulsarscope.cli.progress import reading_progress
from pulsarscope.cli.signals import Interrupts
from pulsarscope.cli.standard_error import warn
from pulsarscope.dissect.contract.generic_codes import FAILED_CODES
from pulsarscope.model.limits import ROWS_MAX
from pulsarscope.model.ordered_rows import others
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FindingRow, FrameRow
from pulsarscope.model.text import plural
from pulsarscope.output.export.sink import Sink
from pulsarscope.output.render.style import is_terminal, text_encoding, wants_color
from pulsarscope.output.render.text_report import ReportOptions

if TYPE_CHECKING:
    from pulsarscope.analysis.diagnosis import Diagnosis
    from pulsarscope.dissect.contract.dissector import Dissector
    from pulsarscope.engine.options import Options
    from pulsarscope.engine.parallel import AnyRun, Prepare

COUNTED_KINDS = (FrameRow.kind, ExchangeRow.kind)
"""Kinds of rows that statistics count and a filter selects."""

EXPLAINING_KINDS = frozenset({ConnectionRow.kind, FindingRow.kind})
"""Kinds of further rows that reports need, regardless of the filter."""

ROWS_SHOWN = 10
"""Rows of each list in text, by default."""


class CountedRows:
    """Preparation of rows for statistics in another process: it removes the content of frames, which is slow to transfer."""

    takes_columns = False

    def prepare(self, rows: list[Any]) -> list[Any]:
        """Return rows without the content of frames."""
        for row in rows:
            if isinstance(row, FrameRow):
                row.fields = row.metadata = row.broker_entry_metadata = row.checksum = None
        return rows

    def join(self, prepared: list[Any]) -> list[Any]:
        """Return prepared rows unchanged."""
        return prepared


def run_options(request: CommandRequest, kinds: Iterable[str], *, rules: bool) -> Options:
    """Return the options of a run that yields rows of these kinds, with findings of rules if `rules`. Raises UsageError."""
    return msgspec.structs.replace(
        engine_options(request.reading),
        records=frozenset(kinds),
        show_secrets=request.show_secrets,
        payloads=rules,
        rows_max=ROWS_MAX,
        rules=rules,
        any_order=rules,
        anchors=True,
    )


@contextmanager
def report_run(request: CommandRequest, options: Options, prepare: Prepare | None = None) -> Iterator[AnyRun]:
    """Yield the run of a report. With --follow-file, it continues until a signal. Raises UsageError or CaptureError."""
    if request.follow_file:
        with growing_run(request, options) as run:
            yield run
    else:
        yield start_run(request.files, options, request.jobs, prepare)


def diagnosis_of(run: AnyRun, options: Options) -> Diagnosis:
    """Return an empty diagnosis of a run, in the words of its dissectors."""
    from pulsarscope.analysis.diagnosis import Diagnosis  # statistics need none

    return Diagnosis.of(run.dissectors.values(), options.ports.union(options.decode_as), options.thresholds)


def read_all(
    run: AnyRun,
    request: CommandRequest,
    consume: Callable[[Sequence[Any]], None],
    once: CountedOnce,
    *,
    warns: bool = True,
    interrupts: Interrupts | None = None,
) -> None:
    """Pass all rows of a run to `consume`, each message and finding once (see `CountedOnce`).

    If `warns`, warn of damage, and of dissectors that failed; with -q, only of damage.

    With `interrupts`, a first signal stops the run, which then yields its rows so far. A pipe is abandoned at once, because more may never
    come.
    """
    failures = 0
    noted = nullcontext() if interrupts is None or run.inputs.sizes is None else interrupts.noted()
    with noted, reading_progress(run.inputs, quiet=request.quiet) as progress:
        for batch in run:
            if interrupts is not None and interrupts.pending and not run.stopped:
                run.stop()
                warn(f"interrupted: the following covers the first {plural(run.packets, 'packet')}")
            rows = batch.rows if batch.prepared is None else batch.prepared
            if warns or request.quiet:
                findings = [row for row in others(rows) if type(row) is FindingRow]
                warn_of(damage(findings), run.inputs.paths)
                failures += sum(row.code in FAILED_CODES for row in findings)
            consume(once.kept(rows, run.endpoints))
            progress.advance(batch.file, batch.bytes_read)
        consume(once.rest())
    if failures and not request.quiet:
        warn(f"a dissector or a rule failed {plural(failures, 'time')}: what it would have added is missing (diagnose names it)")


def finish_report(sink: Sink, run: AnyRun) -> int | None:
    """Finish a report. If its run was stopped, keep it under its incomplete name, and return the exit code."""
    if not run.stopped:
        sink.finish()
        return None
    if kept := sink.keep():
        warn(f"the incomplete report is in {kept}")
    return EXIT_INCOMPLETE


def report_options(request: CommandRequest, paths: Iterable[str], dissectors: Iterable[Dissector] = ()) -> ReportOptions:
    """Return the options of a text report about the captures at `paths`, with the dissectors' short names of topics."""
    from pulsarscope.dissect.plugins.topic_names import join_topic_names

    stream = sys.stdout if request.out in (None, "-") else None
    return ReportOptions(
        color=wants_color(stream, os.environ, request.no_color),
        width=shutil.get_terminal_size().columns if is_terminal(stream) or os.environ.get("COLUMNS") else None,
        encoding=text_encoding(request.out),
        limit=request.limit or ROWS_SHOWN,
        quiet=request.quiet,
        files=tuple(Path(path).name for path in paths),
        short_topic=join_topic_names(dissectors).short,
    )
