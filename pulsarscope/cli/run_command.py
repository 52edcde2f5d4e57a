"""What the commands do: a run of the pipeline into one output, and the exit code."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from pulsarscope.cli.encoded_rows import Encoding
from pulsarscope.cli.progress import Progress
from pulsarscope.cli.reading import Reading
from pulsarscope.cli.signals import Interrupts
from pulsarscope.inputs.private_keys import read_key_files
from pulsarscope.model.errors import OutputError, UsageError
from pulsarscope.model.findings import SEVERITIES
from pulsarscope.model.limits import ROWS_MAX
from pulsarscope.model.records import ROWS, MessageRow, RawFrame
from pulsarscope.output.export.sink import STANDARD_OUTPUT, Sink, open_sink
from pulsarscope.output.registry import EncodedOutput, Output, OutputOptions, column_names, output
from pulsarscope.output.render.cell_text import escape
from pulsarscope.output.render.style import is_terminal, wants_color

if TYPE_CHECKING:
    from pulsarscope.engine.local import Batch, Options, Run
    from pulsarscope.filter import Filter, Narrowed, Story

EXIT_DONE = 0
EXIT_FINDING = 1
EXIT_DAMAGED = 4
EXIT_INCOMPLETE = 5

NEVER = "never"
FOLDER_OUTPUT = "parquet"
"""The output that writes a folder when there are several kinds of records."""


class Request(msgspec.Struct, frozen=True):
    """A command line, read."""

    files: tuple[str, ...]
    records: str = "frame"
    format: str | None = None
    detail: bool = False
    hex: bool = False
    out: str | None = None
    columns: str | None = None
    time: str = "relative"
    payload: str | None = None
    show_secrets: bool = False
    no_color: bool = False
    filter: str | None = None
    story: tuple[str, str] | None = None
    """What to follow: its kind and its name."""
    limit: int | None = None
    quiet: bool = False
    fail_on: str = NEVER
    reading: Reading = Reading()
    jobs: int = 1


def complain(text: str, *more: str) -> None:
    """One line on standard error, and more below it. Without a standard error there is nobody to tell."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write("\n".join((f"pulsarscope: {escape(text)}", *map(escape, more), "")))
        sys.stderr.flush()


def one_story(**named: str | None) -> tuple[str, str]:
    """What to follow, of the options that could name it.

    Raises:
        UsageError: none or several of them do.
    """
    given = [(kind, name) for kind, name in named.items() if name is not None]
    if len(given) != 1:
        options = ", ".join(f"--{kind}" for kind in named)
        message = f"what to follow? Give {'only one' if given else 'one'} of {options}"
        raise UsageError(message)
    return given[0]


def work(request: Request) -> int:
    """Carry out a request and return the exit code.

    Raises:
        UsageError: it cannot be carried out as asked.
        CaptureError: no input is a capture.
        OutputError: the result could not be written.
    """
    kinds = kinds_named(request.records)
    name = output_name(request, kinds)

    def carry_out(delivery: Delivery) -> int:
        chosen = _choice(request, kinds)
        encoding = encoding_of(request, kinds, name)
        # Rows are chosen and counted before they are encoded.
        run = _run(request, run_options(request, kinds, chosen), encoding if chosen is None and request.limit is None else None)
        sink = delivery.open(request.out, run.inputs.paths, folder=name == FOLDER_OUTPUT and len(kinds) > 1)
        made = output(name)(sink, output_options(request, kinds, run, chosen))
        return pour(request, kinds, run, chosen, made, encoding, sink, delivery.interrupts)

    return deliver(carry_out)


class Delivery:
    """Where a command's result goes, once the command knows that there will be one."""

    def __init__(self, interrupts: Interrupts) -> None:
        self.interrupts = interrupts
        self._sink: Sink | None = None

    def open(self, out: str | None, paths: Sequence[str], *, folder: bool = False) -> Sink:
        """The place that was asked for, which must not be one of the captures.

        Raises:
            UsageError: it is. OutputError: it cannot be written.
        """
        refuse_own_input(out, paths)
        self._sink = open_sink(out, folder=folder)
        return self._sink

    def keep(self) -> str | None:
        """Leave what there is, though it may end anywhere, and return under which name: it cannot be had again."""
        sink, self._sink = self._sink, None
        if sink is None:
            return None
        with suppress(OutputError):
            sink.keep()
        return sink.unfinished

    def abandon(self) -> None:
        """Leave nothing half done."""
        if self._sink is not None:
            self._sink.abandon()


