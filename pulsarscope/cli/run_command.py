"""The work of the commands that write rows: one run of the engine into one output."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from typing import TYPE_CHECKING, Any, cast

import msgspec

from pulsarscope.analysis.counted_once import IDENTIFYING, CountedOnce
from pulsarscope.cli.command_output import CommandOutput, interrupted, run_with_output
from pulsarscope.cli.encoded_rows import AnyEncoding, Encoding, OnceEncoding, damage, warn_of
from pulsarscope.cli.engine_run import start_run
from pulsarscope.cli.exit_codes import EXIT_INCOMPLETE, exit_code
from pulsarscope.cli.growing_input import check_growing, growing_run
from pulsarscope.cli.options import NEVER, AnyRequest, CommandRequest
from pulsarscope.cli.progress import reading_progress
from pulsarscope.cli.read_options import engine_options, filter_of, names_in, record_kinds
from pulsarscope.cli.rereadable import rereadable
from pulsarscope.cli.signals import Interrupts
from pulsarscope.cli.standard_error import warn
from pulsarscope.model.errors import UsageError
from pulsarscope.model.limits import ROWS_MAX
from pulsarscope.model.platform import load_native
from pulsarscope.model.records import FrameRow, JourneyRow, MessageRow, RawFrame
from pulsarscope.output.export.sink import STANDARD_OUTPUT, Sink
from pulsarscope.output.registry import CHECKSUM_COLUMNS, EncodedOutput, Output, OutputOptions, column_names, output
from pulsarscope.output.render.style import is_terminal, text_encoding, wants_color

if TYPE_CHECKING:
    from pulsarscope.cli.indexes import RowsRun
    from pulsarscope.engine.local import RowBatch
    from pulsarscope.engine.options import Options
    from pulsarscope.filter import RowFilter, UserFilter
    from pulsarscope.filter.field_columns import FieldColumns

TRACES = ("otlp", "perfetto")
"""The outputs of journeys alone, which put the rows of an entry together."""

COLUMN_OUTPUTS = ("ndjson", "csv", "timeline")
"""Outputs that take frames in the columns of a compiled reader."""

PAYLOAD_FORM = "base64"
"""Form of payloads that only a field reads."""

FILES_OUTPUT = "payload_files"
"""The output that writes a file for each payload."""

FOLDER_OUTPUT = "parquet"
"""The output that writes a folder when there are several kinds of records."""


def run_command(request: CommandRequest) -> int:
    """Write the rows that a request asks for, and return the exit code. Raises UsageError, CaptureError or OutputError."""
    kinds = kinds_of(request)
    request = with_payload(request, kinds)
    name = output_name(request, kinds)
    check_growing(request)

    def run_rows(command_output: CommandOutput) -> int:
        with _captures_of(request) as files:
            given = msgspec.structs.replace(request, files=files)
            encoding, row_filter = encoding_of(given, kinds, name), row_filter_of(given, kinds)
            if not (request.redact or request.mask_key is not None):
                return run_files(command_output, given, row_filter, encoding)
            from pulsarscope.cli.redacted_input import shared_input  # most runs show captures as they are

            with shared_input(given, command_output, row_filter, lambda each: run_options(each, kinds, row_filter)) as shared:
                return shared.exit_code(run_files(command_output, shared.request, shared.row_filter, encoding))

    def run_files(
        command_output: CommandOutput, request: CommandRequest, row_filter: RowFilter | None, rows_encoding: Encoding | None
    ) -> int:
        encoding = OnceEncoding(rows_encoding) if request.once and rows_encoding is not None else rows_encoding
        options = run_options(request, kinds, row_filter)
        if request.tail is not None:
            with rereadable(request.files, command_output.interrupts) as files:
                counting = row_filter if row_filter is None or request.redacted else row_filter_of(request, kinds)
                skip = max(_number_of_rows(request, kinds, files, options, counting) - request.tail, 0)
                return run_once(command_output, files, row_filter, encoding, options, skip)
        if row_filter is None or row_filter.learn is None:
            return run_once(command_output, request.files, row_filter, encoding, options)
        with rereadable(request.files, command_output.interrupts) as files:
            for batch in start_run(files, msgspec.structs.replace(options, records=frozenset({MessageRow.kind})), request.jobs):
                row_filter.learn(batch.rows)
            return run_once(command_output, files, row_filter, encoding, options)

    def run_once(
        command_output: CommandOutput,
        files: Sequence[str],
        row_filter: RowFilter | None,
        encoding: AnyEncoding | None,
        options: Options,
        skip: int = 0,
    ) -> int:
        with ExitStack() as stack:
            # Rows are filtered and counted before they are encoded: only without either may the run encode them. Columns are not merged.
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
            code = write_rows(request, kinds, run, row_filter, row_output, encoding, sink, command_output.interrupts, once, skip=skip)
            for line in row_options.fields.empty() if row_options.fields is not None and not request.quiet else ():
                warn(line)
            explains = request.subject is not None or not request.quiet
            if explains and row_filter is not None and (absence := row_filter.absence()) is not None:
                warn(absence)
            return code

    return run_with_output(run_rows)


def _captures_of(request: CommandRequest) -> AbstractContextManager[Sequence[str]]:
    """Return what yields the captures of a request, made of streams or dumps where it names such."""
    if not (request.raw_streams or request.hexdump):
        return nullcontext(request.files)
    from pulsarscope.cli.raw_input import streams_as_capture  # most runs read captures

    return streams_as_capture(request)


def kinds_of(request: CommandRequest) -> tuple[str, ...]:
    """Return the kinds of records to write. Raises UsageError when the format has no place for them."""
    kinds = record_kinds(request.records)
    if request.format not in TRACES:
        return kinds
    if kinds not in ((FrameRow.kind,), (JourneyRow.kind,)) or request.columns is not None:  # frames are the default
        raise UsageError(f"--format {request.format} writes complete journeys: leave out --records and --columns")
    return (JourneyRow.kind,)


def write_rows(
    request: CommandRequest,
    kinds: tuple[str, ...],
    run: RowsRun,
    row_filter: RowFilter | None,
    row_output: Output,
    encoding: AnyEncoding | None,
    sink: Sink,
    interrupts: Interrupts,
    once: CountedOnce | None = None,
    watch: Callable[[RowBatch], None] | None = None,
    skip: int = 0,
) -> int:
    """Write the rows of a run until it ends, the limit is reached or a signal comes, and return the exit code.

    Signals wait while a batch is written. `watch` gets each batch of a live run first, and may remove rows; the rows that remain are
    flushed at once. With an `encoding`, the output takes encoded rows. `once` takes out what comes a second time,
    `skip` so many rows at the beginning.
    """
    flush = watch is not None or request.follow_file or (encoding is None and sink.name == STANDARD_OUTPUT and is_terminal(sys.stdout))
    progress = reading_progress(run.inputs, quiet=flush or request.quiet or not _allows_progress(request))
    try:
        with progress, closing(limited_rows(run, kinds, row_filter, request.limit, once, watch, skip)) as batches:
            for batch, rows in batches:
                with interrupts.deferred():
                    if encoding is None:
                        if request.format is not None and not request.quiet:
                            warn_of(damage(batch.rows), run.inputs.paths)
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


def limited_rows(
    run: RowsRun,
    kinds: tuple[str, ...],
    row_filter: RowFilter | None,
    limit: int | None,
    once: CountedOnce | None = None,
    watch: Callable[[RowBatch], None] | None = None,
    skip: int = 0,
) -> Generator[tuple[Any, list[Any]], None, None]:
    """Yield the batches with the rows that the filter selects, until `limit` rows of the kinds asked for have passed.

    The first `skip` of them are left out, with all rows before the next one.
    """
    remaining = limit
    with closing(_selected_rows(run, kinds, row_filter, once, watch, skip)) as batches:
        for batch, rows in batches:
            if remaining is None:
                yield batch, rows
                continue
            for index, row in enumerate(rows):
                if type(row) is RawFrame or row.kind not in kinds:
                    continue
                if remaining == 0:
                    yield batch, rows[:index]
                    return
                remaining -= 1
            yield batch, rows
            if remaining == 0:
                return


def _selected_rows(
    run: RowsRun,
    kinds: tuple[str, ...],
    row_filter: RowFilter | None,
    once: CountedOnce | None,
    watch: Callable[[RowBatch], None] | None,
    skip: int,
) -> Generator[tuple[Any, list[Any]], None, None]:
    """Yield the batches with the rows that the filter selects."""
    if row_filter is not None:
        row_filter.begin(run)
    with closing(iter(run)) as batches:
        for batch in batches:
            if once is not None and batch.prepared is None:
                batch.rows = once.kept(batch.rows, run.endpoints)
            if watch is not None:
                watch(batch)
            endpoints = run.endpoints if once is None else once.endpoints
            rows: list[Any] = batch.rows if row_filter is None else row_filter.select(batch.rows, endpoints)
            if skip:
                rows, skip = _behind(rows, kinds, skip)
            yield batch, rows
        if once is not None and (rest := once.rest()):
            batch = msgspec.structs.replace(batch, rows=rest)
            if watch is not None:
                watch(batch)
            selected = batch.rows if row_filter is None else row_filter.select(batch.rows, once.endpoints)
            yield batch, _behind(selected, kinds, skip)[0]


def _behind(rows: list[Any], kinds: tuple[str, ...], skip: int) -> tuple[list[Any], int]:
    """Return the rows behind the first `skip` of these kinds, and the number that is still to be left out."""
    counted = [index for index, row in enumerate(rows) if type(row) is not RawFrame and row.kind in kinds] if skip else []
    if skip and skip >= len(counted):
        return [], skip - len(counted)
    return rows[counted[skip] :] if skip else rows, 0


def _number_of_rows(
    request: CommandRequest, kinds: tuple[str, ...], files: Sequence[str], options: Options, row_filter: RowFilter | None
) -> int:
    """Return the number of rows of the kinds asked for that the filter selects."""
    run = start_run(files, options, request.jobs)
    once = CountedOnce() if request.once else None
    selected = limited_rows(run, kinds, row_filter, None, once)
    return sum(type(row) is not RawFrame and row.kind in kinds for _, rows in selected for row in rows)


def output_name(request: CommandRequest, kinds: tuple[str, ...]) -> str:
    """Return the name of the output that a request asks for. Raises UsageError when its options contradict each other."""
    if request.tail is not None and request.limit is not None:
        raise UsageError("--limit takes the first records and --tail the last: give one")
    if request.export is not None:
        return FILES_OUTPUT
    if request.payload is not None and MessageRow.kind not in kinds and not request.hex:
        raise UsageError("--payload is for messages: use the command messages, or --records frame,message")
    if request.detail or request.hex:
        view = "-V and -x" if request.detail and request.hex else "-V" if request.detail else "-x"
        for option, value in (("--format", request.format), ("--columns", request.columns)):
            if value is not None:
                raise UsageError(f"{view} cannot be combined with {option}")
        if "frame" not in kinds:
            raise UsageError(f"{view} shows frames: add frame to --records")
        return "tree" if request.detail else "hex"
    if fields_of(request, kinds) is not None:
        return "fields"
    if request.format in (FOLDER_OUTPUT, "perfetto") and request.out is None and is_terminal(sys.stdout):
        raise UsageError(f"{request.format} cannot be written to a terminal: name a file with -o")
    if request.format is not None:
        return request.format
    if request.subject is not None:
        return "lanes"
    if request.columns is not None:
        return "table"
    if "frame" in kinds:
        return "timeline"
    return "messages" if kinds == (MessageRow.kind,) else "table"


def row_filter_of(request: CommandRequest, kinds: tuple[str, ...]) -> UserFilter | None:
    """Return the filter of the rows: of the thing to follow, of -Y, or of both. Raises UsageError when either is invalid."""
    display_filter = filter_of(request, kinds)
    if request.subject is None:
        return display_filter
    from pulsarscope.filter import FollowFilter, JoinedFilter  # one command needs it
    from pulsarscope.protocols import make_dissectors

    follow_filter = FollowFilter(*request.subject, make_dissectors())
    return follow_filter if display_filter is None else JoinedFilter(follow_filter, display_filter)


def encoding_of(request: CommandRequest, kinds: tuple[str, ...], name: str) -> Encoding | None:
    """Return the encoding of rows for programs; None for text, which is made of the rows themselves. Raises UsageError without pyarrow."""
    if name == FOLDER_OUTPUT:
        from pulsarscope.output.export.arrow import require_pyarrow  # other outputs start quicker without it

        require_pyarrow()
    return None if request.format is None or name in (*TRACES, "fields") else Encoding(name, kinds, _columns(request), quiet=request.quiet)


def fields_of(request: CommandRequest, kinds: tuple[str, ...]) -> FieldColumns | None:
    """Return the fields that --columns names, when one of them is no column. Raises FilterError when a name is neither."""
    names = _columns(request) or ()
    known = {name for kind in kinds for name in column_names(kind)}.union(CHECKSUM_COLUMNS)
    if all(name in known for name in names):
        return None
    from pulsarscope.cli.fields import catalogue  # most runs name columns
    from pulsarscope.filter import FilterError
    from pulsarscope.filter.field_columns import FieldColumns

    try:
        return FieldColumns(names, kinds, catalogue(), payload=request.payload or PAYLOAD_FORM)
    except FilterError:
        if all(name.isidentifier() for name in names if name not in known):
            return None  # which refuses it as a column
        raise


def with_payload(request: AnyRequest, kinds: tuple[str, ...]) -> AnyRequest:
    """Return a request whose messages have their payloads when a field is made of these."""
    if request.payload is not None or MessageRow.kind not in kinds or (fields := fields_of(request, kinds)) is None:
        return request
    return msgspec.structs.replace(request, payload=PAYLOAD_FORM) if fields.reads_payload else request


def _columns(request: CommandRequest) -> tuple[str, ...] | None:
    columns = None if request.columns is None else names_in(request.columns)
    if columns == ():
        raise UsageError("--columns is empty")
    return columns


def run_options(request: CommandRequest, kinds: tuple[str, ...], row_filter: RowFilter | None) -> Options:
    """Return the options of the run. Raises UsageError when an option of the command line is invalid."""
    run_kinds = set(kinds)
    if request.format is None:
        run_kinds |= {"connection", "finding"}  # text introduces connections and shows findings where they occur
    elif not request.quiet:
        run_kinds.add("finding")
    if row_filter is not None and row_filter.learn is not None:
        run_kinds.add(MessageRow.kind)
    return msgspec.structs.replace(
        engine_options(request.reading),
        records=frozenset(run_kinds),
        show_secrets=request.show_secrets,
        payloads=request.format is None or request.fail_on != NEVER or not {"message", "finding"}.isdisjoint(kinds),
        payload=(request.payload if row_filter is None else row_filter.payload) if MessageRow.kind in kinds else None,
        message_columns=_message_columns(request),
        rows_max=ROWS_MAX,
        columns=_takes_columns(request, kinds, row_filter),
        together=_takes_together(request, kinds, row_filter),
        raw=request.hex,
        rules="finding" in kinds or request.fail_on != NEVER,
        anchors=request.once,
    )


def _takes_columns(request: CommandRequest, kinds: tuple[str, ...], row_filter: RowFilter | None) -> bool:
    """Return True when rows of frames are written as they are, and nobody looks into them, or they are made after a subject is followed."""
    if kinds != (FrameRow.kind,) or request.once or request.fail_on != NEVER:
        return False
    if row_filter is not None and not row_filter.takes_columns:
        return False
    if request.subject is not None:
        return not request.hex
    looked_into = request.limit is not None or request.tail is not None or request.columns is not None
    return output_name(request, kinds) in COLUMN_OUTPUTS and not looked_into


def _takes_together(request: CommandRequest, kinds: tuple[str, ...], row_filter: RowFilter | None) -> bool:
    """Return True when the messages of an entry are written together: rows are neither read nor counted."""
    if row_filter is not None or request.limit is not None or request.tail is not None:
        return False
    in_lines = output_name(request, kinds) == "ndjson" and request.columns is None
    return request.format == FOLDER_OUTPUT or (in_lines and load_native()[0] is not None)


def _message_columns(request: CommandRequest) -> tuple[str, ...] | None:
    """Return the columns of message rows that the output needs, None for all: a filter may read any. The output refuses others."""
    if request.format is None or request.columns is None or request.filter is not None:
        return None
    kinds = record_kinds(request.records)
    if JourneyRow.kind in kinds or fields_of(request, kinds) is not None:
        return None
    known = column_names(MessageRow.kind)
    asked = tuple(dict.fromkeys(name for name in names_in(request.columns) if name in known))
    return (*asked, *(name for name in IDENTIFYING if name not in asked)) if asked and request.once else asked or None


def output_options(
    request: CommandRequest, kinds: tuple[str, ...], run: RowsRun, row_filter: RowFilter | None, *, readable: bool = True
) -> OutputOptions:
    """Return the options of the output; `readable`: the packets can be read again."""
    stream = sys.stdout if request.out in (None, "-") else None
    return OutputOptions(
        kinds=kinds,
        run=run,
        columns=_columns(request),
        fields=fields_of(request, kinds),
        format=request.format,
        paths=tuple(run.inputs.paths),
        time=request.time,
        color=wants_color(stream, os.environ, request.no_color),
        width=shutil.get_terminal_size().columns if is_terminal(stream) else None,
        encoding=text_encoding(request.out),
        quiet=request.quiet,
        readable=readable,
        payload=request.payload,
        selection=row_filter,
        subject=request.subject[0] if request.subject is not None else None,
    )


def _allows_progress(request: CommandRequest) -> bool:
    """Return False for text on standard output, which shows progress by itself and would be spoilt by a bar."""
    return request.out not in (None, "-") or (request.format is not None and not is_terminal(sys.stdout))
