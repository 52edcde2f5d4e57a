"""The command `extract`: packets of what matches, as a capture. Rows choose, then the inputs are read once more and copied from."""

from __future__ import annotations

import shutil
import stat
import sys
from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import msgspec

from pulsarscope import __version__
from pulsarscope.analysis.packet_selection import Wanted
from pulsarscope.cli.encoded_rows import damage
from pulsarscope.cli.progress import Progress
from pulsarscope.cli.run_command import (
    EXIT_DONE,
    EXIT_INCOMPLETE,
    Request,
    complain,
    exit_code,
    filter_of,
    kinds_named,
    limited,
    reading_options,
    refuse_own_input,
)
from pulsarscope.cli.signals import Interrupts
from pulsarscope.engine.local import Options, PacketBatch, Run, packets, run
from pulsarscope.model.errors import CaptureError, UsageError
from pulsarscope.model.limits import ROWS_MAX
from pulsarscope.model.records import ConnectionRow, FindingRow, FrameRow, Row
from pulsarscope.output.export.pcapng import PcapngWriter
from pulsarscope.output.export.sink import Sink, opened_sink
from pulsarscope.output.render.style import is_terminal
from pulsarscope.output.render.view import count_text

if TYPE_CHECKING:
    from pulsarscope.filter import Filter

_STANDARD_INPUT = "-"

NOWHERE = (None, "", 0, 0, 0)
"""The place of a packet that is of no TCP connection."""


def extract(request: Request, *, context: bool = False) -> int:
    """Carry out a request and return the exit code. `context`: with the packets that open and close the connections.

    Without a filter all records asked for match; of connections those whose protocol is recognised.

    Raises:
        UsageError: it cannot be carried out as asked. CaptureError: no input is a capture. OutputError: the packets could not be written.
    """
    kinds = kinds_named(request.records)
    if request.out in (None, "-") and is_terminal(sys.stdout):
        message = "a capture is not for a terminal: name a file with -o"
        raise UsageError(message)
    with Interrupts():
        try:
            chosen = filter_of(request, kinds)
            with _rereadable(request.files) as files:
                first = run(files, _options(request, kinds, chosen))
                refuse_own_input(request.out, first.inputs.paths)
                with opened_sink(request.out) as sink:
                    wanted = _choose(request, kinds, chosen, first, context=context)
                    _copy(request, first, wanted, sink)
                    sink.finish()
                return exit_code(request.fail_on, first)
        except BrokenPipeError:
            return EXIT_DONE  # whoever reads has seen enough
        except KeyboardInterrupt:
            complain("interrupted; the output is not complete")
            return EXIT_INCOMPLETE


def _options(request: Request, kinds: Sequence[str], chosen: Filter | None) -> Options:
    """With all findings, whatever is asked for: comments tell them."""
    return msgspec.structs.replace(
        reading_options(request.reading),
        records=frozenset({*kinds, FindingRow.kind}),
        show_secrets=request.show_secrets,
        payloads=True,
        payload=None if chosen is None else chosen.payload,
        rows_max=ROWS_MAX,
        rules=True,
        places=True,
    )


@contextmanager
def _rereadable(files: Sequence[str]) -> Iterator[list[str]]:
    """The files, with copies of those that can be read only once: standard input and pipes."""
    with ExitStack() as stack:
        copies = {file: _copied(file, stack) for file in dict.fromkeys(files) if _reads_once(file)}
        yield [copies.get(file, file) for file in files]


def _reads_once(file: str) -> bool:
    try:
        return file == _STANDARD_INPUT or stat.S_ISFIFO(Path(file).stat().st_mode)
    except (OSError, ValueError):
        return False  # whoever reads it says what is wrong


def _copied(file: str, stack: ExitStack) -> str:
    """Path of a copy that lives as long as the stack.

    Raises:
        CaptureError: the file cannot be read, or not be kept.
    """
    standard = file == _STANDARD_INPUT
    try:
        place = Path(stack.enter_context(TemporaryDirectory(prefix="pulsarscope-"))) / "input"
        with place.open("wb") as copy, nullcontext(sys.stdin.buffer) if standard else Path(file).open("rb") as stream:
            shutil.copyfileobj(stream, copy)
    except OSError as error:
        name = "standard input" if standard else file
        message = f"{name} must be read twice, and a temporary copy of it cannot be made: {error.strerror or error}"
        raise CaptureError(message) from error
    return str(place)