def deliver(carry_out: Callable[[Delivery], int]) -> int:
    """Carry out a command and return its exit code. Whatever ends it early leaves no half result behind."""
    with Interrupts() as interrupts:
        delivery = Delivery(interrupts)
        try:
            return carry_out(delivery)
        except BrokenPipeError:
            # Whoever reads has seen enough: a closed pipe ends quietly.
            delivery.abandon()
            return EXIT_DONE
        except KeyboardInterrupt:
            delivery.abandon()
            complain("interrupted; the output is not complete")
            return EXIT_INCOMPLETE
        except BaseException:
            delivery.abandon()
            raise


def pour(
    request: Request,
    kinds: tuple[str, ...],
    run: Run,
    chosen: Filter | Story | Narrowed | None,
    made: Output,
    encoding: Encoding | None,
    sink: Sink,
    interrupts: Interrupts,
    watch: Callable[[Batch], None] | None = None,
) -> int:
    """Write what the run gives until it ends, the limit is reached or someone interrupts.

    `watch` gets the batches of a run whose packets come as they happen, and leaves in them what is to be put out, which is done at once.
    """
    at_once = watch is not None or (encoding is None and sink.name == STANDARD_OUTPUT and is_terminal(sys.stdout))
    progress = Progress(run.inputs.paths, run.inputs.sizes, wanted=watch is None and not request.quiet and _shows_progress(request))
    try:
        with progress, closing(limited(run, kinds, chosen, request.limit, watch)) as batches:
            for batch, rows in batches:
                with interrupts.deferred():
                    if encoding is None:
                        made.write(rows)
                    else:
                        encoded = encoding(batch.rows, rows) if batch.prepared is None else batch.prepared
                        for line in encoded.complaints:
                            complain(line)
                        cast("EncodedOutput", made).put(encoded.rows)
                    if at_once:
                        sink.flush()
                progress.advance(batch.file, batch.bytes_read)
    except KeyboardInterrupt:
        made.close()
        kept = sink.keep()
        complain(f"interrupted; what was decoded so far is in {kept}" if kept else "interrupted; the output is not complete")
        return EXIT_INCOMPLETE
    made.close()
    sink.finish()
    return exit_code(request.fail_on, run)


def exit_code(fail_on: str, run: Run) -> int:
    """The exit code of a run that was put out in full: damage before findings."""
    return EXIT_DAMAGED if run.damaged else failing_code(fail_on, run.severities)


def failing_code(fail_on: str, severities: Mapping[str, int]) -> int:
    """The exit code of a run without damage: whether a finding is as bad as --fail-on says, or worse."""
    bad = fail_on != NEVER and any(severities.get(severity) for severity in SEVERITIES[: SEVERITIES.index(fail_on) + 1])
    return EXIT_FINDING if bad else EXIT_DONE


def output_name(request: Request, kinds: tuple[str, ...]) -> str:
    """The output that a request asks for.

    Raises:
        UsageError: its options contradict each other.
    """
    views = "-V and -x" if request.detail and request.hex else "-V" if request.detail else "-x"
    if request.payload is not None and "message" not in kinds and not request.hex:
        message = "--payload is about messages: use the command messages, or --records frame,message"
        raise UsageError(message)
    if request.detail or request.hex:
        for option, given in (("--format", request.format), ("--columns", request.columns)):
            if given is not None:
                message = f"{views} {'is' if len(views) == 2 else 'are'} text for the eye: leave out {option}"
                raise UsageError(message)
        if "frame" not in kinds:
            message = f"{views} shows frames: add frame to --records"
            raise UsageError(message)
        return "tree" if request.detail else "hex"
    if request.format == FOLDER_OUTPUT and request.out is None and is_terminal(sys.stdout):
        message = "parquet is not for a terminal: name a file with -o"
        raise UsageError(message)
    if request.format is not None:
        return request.format
    if request.story is not None:
        return "lanes"
    if request.columns is not None:
        return "table"
    if "frame" in kinds:
        return "timeline"
    return "messages" if kinds == ("message",) else "table"


