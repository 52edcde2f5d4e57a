"""The work of the commands that write rows: one run of the engine into one output."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from typing import TYPE_CHECKING, Any, cast

import msgspec

from pulsarscope.analysis.counted_once import CountedOnce
from pulsarscope.cli.arguments.options import CommandRequest
from pulsarscope.cli.arguments.read_options import warn_of_absent_names
from pulsarscope.cli.arguments.row_request import (
    FILES_OUTPUT,
    FOLDER_OUTPUT,
    encoding_of,
    kinds_of,
    output_name,
    output_options,
    row_filter_of,
    run_options,
    takes_columns,
    with_payload,
)
from pulsarscope.cli.command_output import CommandOutput, interrupted, with_output
from pulsarscope.cli.encoded_rows import AnyEncoding, Encoding, OnceEncoding, damage, warn_of
from pulsarscope.cli.engine_run import start_run
from pulsarscope.cli.exit_codes import EXIT_INCOMPLETE, exit_code
from pulsarscope.cli.growing_input import check_growing, growing_run
from pulsarscope.cli.progress import reading_progress
from pulsarscope.cli.rereadable import rereadable
from pulsarscope.cli.selected_rows import SelectedRows
from pulsarscope.cli.signals import Interrupts
from pulsarscope.cli.standard_error import warn
from pulsarscope.model.ordered_rows import in_rows, others
from pulsarscope.model.records import FindingRow, MessageRow
from pulsarscope.output.export.sink import STANDARD_OUTPUT, Sink
from pulsarscope.output.registry import EncodedOutput, Output, output
from pulsarscope.output.render.style import is_terminal

if TYPE_CHECKING:
    from pulsarscope.cli.indexes import RowsRun
    from pulsarscope.engine.options import Options
    from pulsarscope.filter import RowFilter


@with_output
def run_command(request: CommandRequest, command_output: CommandOutput) -> int:
    """Write the rows of a request, and return the exit code. Raises UsageError, CaptureError or OutputError."""
    kinds = kinds_of(request)
    request = with_payload(request, kinds)
    name = output_name(request, kinds)
    check_growing(request)

    def run_files(
        command_output: CommandOutput, request: CommandRequest, row_filter: RowFilter | None, rows_encoding: Encoding | None
    ) -> int:
        encoding = OnceEncoding(rows_encoding) if request.once and rows_encoding is not None else rows_encoding
        options = run_options(request, kinds, row_filter)
        if request.tail is not None:
            with rereadable(request.files, command_output.interrupts) as files:
                counting = row_filter if row_filter is None or request.redacted else row_filter_of(request, kinds)
                counted = SelectedRows(kinds, counting, once=CountedOnce() if request.once else None)
                skip = counted.count(start_run(files, options, request.jobs)) - request.tail
                return run_once(command_output, files, row_filter, encoding, options, skip if skip > 0 else None)
        if row_filter is None or row_filter.learn is None:
            return run_once(command_output, request.files, row_filter, encoding, options)
        with rereadable(request.files, command_output.interrupts) as files:
            for batch in start_run(files, msgspec.structs.replace(options, records=frozenset({MessageRow.kind})), request.jobs):
                row_filter.learn(in_rows(batch.rows))
            return run_once(command_output, files, row_filter, encoding, options)

    def run_once(
        command_output: CommandOutput,
        files: Sequence[str],
        row_filter: RowFilter | None,
        encoding: AnyEncoding | None,
        options: Options,
        skip: int | None = None,
    ) -> int:
        with ExitStack() as stack:
            # Rows are filtered and counted before they are encoded, so the run may encode them only if neither is needed. Columns are not
            # merged.
            elsewhere = row_filter is None and request.limit is request.tail is None and name != FOLDER_OUTPUT
            run: RowsRun | None = None
            if request.follow_file:
                run = stack.enter_context(growing_run(request, options))
            elif row_filter is not None:
                from pulsarscope.cli.indexes import run_from_index  # most runs have no filter

                run = run_from_index(files, options, row_filter, quiet=request.quiet)
            run = run or start_run(files, options, request.jobs, encoding if elsewhere else None)
            sink = command_output.open(request, run.inputs.paths, folder=(name == FOLDER_OUTPUT and len(kinds) > 1) or name == FILES_OUTPUT)
            row_options = output_options(request, kinds, run, row_filter)
            row_output = output(name)(sink, row_options)
            once = CountedOnce() if request.once else None
            selection = SelectedRows(kinds, row_filter, request.limit, skip, once, one_by_one=not takes_columns(request, name))
            code = write_rows(request, run, selection, row_output, encoding, sink, command_output.interrupts)
            if code == EXIT_INCOMPLETE:  # the rest may hold what has not been seen
                return code
            for line in row_options.fields.empty() if row_options.fields is not None and not request.quiet else ():
                warn(line)
            warn_of_absent_names(request, row_filter)
            return code

    with _captures_of(request) as files:
        given = msgspec.structs.replace(request, files=files)
        encoding, row_filter = encoding_of(given, kinds, name), row_filter_of(given, kinds)
        if not (request.redact or request.mask_key is not None):
            return run_files(command_output, given, row_filter, encoding)
        from pulsarscope.cli.redacted_input import shared_input  # most runs show captures as they are

        with shared_input(given, command_output, row_filter, lambda each: run_options(each, kinds, row_filter)) as shared:
            return shared.exit_code(run_files(command_output, shared.request, shared.row_filter, encoding))


def _captures_of(request: CommandRequest) -> AbstractContextManager[Sequence[str]]:
    """Return a context manager that yields the captures of a request; streams and dumps are converted to captures."""
    if not (request.raw_streams or request.hexdump):
        return nullcontext(request.files)
    from pulsarscope.cli.raw_input import streams_as_capture  # most runs read captures

    return streams_as_capture(request)


def write_rows(
    request: CommandRequest,
    run: RowsRun,
    selection: SelectedRows,
    row_output: Output,
    encoding: AnyEncoding | None,
    sink: Sink,
    interrupts: Interrupts,
) -> int:
    """Write the rows of a run until it ends, the limit is reached or a signal comes, and return the exit code.

    Signals are deferred while a batch is written. The rows of a live run, which has a watch, are flushed at once. With an `encoding`, the
    output takes encoded rows.
    """
    flush = (
        selection.watch is not None
        or request.follow_file
        or (encoding is None and sink.name == STANDARD_OUTPUT and is_terminal(sys.stdout))
    )
    progress = reading_progress(run.inputs, quiet=flush or request.quiet or not _allows_progress(request))
    try:
        with progress, closing(selection.batches(run)) as batches:
            for batch, rows in batches:
                with interrupts.deferred():
                    if encoding is None:
                        warn_of(damage(_not_shown(request, batch.rows, rows)), run.inputs.paths)
                        row_output.write(rows)
                    else:
                        encoded = encoding(batch.rows, rows) if batch.prepared is None else batch.prepared
                        warn_of(encoded.warnings, run.inputs.paths)
                        cast("EncodedOutput", row_output).put(encoded.rows)
                    if flush:
                        sink.flush()
                progress.advance(batch.file, batch.bytes_read)
            if isinstance(encoding, OnceEncoding) and (rest := encoding.rest().rows):
                cast("EncodedOutput", row_output).put(rest)
    except KeyboardInterrupt:
        row_output.close()
        if kept := sink.keep():
            warn(f"interrupted; the rows decoded so far are in {kept}")
            return EXIT_INCOMPLETE
        return interrupted()
    row_output.close()
    sink.finish()
    return exit_code(request.fail_on, run)


def _not_shown(request: CommandRequest, rows: list[Any], selected: list[Any]) -> Sequence[Any]:
    """Return the rows of a batch whose findings the output does not show: text shows the selected rows, columns and -q show none."""
    if request.format is not None or request.columns is not None or request.quiet:
        return others(rows)
    if rows is selected or not (findings := [row for row in others(rows) if type(row) is FindingRow]):
        return ()
    shown = set(map(id, others(selected)))
    return [row for row in findings if id(row) not in shown]


def _allows_progress(request: CommandRequest) -> bool:
    """Return False for text on standard output, which shows progress by itself and would be spoilt by a bar."""
    return request.out not in (None, "-") or (request.format is not None and not is_terminal(sys.stdout))
