"""The work of `extract`: rows select packets, then the inputs are read once more to copy them."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

import msgspec

from pulsarscope import __version__
from pulsarscope.analysis.packet_selection import PacketSelection
from pulsarscope.cli.arguments.extract_request import ExtractRequest
from pulsarscope.cli.arguments.options import NEVER, CommandRequest
from pulsarscope.cli.arguments.read_options import engine_options, filter_of, record_kinds
from pulsarscope.cli.command_output import CommandOutput, with_output
from pulsarscope.cli.encoded_rows import damage, warn_of
from pulsarscope.cli.engine_run import start_run
from pulsarscope.cli.exit_codes import exit_code
from pulsarscope.cli.indexes import run_from_index
from pulsarscope.cli.progress import reading_progress, with_progress
from pulsarscope.cli.rereadable import rereadable
from pulsarscope.cli.selected_rows import SelectedRows
from pulsarscope.cli.standard_error import warn
from pulsarscope.engine.local import NO_STREAM, SelectedPackets, packets, some_packets
from pulsarscope.engine.options import Options
from pulsarscope.inputs.mask_keys import mask_key
from pulsarscope.model.errors import UsageError
from pulsarscope.model.limits import ROWS_MAX
from pulsarscope.model.ordered_rows import others, split
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FindingRow, FrameRow, Row, with_addresses
from pulsarscope.model.text import plural
from pulsarscope.output.export.pcapng import PcapngWriter
from pulsarscope.output.export.sink import Sink
from pulsarscope.output.render.style import is_terminal

if TYPE_CHECKING:
    from pulsarscope.cli.indexes import RowsRun
    from pulsarscope.engine.parallel import AnyRun
    from pulsarscope.filter import Filter
    from pulsarscope.redaction.packets import Redaction

IN_COLUMNS = frozenset({ConnectionRow.kind, ExchangeRow.kind, FindingRow.kind})
"""Kinds of records whose rows are made while frames stay in the columns of a compiled reader."""


@with_output
def write_packets(request: ExtractRequest, output: CommandOutput) -> int:
    """Copy the packets and return the exit code."""
    kinds = record_kinds(request.kinds or (ConnectionRow.kind if request.filter is None else FrameRow.kind))
    if request.out in (None, "-") and is_terminal(sys.stdout):
        raise UsageError("a capture cannot be written to a terminal: name a file with -o")

    row_filter = filter_of(request, kinds)
    redact = request.redact or request.mask_key is not None
    key = mask_key("--redact-key", request.mask_key) if redact else None
    with rereadable(request.files, output.interrupts) as files, ExitStack() as stack:
        options = _options(request, kinds, row_filter)
        redaction = None
        run: RowsRun
        copied: Iterable[SelectedPackets]
        # An index has neither the bytes of frames nor the findings of a run that a limit ends.
        indexed = key is None and request.limit is None
        if indexed and (by_index := run_from_index(files, options, row_filter, quiet=request.quiet)) is not None:
            run, sink = by_index, output.open(request, by_index.inputs.paths)
            selection = _select(request, kinds, row_filter, by_index, None)
            copied = by_index.selected(selection, all_flags=request.context)
        else:
            run = first = start_run(files, options, request.jobs)
            redaction = None if key is None else _redaction(key, first, stack)
            sink = output.open(request, first.inputs.paths)
            selection = _select(request, kinds, row_filter, first, redaction)
            if redaction is not None:
                copied = _redacted_packets(_redact(request, first, selection, redaction), selection, redaction)
            else:
                whole = first if request.limit is None else _annotate(request, kinds, first, selection)
                if whole.fragmented:  # a redacted packet is built anew and never fragmented
                    _select_fragments(request, whole, selection)
                copied = some_packets(whole.inputs, whole.starts, selection)
        _copy(request, run, selection, sink, copied, redaction)
        if not request.quiet:
            _warn_of_nothing(selection, kinds, row_filter)
    return exit_code(request.fail_on, run)


def _warn_of_nothing(selection: PacketSelection, kinds: tuple[str, ...], row_filter: Filter | None) -> None:
    """Say why a copy has no frames, if that is known."""
    if row_filter is not None:
        if (absence := row_filter.absence()) is not None:
            warn(absence)
    elif not selection.frames and not {ConnectionRow.kind, FrameRow.kind}.isdisjoint(kinds):
        warn("no frame of a known protocol was found: diagnose says why")


def _redaction(key: bytes, first: AnyRun, stack: ExitStack) -> Redaction:
    """Return the redaction of a run under a key. It keeps its data in a file, which the stack removes."""
    from tempfile import TemporaryFile

    from pulsarscope.redaction.packets import Redaction  # most copies are plain: 4 MiB less

    return Redaction(key, first, stack.enter_context(TemporaryFile(prefix="pulsarscope-")))


def _options(request: ExtractRequest, kinds: Sequence[str], row_filter: Filter | None) -> Options:
    """Return the options of the first run. It always yields the findings of reading, for packet comments."""
    rules = request.findings or FindingRow.kind in kinds or request.fail_on != NEVER
    of_run = frozenset(kinds) if row_filter is None else with_addresses(frozenset(kinds))
    columns = kinds == (FrameRow.kind,) if FrameRow.kind in kinds else IN_COLUMNS.issuperset(kinds)
    return msgspec.structs.replace(
        engine_options(request.reading),
        records=of_run | {FindingRow.kind},
        show_secrets=request.show_secrets,
        payloads=True,
        payload=None if row_filter is None else row_filter.payload,
        rows_max=ROWS_MAX,
        rules=rules,
        any_order=True,
        places=True,
        columns=columns,
        frames_alone=columns and kinds == (FrameRow.kind,) and not rules,
    )


def _frame_options(request: ExtractRequest, *, raw: bool = False) -> Options:
    """Return the options of a further run over all frames: in columns, or in rows with their bytes."""
    return msgspec.structs.replace(
        _options(request, (FrameRow.kind,), None),
        records=frozenset({FrameRow.kind}),
        payloads=False,
        rules=False,
        raw=raw,
        show_secrets=raw or request.show_secrets,
        columns=not raw,
        frames_alone=not raw,
    )


def _select(
    request: ExtractRequest, kinds: tuple[str, ...], row_filter: Filter | None, first: RowsRun, redaction: Redaction | None
) -> PacketSelection:
    """Read the captures for the rows that select packets; read them again if these only name frames or stand for several."""
    opening = frozenset[str]().union(*(dissector.opening for dissector in first.dissectors.values()))
    selection = PacketSelection(opening if request.context else None)
    with reading_progress(first.inputs, quiet=request.quiet) as progress:
        for batch, rows in SelectedRows(kinds, row_filter, request.limit).batches(first):
            for row in others(batch.rows):
                if isinstance(row, FindingRow) and redaction is None and request.limit is None:  # its text quotes the traffic
                    selection.annotate(row)
            warn_of(damage(others(batch.rows)), first.inputs.paths)
            ordered, selected = split(rows)
            if ordered is not None:  # frames in columns have passed the filter
                in_columns = redaction is None and selection.select_columns(ordered, first.endpoints, first)
                selected = [*(ordered.others() if in_columns else ordered.all()), *selected]
            if redaction is None and FrameRow.kind in kinds:
                selection.select_frames((row for row in selected if type(row) is FrameRow), first.endpoints, first)
                selected = [row for row in selected if type(row) is not FrameRow]
            for row in selected:
                if isinstance(row, Row) and row.kind in kinds and _may_select(row, row_filter, first, redaction):
                    selection.select(row, first.endpoints, first)
            progress.advance(batch.file, batch.bytes_read)
    if selection.needs_frames:
        second = first.again(_frame_options(request))
        for batch in with_progress(first.inputs, second, quiet=request.quiet):
            ordered, following = split(batch.rows)
            in_rows = [] if ordered is None else selection.resolve_columns(ordered, second.endpoints, second)
            for row in (*in_rows, *following):
                if isinstance(row, FrameRow):
                    selection.resolve(row, second.endpoints, second)
    return selection


def _may_select(row: Row, row_filter: Filter | None, run: RowsRun, redaction: Redaction | None) -> bool:
    """Return True if the packets of a row are copied: a row that the filter passes or, without a filter, one of a recognised connection."""
    if redaction is not None:
        return redaction.allows(row, run.dissector_of)
    return row_filter is not None or not isinstance(row, ConnectionRow) or row.dissector is not None


def _annotate(request: ExtractRequest, kinds: tuple[str, ...], first: AnyRun, selection: PacketSelection) -> AnyRun:
    """Read the captures for the findings, which come late for some packets: a limit ended the first run early. Return the run."""
    run = first.again(msgspec.structs.replace(_options(request, kinds, None), records=frozenset({FindingRow.kind}), columns=True))
    for batch in with_progress(first.inputs, run, quiet=request.quiet):
        for row in others(batch.rows):
            if isinstance(row, FindingRow):
                selection.annotate(row)
    return run


def _redact(request: ExtractRequest, first: AnyRun, selection: PacketSelection, redaction: Redaction) -> AnyRun:
    """Read the captures for the bytes of their frames, and return the run."""
    run = first.again(_frame_options(request, raw=True))
    for batch in with_progress(first.inputs, run, quiet=request.quiet):
        redaction.add(batch, run, selection.carries)
    return run


def _select_fragments(request: CommandRequest, run: AnyRun, selection: PacketSelection) -> None:
    """Select all IP fragments of selected packets. Fragments precede the packet that completes them, so this takes a separate reading."""
    file = 0
    fragments = array("q")  # of the current file
    selected: set[int] = set()
    for batch in with_progress(run.inputs, packets(run.inputs, run.starts), quiet=request.quiet):
        if batch.file != file:
            selection.select_packets(file, fragments)
            file, fragments, selected = batch.file, array("q"), set()
        completed = {number for _, number in batch.fragments}
        for record, place in batch.packets if completed else ():
            if record.number in completed and selection.comments(file, record.number, *(place or NO_STREAM)) is not None:
                selected.add(record.number)
        fragments.extend(fragment for fragment, number in batch.fragments if number in selected)
    selection.select_packets(file, fragments)


def _redacted_packets(run: AnyRun, selection: PacketSelection, redaction: Redaction) -> Iterator[SelectedPackets]:
    """Read the inputs once more, and yield the selected packets, built anew."""
    for batch in packets(run.inputs, run.starts):
        made = {packet.number: packet for packet in redaction.packets(batch)}
        found = []
        for record, place in batch.packets:
            if record.number not in made:
                continue
            if (lines := selection.comments(batch.file, record.number, *(place or NO_STREAM))) is not None:
                found.append((made[record.number].in_place_of(record), lines))
        yield SelectedPackets(batch.file, batch.bytes_read, batch.read, found)


def _copy(
    request: CommandRequest,
    run: RowsRun,
    selection: PacketSelection,
    sink: Sink,
    copied: Iterable[SelectedPackets],
    redaction: Redaction | None,
) -> None:
    """Write the selected packets, finish the output, and write a summary to standard error."""
    writer = PcapngWriter(sink, f"pulsarscope {__version__}", "" if redaction is None else redaction.comment)
    read = written = 0
    for batch in with_progress(run.inputs, copied, quiet=request.quiet):
        read += batch.read
        written += len(batch.packets) + (0 if batch.copied is None else len(batch.copied.compiled))
        writer.packets(batch.packets, batch.copied)
    sink.finish()
    if not request.quiet:
        unnamed = f" ({selection.unnamed:,} of them without a name in comments)" if selection.unnamed else ""
        frames = plural(selection.frames, "frame")
        total = run.packets if run.complete else read
        warn(f"{written:,} of {plural(total, 'packet')}, for {frames}{unnamed}, written to {sink.name}")
        plain = f"{sink.name} holds payloads and credentials: share a copy made with --redact"
        for line in ([plain] if written else []) if redaction is None else redaction.notes():
            warn(line)
