"""A progress bar on standard error, for long work on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pulsarscope.cli.standard_error import warn
from pulsarscope.model.platform import refused_native
from pulsarscope.output.render.style import is_terminal

if TYPE_CHECKING:
    from pulsarscope.capture import Inputs
    from pulsarscope.engine.local import PacketBatch, SelectedPackets
    from pulsarscope.engine.row_batch import RowBatch

DELAY_SECONDS = 0.5
"""Shorter work shows no bar."""

REFRESH_SECONDS = 0.1


AnyPart = TypeVar("AnyPart", bound="RowBatch | PacketBatch | SelectedPackets")
"""A part of a file that was read in one step."""


class ProgressBar:
    """A bar that shows the share of bytes read. Use it as a context around the work."""

    def __init__(self, paths: Sequence[str], total: int | None, *, enabled: bool) -> None:
        """Prepare the bar for files of `total` bytes altogether; None if unknown."""
        self._paths = paths
        self._total = total
        self._file = 0
        self._before = 0
        self._bar: Any = None
        self._task: Any = None
        self._next = time.monotonic() + DELAY_SECONDS if enabled and is_terminal(sys.stderr) else None

    def __enter__(self) -> ProgressBar:  # noqa: PYI034 - typing.Self is newer than Python 3.10
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the bar from the terminal."""
        if self._bar is not None:
            self._bar.stop()

    def advance(self, file: int, bytes_read: int) -> None:
        """Show that `bytes_read` bytes of the file at this position have been read, and all files before it."""
        if self._next is None:
            return
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + REFRESH_SECONDS
        if self._bar is None:
            self._start()
        while self._file < file:
            self._before += _size(self._paths[self._file])
            self._file += 1
        self._bar.update(self._task, completed=self._before + bytes_read)
        self._bar.refresh()

    def _start(self) -> None:
        _warn_of_reader()
        from rich import progress as rich_progress  # most runs end before a bar is due
        from rich.console import Console

        columns = (
            rich_progress.BarColumn(),
            rich_progress.DownloadColumn(),
            rich_progress.TransferSpeedColumn(),
            rich_progress.TimeRemainingColumn(),
        )
        # The bar is refreshed only between blocks: there is no thread, and nothing is drawn while a reader blocks the output.
        self._bar = rich_progress.Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
        self._task = self._bar.add_task("", total=self._total)
        self._bar.start()


def reading_progress(inputs: Inputs, *, quiet: bool) -> ProgressBar:
    """Return the bar of one reading of a run's inputs."""
    return ProgressBar(inputs.paths, inputs.sizes, enabled=not quiet)


def with_progress(inputs: Inputs, parts: Iterable[AnyPart], *, quiet: bool) -> Iterator[AnyPart]:
    """Yield the parts of one reading of a run's inputs, with a bar."""
    with reading_progress(inputs, quiet=quiet) as progress:
        for part in parts:
            yield part
            progress.advance(part.file, part.bytes_read)


@cache
def _warn_of_reader() -> None:
    """Warn once that long work is slower than necessary because the versions of the installed compiled reader and this package differ."""
    if reason := refused_native():
        warn(f"the compiled reader is not used: {reason}")


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0
