"""The command `browse`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated

import msgspec

from pulsarscope.cli.arguments.declarations import option
from pulsarscope.cli.arguments.options import CommandRequest, Files, FilterOption, NoColorOption, ReadOptions, SecretsOption
from pulsarscope.cli.arguments.read_options import engine_options, filter_of
from pulsarscope.cli.engine_run import start_run
from pulsarscope.cli.exit_codes import EXIT_DAMAGED, EXIT_DONE
from pulsarscope.cli.indexes import find_index, index_keeper
from pulsarscope.cli.reports import diagnosis_of
from pulsarscope.model.errors import UsageError
from pulsarscope.model.platform import install_command
from pulsarscope.model.records import ConnectionRow, FindingRow, FrameRow, MessageRow
from pulsarscope.output.render.style import is_terminal, wants_color

if TYPE_CHECKING:
    from typing import BinaryIO

    from pulsarscope.browse.app import BrowseApp
    from pulsarscope.browse.browsed_capture import Browsed
    from pulsarscope.engine.parallel import AnyRun
    from pulsarscope.filter import Filter
    from pulsarscope.filter.field_columns import FieldColumns
    from pulsarscope.filter.fields import Catalogue


class BrowseRequest(CommandRequest, frozen=True, kw_only=True):
    """Options of `browse`."""

    files: Files
    filter: FilterOption = None
    show_secrets: SecretsOption = False
    no_color: NoColorOption = False
    index: Annotated[bool, option("--index", help="Keep the index beside the capture, as FILE.psidx, not in the cache.")] = False
    reading: ReadOptions = ReadOptions()


def browse(request: BrowseRequest) -> int:
    """Browse captures in the terminal.

    A list of frames that fills while they are read, fields and bytes of each, findings that lead to their frames.
    """
    if "-" in request.files:
        raise UsageError("browse reads captures again, and the keys come from standard input: name a file")
    require_screen()
    with TemporaryFile(prefix="pulsarscope-") as kept:
        app = browse_app(request, kept)
        app.run()
        if app.browsed.failure:
            raise UsageError(app.browsed.failure)
        return EXIT_DAMAGED if app.browsed.run.damaged else EXIT_DONE


def require_screen() -> None:
    """Raise UsageError without textual, or a terminal."""
    try:
        import textual  # noqa: F401 - the import is the test
    except ImportError as error:
        raise UsageError(f"browse needs textual: {install_command('tui')}") from error
    if not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
        raise UsageError("browse needs a terminal: decode writes the same to a file or a pipe")


def browse_app(request: BrowseRequest, kept: BinaryIO) -> BrowseApp:
    """Return the application, which keeps frames in the file `kept`. Raises UsageError or CaptureError."""
    from pulsarscope.browse.browsed_capture import Browsed
    from pulsarscope.browse.frame_store import FrameStore
    from pulsarscope.browse.indexed_frames import IndexedFrames
    from pulsarscope.cli.commands.fields import catalogue
    from pulsarscope.filter import Filter

    filter_of(request, (FrameRow.kind,))  # an invalid filter is an error of the command line
    options = msgspec.structs.replace(
        engine_options(request.reading),
        records=frozenset({FrameRow.kind, ConnectionRow.kind, FindingRow.kind}),
        show_secrets=request.show_secrets,
        rules=True,
    )
    run = start_run(request.files, options, 1)
    # An index is of captures alone, without findings about other files.
    index, identity = (None, None) if run.inputs.findings else find_index(run.inputs, options, quiet=False)

    def damaged(text: str) -> None:
        browsed.fail(text)

    known = cache(catalogue)  # made on use: opening a capture a second time does not wait for it
    browsed = Browsed(
        run,
        options,
        diagnosis_of(run, options),
        filter_maker(run, known),
        FrameStore(kept) if index is None else IndexedFrames(index, damaged),
        extract=_extract(request, run.inputs.paths),
        make_columns=columns_maker(known),
        message_filter=lambda text: Filter(text, (MessageRow.kind,), known(), payload="text"),
        keeper=None if identity is None or index is not None else index_keeper(identity, beside=request.index),
    )
    if index is not None:
        totals = index.totals
        run.start, run.packets, run.connections, run.damaged = totals.start, totals.packets, totals.connections, totals.damaged
        browsed.know([row for _, row in index.others], index.tables, index.portions)
    return screen_of(browsed, known, request.filter, no_color=request.no_color)


def filter_maker(run: AnyRun, known: Callable[[], Catalogue]) -> Callable[[str], Filter]:
    """Return a function that makes filters for the frames of a run."""
    from pulsarscope.filter import Filter

    def make_filter(text: str) -> Filter:
        made = Filter(text, (FrameRow.kind,), known())
        made.begin(run)
        return made

    return make_filter


def columns_maker(known: Callable[[], Catalogue]) -> Callable[[Sequence[str]], FieldColumns | None]:
    """Return a function that makes the chosen columns of frames."""
    from pulsarscope.filter.field_columns import FieldColumns

    return lambda names: FieldColumns(names, (FrameRow.kind,), known()) if names else None


def screen_of(browsed: Browsed, known: Callable[[], Catalogue], filter_text: str | None, *, no_color: bool) -> BrowseApp:
    """Return the screen that browses these frames."""
    from pulsarscope.browse.app import BrowseApp

    refusals = tuple(ending for dissector in browsed.run.dissectors.values() for ending in dissector.refusals)

    def names() -> list[str]:
        return sorted({*known().commands, *(name for name, _ in known().names(FrameRow.kind))})

    color = wants_color(sys.stdout, os.environ, no_color)
    return BrowseApp(browsed, names, refusals, color=color, filter_text=filter_text or "", choices=choices_path())


def choices_path() -> Path | None:
    """Return the file of the screen's choices, next to the user's configuration; None when there is no place for it."""
    from pulsarscope.inputs.config_paths import config_paths

    places = [path for path, local in config_paths(os.environ) if not local]
    return places[0].with_name("browse.json") if places else None


def _extract(request: BrowseRequest, paths: Sequence[str]) -> Callable[[str | None, str], str]:
    """Return a function that copies the packets of a filter to a path, as `extract` does."""

    def extract(filter_text: str | None, path: str) -> str:
        from pulsarscope.cli.arguments.extract_request import ExtractRequest  # rarely used
        from pulsarscope.cli.packet_copy import write_packets

        write_packets(ExtractRequest(files=list(paths), filter=filter_text, out=path, quiet=True, reading=request.reading))
        return f"written to {path}, with payloads and credentials"

    return extract
