"""The screen of `live --browse`: frames as they happen, with all that came before."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from pulsarscope.cli.browse import choices_path, require_screen
from pulsarscope.cli.exit_codes import EXIT_DONE
from pulsarscope.cli.live_capture import STANDARD_INPUT, LiveCapture
from pulsarscope.cli.reports import diagnosis_of, run_options
from pulsarscope.cli.standard_error import warn
from pulsarscope.model.errors import UsageError
from pulsarscope.model.records import ConnectionRow, FindingRow, FrameRow, MessageRow
from pulsarscope.output.render.style import wants_color

if TYPE_CHECKING:
    from pulsarscope.browse.app import BrowseApp
    from pulsarscope.cli.live import LiveRequest
    from pulsarscope.cli.live_trigger import Trigger

KINDS = frozenset({FrameRow.kind, ConnectionRow.kind, FindingRow.kind})


def live_browse(request: LiveRequest, trigger: Trigger | None) -> int:
    """Capture until the screen is left, and return the exit code."""
    if request.interface == STANDARD_INPUT:
        raise UsageError("--browse takes its keys from standard input: give an interface, or the path of a pipe")
    require_screen()
    with TemporaryFile(prefix="pulsarscope-") as kept, live_app(request, trigger, kept) as (app, capture):
        app.run()
    if app.browsed.failure:
        raise UsageError(app.browsed.failure)
    if not request.quiet:
        warn(capture.summary())
    if (failure := capture.feed.state.failure) is not None:
        raise failure
    return EXIT_DONE


@contextmanager
def live_app(request: LiveRequest, trigger: Trigger | None, kept: BinaryIO) -> Iterator[tuple[BrowseApp, LiveCapture]]:
    """Yield the screen of a capture, which keeps frames in a file, and the capture. Raises UsageError or OutputError."""
    from pulsarscope.browse.app import BrowseApp  # noqa: PLC0415 - help stays quick without it
    from pulsarscope.browse.capture import Browsed  # noqa: PLC0415 - as above
    from pulsarscope.browse.frame_store import FrameStore  # noqa: PLC0415 - as above
    from pulsarscope.cli.fields import catalogue  # noqa: PLC0415 - as above
    from pulsarscope.filter import Filter  # noqa: PLC0415 - as above
    from pulsarscope.filter.field_columns import FieldColumns  # noqa: PLC0415 - as above

    known = catalogue()
    if request.filter is not None:
        Filter(request.filter, (FrameRow.kind,), known)  # a wrong one is an error of the command line
    followed = msgspec.structs.replace(request.reading, tls_keylog=None)  # the feed reads them while they grow
    options = msgspec.structs.replace(run_options(msgspec.structs.replace(request, reading=followed), KINDS, rules=True), live=True)
    # What it says on standard error would spoil the screen.
    capture = LiveCapture(msgspec.structs.replace(request, quiet=True, jobs=1), options, KINDS, trigger)
    with closing(capture.feed):
        run = capture.start(options, None)

        def make_filter(text: str) -> Filter:
            made = Filter(text, (FrameRow.kind,), known)
            made.begin(run)
            return made

        browsed = Browsed(
            run,
            options,
            diagnosis_of(run, options),
            make_filter,
            FrameStore(kept),
            extract=_refuse,
            make_columns=lambda names: FieldColumns(names, (FrameRow.kind,), known) if names else None,
            message_filter=lambda text: Filter(text, (MessageRow.kind,), known),
            live=True,
            watch=capture.watch,
            stop=capture.feed.stop,
        )
        refusals = tuple(ending for dissector in run.dissectors.values() for ending in dissector.refusals)
        names = sorted({*known.commands, *(name for name, _ in known.names(FrameRow.kind))})
        color = wants_color(sys.stdout, os.environ, request.no_color)
        app = BrowseApp(browsed, names, refusals, color=color, filter_text=request.filter or "", choices=choices_path())
        try:
            yield app, capture
        finally:
            capture.feed.stop()


def _refuse(_filter_text: str | None, _path: str) -> str:
    raise UsageError("packets of a live capture are saved with -w FILE, from its start")