def kinds_named(records: str) -> tuple[str, ...]:
    """The kinds that --records names, in the order of the record table."""
    names = names_in(records)
    for name in names:
        if name not in ROWS and name != "all":
            from difflib import get_close_matches  # noqa: PLC0415 - only a mistake needs it

            near = get_close_matches(name, [*ROWS, "all"], 1)
            hint = f"; did you mean {near[0]}?" if near else f": there are {', '.join(ROWS)}, and all"
            message = f'no records are named "{name}"{hint}'
            raise UsageError(message)
    if not names:
        message = f"--records names no kind: there are {', '.join(ROWS)}, and all"
        raise UsageError(message)
    return tuple(kind for kind in ROWS if kind in names or "all" in names)


def _choice(request: Request, kinds: tuple[str, ...]) -> Filter | Story | Narrowed | None:
    """What chooses the rows: a story, or -Y."""
    if request.story is None:
        return filter_of(request, kinds)
    from pulsarscope.filter import Narrowed, Story  # noqa: PLC0415 - as below
    from pulsarscope.protocols import make_dissectors  # noqa: PLC0415 - as below

    story, chosen = Story(*request.story, make_dissectors()), filter_of(request, kinds)
    return story if chosen is None else Narrowed(story, chosen)


def filter_of(request: Request, kinds: tuple[str, ...]) -> Filter | None:
    """What -Y gives. Raises FilterError when it is no filter for rows of these kinds."""
    if request.filter is None:
        return None
    from pulsarscope.cli.fields import catalogue  # noqa: PLC0415 - most runs have no filter
    from pulsarscope.filter import Filter  # noqa: PLC0415 - as above

    return Filter(request.filter, kinds, catalogue(), payload=request.payload)


def encoding_of(request: Request, kinds: tuple[str, ...], name: str) -> Encoding | None:
    """How rows for programs are encoded; text has to see the rows themselves."""
    return None if request.format is None else Encoding(name, kinds, _columns(request), quiet=request.quiet)


def _columns(request: Request) -> tuple[str, ...] | None:
    columns = None if request.columns is None else names_in(request.columns)
    if columns == ():
        message = "--columns names no column"
        raise UsageError(message)
    return columns


def run_options(request: Request, kinds: tuple[str, ...], chosen: Filter | Story | Narrowed | None) -> Options:
    """What the run is asked for. Raises UsageError when what the command line says about it makes no sense."""
    wanted = set(kinds)
    if request.format is None:
        wanted |= {"connection", "finding"}  # text introduces connections and shows findings where they occur
    elif not request.quiet:
        wanted.add("finding")
    return msgspec.structs.replace(
        reading_options(request.reading),
        records=frozenset(wanted),
        show_secrets=request.show_secrets,
        payloads=request.format is None or request.fail_on != NEVER or not {"message", "finding"}.isdisjoint(kinds),
        payload=(request.payload if chosen is None else chosen.payload) if "message" in kinds else None,
        message_columns=_message_columns(request),
        rows_max=None if request.format is None else ROWS_MAX,  # a table's columns are as wide as the rows at once need
        together=request.format == FOLDER_OUTPUT and chosen is None and request.limit is None,  # rows are neither looked at nor counted
        raw=request.hex,
        rules="finding" in kinds or request.fail_on != NEVER,
    )


def _run(request: Request, options: Options, encoding: Encoding | None) -> Run:
    from pulsarscope.engine import local as pipeline  # noqa: PLC0415 - a wrong command line is told before anything heavy is imported

    if request.jobs == 1:
        return pipeline.run(request.files, options)
    from pulsarscope.engine import parallel as jobs  # noqa: PLC0415 - most runs are one process

    return jobs.run(request.files, options, request.jobs, encoding)


def _message_columns(request: Request) -> tuple[str, ...] | None:
    """The columns that an output for programs will ask of message rows; None for all: a filter may ask for any.

    The output tells which names are wrong.
    """
    if request.format is None or request.columns is None or request.filter is not None:
        return None
    known = column_names(MessageRow.kind)
    return tuple(dict.fromkeys(name for name in names_in(request.columns) if name in known)) or None


