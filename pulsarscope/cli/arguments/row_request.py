"""The meaning of a request for rows: output, output options, encoding, filter, and options of the run."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING

import msgspec

from pulsarscope.analysis.counted_once import IDENTIFYING
from pulsarscope.cli.arguments.options import NEVER, AnyRequest, CommandRequest
from pulsarscope.cli.arguments.read_options import engine_options, filter_of, names_in, record_kinds
from pulsarscope.cli.encoded_rows import JSON_OUTPUTS, Encoding
from pulsarscope.model.errors import UsageError
from pulsarscope.model.limits import ROWS_MAX
from pulsarscope.model.platform import load_native
from pulsarscope.model.records import FrameRow, JourneyRow, MessageRow, with_addresses
from pulsarscope.output.registry import CHECKSUM_COLUMNS, ENCODERS, OutputOptions, choose_columns, column_names
from pulsarscope.output.render.style import is_terminal, text_encoding, wants_color

if TYPE_CHECKING:
    from pulsarscope.cli.indexes import RowsRun
    from pulsarscope.engine.options import Options
    from pulsarscope.filter import RowFilter, UserFilter
    from pulsarscope.filter.field_columns import FieldColumns

TRACES = ("otlp", "perfetto")
"""Outputs of journeys only, which combine the rows of an entry."""

FOLDER_OUTPUT = "parquet"
"""The output that writes a folder when there are several kinds of records."""

COLUMN_OUTPUTS = (*JSON_OUTPUTS, "csv", "timeline", "lanes", FOLDER_OUTPUT)
"""Outputs that take rows in the columns of a compiled reader."""

PAYLOAD_FORM = "base64"
"""Form of payloads if only a field reads them."""

MESSAGES_OUTPUT = "messages"
"""The output of messages as text."""

FILES_OUTPUT = "payload_files"
"""The output that writes a file for each payload."""


def kinds_of(request: CommandRequest) -> tuple[str, ...]:
    """Return the kinds of records to write. Raises UsageError when the format cannot hold them."""
    kinds = record_kinds(request.records)
    if request.format not in TRACES:
        return kinds
    unfit = [] if request.records is None or kinds == (JourneyRow.kind,) else ["--records"]
    if request.columns is not None:
        unfit.append("--columns")
    if unfit:
        raise UsageError(f"--format {request.format} writes complete journeys: leave out {' and '.join(unfit)}")
    return (JourneyRow.kind,)


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
    return MESSAGES_OUTPUT if kinds == (MessageRow.kind,) else "table"


def row_filter_of(request: CommandRequest, kinds: tuple[str, ...]) -> UserFilter | None:
    """Return the filter of rows: for the followed subject, from -Y, or both. Raises UsageError when either is invalid."""
    display_filter = filter_of(request, kinds)
    if request.subject is None:
        return display_filter
    from pulsarscope.filter import FollowFilter, JoinedFilter  # one command needs it
    from pulsarscope.protocols import make_dissectors

    follow_filter = FollowFilter(*request.subject, make_dissectors())
    return follow_filter if display_filter is None else JoinedFilter(follow_filter, display_filter)


def encoding_of(request: CommandRequest, kinds: tuple[str, ...], name: str) -> Encoding | None:
    """Return the encoding of rows; None for outputs that are made from the rows directly. Raises UsageError without pyarrow."""
    if name == FOLDER_OUTPUT:
        from pulsarscope.output.export.arrow import require_pyarrow  # other outputs start faster without it

        # Arrow reads it at its import. Its own allocator keeps 13 MiB more, as it requests and returns pages for each row group.
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
        require_pyarrow()
    return Encoding(name, kinds, _columns(request)) if name in ENCODERS else None


def check_columns(request: CommandRequest, kinds: tuple[str, ...], name: str) -> None:
    """Raise UsageError, or FilterError, for a name of --columns that is neither a column nor a field."""
    if fields_of(request, kinds) is None:
        choose_columns(_columns(request), kinds, flat=name in ("csv", FOLDER_OUTPUT))


def fields_of(request: CommandRequest, kinds: tuple[str, ...]) -> FieldColumns | None:
    """Return the fields named by --columns, if any of them is not a column. Raises FilterError for a name that is neither."""
    if (names := _columns(request)) is None:
        return None
    known = {name for kind in kinds for name in column_names(kind)}.union(CHECKSUM_COLUMNS)
    if all(name in known for name in names):
        return None
    from pulsarscope.cli.commands.fields import catalogue  # most runs name columns
    from pulsarscope.filter import FilterError
    from pulsarscope.filter.field_columns import FieldColumns

    try:
        return FieldColumns(names, kinds, catalogue(), payload=request.payload or PAYLOAD_FORM)
    except FilterError:
        if all(name.isidentifier() for name in names if name not in known):
            return None  # the output refuses the name as a column
        raise


def with_payload(request: AnyRequest, kinds: tuple[str, ...]) -> AnyRequest:
    """Return the request, with payloads of messages if a field is made from them."""
    if request.payload is not None or MessageRow.kind not in kinds or (fields := fields_of(request, kinds)) is None:
        return request
    return msgspec.structs.replace(request, payload=PAYLOAD_FORM) if fields.reads_payload else request


def _columns(request: CommandRequest) -> tuple[str, ...] | None:
    columns = None if request.columns is None else names_in(request.columns)
    if columns == ():
        raise UsageError("--columns is empty")
    return columns


def run_options(request: CommandRequest, kinds: tuple[str, ...], row_filter: RowFilter | None) -> Options:
    """Return the options of the run. Raises UsageError when a command-line option is invalid."""
    run_kinds = {*kinds, "finding"}  # text shows findings where they occur, and damage is always reported
    if request.format is None:
        run_kinds.add("connection")  # text introduces connections
    elif row_filter is not None or fields_of(request, kinds) is not None:
        run_kinds |= with_addresses(frozenset(kinds))
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
        columns=not (request.hex or (request.once and not {FrameRow.kind, MessageRow.kind}.isdisjoint(kinds))),
        frames_alone=_takes_frames_alone(request, kinds),
        together=_takes_together(request, kinds),
        raw=request.hex,
        rules="finding" in kinds or request.fail_on != NEVER,
        anchors=request.once,
    )


def takes_columns(request: CommandRequest, name: str) -> bool:
    """Return True if the output of this name takes rows in columns, and `EntryMessages`."""
    return (name in COLUMN_OUTPUTS and (request.columns is None or name != FOLDER_OUTPUT)) or name == MESSAGES_OUTPUT


def _takes_frames_alone(request: CommandRequest, kinds: tuple[str, ...]) -> bool:
    """Return True if only frames are written, apart from lines of text about findings."""
    is_plain = not (request.once or request.hex or request.detail)
    return is_plain and request.fail_on == NEVER and kinds == (FrameRow.kind,)


def _takes_together(request: CommandRequest, kinds: tuple[str, ...]) -> bool:
    """Return True if the messages of an entry are written together."""
    name = output_name(request, kinds)
    in_lines = name in JSON_OUTPUTS or name == MESSAGES_OUTPUT
    return request.format == FOLDER_OUTPUT or (in_lines and load_native()[0] is not None)


def _message_columns(request: CommandRequest) -> tuple[str, ...] | None:
    """Return the columns of message rows that the output needs; None: all, as a filter may read any. The output refuses unknown ones.

    The compiled reader makes all of them in less time than some are made here.
    """
    if request.format is None or request.columns is None or request.filter is not None:
        return None
    kinds = record_kinds(request.records)
    if JourneyRow.kind in kinds or fields_of(request, kinds) is not None:
        return None
    known = column_names(MessageRow.kind)
    asked = tuple(dict.fromkeys(name for name in names_in(request.columns) if name in known))
    if _takes_together(request, kinds) and (request.payload is None or "payload" in asked):
        return None
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