def _choose(request: Request, kinds: tuple[str, ...], chosen: Filter | None, first: Run, *, context: bool) -> Wanted:
    """Read the capture for what is wanted, and once more if rows only name the frames, or stand for many."""
    opening = frozenset[str]().union(*(dissector.opening for dissector in first.dissectors.values()))
    wanted = Wanted(opening if context else None)
    with _progress(request, first) as progress:
        for batch, rows in limited(first, kinds, chosen, request.limit):
            for row in batch.rows:
                if isinstance(row, FindingRow):
                    wanted.tell(row)
            for line in () if request.quiet else damage(batch.rows):
                complain(line)
            for row in rows:
                if isinstance(row, Row) and row.kind in kinds and (chosen is not None or _is_known(row)):
                    wanted.take(row, first.endpoints, first)
            progress.advance(batch.file, batch.bytes_read)
    if wanted.needs_frames:
        options = msgspec.structs.replace(_options(request, (), None), records=frozenset({FrameRow.kind}), payloads=False, rules=False)
        second = Run(first.inputs, options)
        with _progress(request, first) as progress:
            for batch in second:
                for row in batch.rows:
                    if isinstance(row, FrameRow):
                        wanted.resolve(row, second.endpoints, second)
                progress.advance(batch.file, batch.bytes_read)
    if first.fragmented or not first.complete:
        _want_fragments(request, first, wanted)
    return wanted


def _want_fragments(request: Request, first: Run, wanted: Wanted) -> None:
    """Of a wanted packet that came in IP fragments all are wanted: they stand before it, hence a reading to find them."""
    file = 0
    parts = array("q")  # of that file
    whole: set[int] = set()
    with _progress(request, first) as progress:
        for batch in packets(first.inputs):
            if batch.file != file:
                wanted.take_packets(file, parts)
                file, parts, whole = batch.file, array("q"), set()
            joined = {number for _, number in batch.fragments}
            for record, place in batch.packets if joined else ():
                if record.number in joined and wanted.comments(file, record.number, *(place or NOWHERE)) is not None:
                    whole.add(record.number)
            parts.extend(part for part, number in batch.fragments if number in whole)
            progress.advance(file, batch.bytes_read)
    wanted.take_packets(file, parts)


def _is_known(row: Row) -> bool:
    """False for connections of other protocols."""
    return not isinstance(row, ConnectionRow) or row.dissector is not None


def _copy(request: Request, first: Run, wanted: Wanted, sink: Sink) -> None:
    """Write the wanted packets, and say how many."""
    writer = PcapngWriter(sink, f"pulsarscope {__version__}")
    read = written = 0
    with _progress(request, first) as progress:
        for batch in packets(first.inputs):
            read += len(batch.packets)
            written += _copy_block(batch, wanted, writer)
            progress.advance(batch.file, batch.bytes_read)
    if not request.quiet:
        nameless = f" ({wanted.nameless:,} of them not named in comments)" if wanted.nameless else ""
        complain(f"{written:,} of {count_text(read, 'packet')}, for {count_text(wanted.frames, 'frame')}{nameless}, written to {sink.name}")


def _copy_block(batch: PacketBatch, wanted: Wanted, writer: PcapngWriter) -> int:
    """How many packets of a block were wanted."""
    written = 0
    for record, place in batch.packets:
        lines = wanted.comments(batch.file, record.number, *(place or NOWHERE))
        if lines is not None:
            written += 1
            writer.packet(
                record.data,
                time=record.time,
                wire_bytes=record.wire_bytes,
                link_type=record.interface.link_type,
                snaplen=record.interface.snaplen,
                interface=record.interface.name,
                comment="\n".join(lines),
            )
    return written


def _progress(request: Request, run: Run) -> Progress:
    return Progress(run.inputs.paths, run.inputs.sizes, wanted=not request.quiet)
