"""The screen of `live --browse`: new frames as they arrive, and all earlier ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from pulsarscope.cli.commands.browse import columns_maker, filter_maker, require_screen, screen_of
from pulsarscope.cli.exit_codes import EXIT_DONE
from pulsarscope.cli.live_capture import LiveCapture
from pulsarscope.cli.reports import diagnosis_of, run_options
from pulsarscope.cli.standard_error import warn
from pulsarscope.model.errors import UsageError
from pulsarscope.model.records import ConnectionRow, FindingRow, FrameRow, MessageRow
from pulsarscope.model.text import STANDARD_INPUT

if TYPE_CHECKING:
    from pulsarscope.browse.app import BrowseApp
    from pulsarscope.cli.arguments.live_request import LiveRequest
    from pulsarscope.cli.live_capture import Trigger

KINDS = frozenset({FrameRow.kind, ConnectionRow.kind, FindingRow.kind, MessageRow.kind})


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
    from pulsarscope.browse.browsed_capture import Browsed
    from pulsarscope.browse.frame_store import FrameStore
    from pulsarscope.cli.commands.fields import catalogue
    from pulsarscope.filter import Filter

    known = cache(catalogue)
    if request.filter is not None:
        Filter(request.filter, (FrameRow.kind,), known())  # an invalid filter is an error of the command line
    followed = msgspec.structs.replace(request.reading, tls_keylog=None)  # the feed reads them while they grow
    options = run_options(msgspec.structs.replace(request, reading=followed), KINDS, rules=True)
    options = msgspec.structs.replace(options, live=True, payload="text")
    # Lines on standard error would spoil the screen.
    capture = LiveCapture(msgspec.structs.replace(request, quiet=True, jobs=1), options, KINDS, trigger)
    with closing(capture.feed):
        run = capture.start(options, None)

        browsed = Browsed(
            run,
            options,
            diagnosis_of(run, options),
            filter_maker(run, known),
            FrameStore(kept),
            extract=_refuse,
            make_columns=columns_maker(known),
            message_filter=lambda text: Filter(text, (MessageRow.kind,), known(), payload="text"),
            live=True,
            watch=capture.watch,
            stop=capture.feed.stop,
        )
        app = screen_of(browsed, known, request.filter, no_color=request.no_color)
        try:
            yield app, capture
        finally:
            capture.feed.stop()


def _refuse(_filter_text: str | None, _path: str) -> str:
    raise UsageError("packets of a live capture are saved with -w FILE, from its start")