def names_in(listed: str) -> tuple[str, ...]:
    """The names in a list separated by commas."""
    return tuple(name.strip() for name in listed.split(",") if name.strip())


def reading_options(reading: Reading) -> Options:
    """What the command line said about how captures are read. Raises UsageError when it makes no sense."""
    from pulsarscope.engine.local import Options  # noqa: PLC0415 - as above
    from pulsarscope.inputs.key_logs import read_key_logs  # noqa: PLC0415 - as above
    from pulsarscope.inputs.schema_files import given_schemas  # noqa: PLC0415 - a wrong command line is told before anything heavy is imported
    from pulsarscope.protocols import schema_readers  # noqa: PLC0415 - as above

    return Options(
        ports=frozenset(reading.port or ()),
        decode_as=dict(map(_port_and_dissector, reading.decode_as or ())),
        key_logs=read_key_logs(reading.tls_keylog or ()),
        private_keys=read_key_files(reading.private_key or ()),
        schemas=given_schemas(map(_topics_and_file, reading.schema or ()), schema_readers),
        source_by=reading.source_by,
    )


def _topics_and_file(text: str) -> tuple[str, str]:
    """What --schema gives. Raises UsageError when it is not TOPIC=FILE."""
    topics, _, file = text.partition("=")
    if not (topics and file):
        message = f"--schema {text}: give a topic and a file, as in --schema orders=order.avsc"
        raise UsageError(message)
    return topics, file


def _port_and_dissector(text: str) -> tuple[int, str]:
    """What -d gives. Raises UsageError when it is not PORT=DISSECTOR."""
    port, _, dissector = text.partition("=")
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536 and dissector):
        message = f"-d {text}: give a port and a dissector, as in -d 16650=pulsar"
        raise UsageError(message)
    return int(port), dissector


def output_options(request: Request, kinds: tuple[str, ...], run: Run, chosen: Filter | Story | Narrowed | None) -> OutputOptions:
    """What the output has to know."""
    standard = request.out in (None, "-")
    stream = sys.stdout if standard else None
    return OutputOptions(
        kinds=kinds,
        run=run,
        columns=_columns(request),
        paths=tuple(run.inputs.paths),
        time=request.time,
        color=wants_color(stream, os.environ, request.no_color),
        width=shutil.get_terminal_size().columns if is_terminal(stream) else None,
        encoding=(getattr(stream, "encoding", None) or "utf-8") if standard else "utf-8",
        quiet=request.quiet,
        payload=request.payload,
        selection=chosen,
    )


def refuse_own_input(out: str | None, paths: Sequence[str]) -> None:
    """Raise UsageError when the output would overwrite a capture that is read."""
    for path in paths:
        with suppress(OSError):
            if out is not None and out != "-" and Path(out).samefile(path):
                message = f"{out} is one of the captures: name another file with -o"
                raise UsageError(message)


def _shows_progress(request: Request) -> bool:
    """Text that scrolls by, or goes to a pager, shows by itself that work goes on; a bar would spoil it."""
    return request.out not in (None, "-") or (request.format is not None and not is_terminal(sys.stdout))


def limited(
    run: Run,
    kinds: tuple[str, ...],
    chosen: Filter | Story | Narrowed | None,
    limit: int | None,
    watch: Callable[[Batch], None] | None = None,
) -> Generator[tuple[Any, list[Any]], None, None]:
    """The batches with the rows that the filter chose, until `limit` rows of the kinds asked for have passed."""
    left = limit
    with closing(iter(run)) as batches:
        for batch in batches:
            if watch is not None:
                watch(batch)
            rows: list[Any] = batch.rows if chosen is None else chosen.select(batch.rows, run.endpoints)
            if left is None:
                yield batch, rows
                continue
            for index, row in enumerate(rows):
                if type(row) is RawFrame or row.kind not in kinds:
                    continue
                if left == 0:
                    yield batch, rows[:index]
                    return
                left -= 1
            yield batch, rows
            if left == 0:
                return
