"""Finding and making indexes of captures for commands."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pulsarscope.cli.standard_error import warn
from pulsarscope.model.command_limits import INDEX_USED_MIN_BYTES
from pulsarscope.model.errors import OutputError, UsageError, system_reason
from pulsarscope.model.limits import INDEX_CACHE_MAX_BYTES
from pulsarscope.model.records import FrameRow

if TYPE_CHECKING:
    from typing import TypeAlias

    from pulsarscope.browse.browsed_capture import Browsed
    from pulsarscope.capture import Inputs
    from pulsarscope.engine.options import Options
    from pulsarscope.engine.parallel import AnyRun
    from pulsarscope.filter import RowFilter
    from pulsarscope.index.identity import Identity
    from pulsarscope.index.reader import Index
    from pulsarscope.index.run import IndexRun
    from pulsarscope.index.writer import IndexWriter

    RowsRun: TypeAlias = AnyRun | IndexRun
    """A run that reads captures, or an index of them."""


_ABANDONED_SECONDS = 86_400
"""Time without a write after which an unfinished index counts as abandoned."""


def run_from_index(files: Sequence[str], options: Options, row_filter: RowFilter | None, *, quiet: bool) -> IndexRun | None:
    """Return a run that reads an index instead of the captures; None if there is no index, or it is of no use."""
    if row_filter is None or options.records.isdisjoint({FrameRow.kind}) or not _has_any(files):
        return None
    from pulsarscope.capture import expand_inputs  # most runs have no index
    from pulsarscope.filter import ChosenRows

    if isinstance(row_filter, ChosenRows):
        return None  # a copy has no index
    inputs = expand_inputs(files, options.source_by)
    if inputs.findings or _is_small(inputs):
        return None
    index = find_index(inputs, options, quiet=quiet)[0]
    if index is None:
        return None
    from pulsarscope.index.run import indexed_run

    return indexed_run(index, inputs, options, row_filter)


def find_index(inputs: Inputs, options: Options, *, quiet: bool) -> tuple[Index | None, Identity | None]:
    """Return the index of captures, if a valid one exists, and their identity, if they can have an index. Warn of unusable indexes."""
    from pulsarscope import __version__  # the package loads this module on its own
    from pulsarscope.index.identity import identity_of, is_there, places_of

    identity = identity_of(inputs.paths, options, __version__)
    if identity is None or find_spec("pyarrow") is None:
        return None, None
    places = [place for place in places_of(identity, os.environ) if is_there(place)]
    if not places:
        return None, identity
    try:
        from pulsarscope.index.reader import open_index  # pyarrow is slow to import
    except ImportError:
        return None, None
    index, refusals = open_index(places, identity)
    for refusal in refusals if not quiet else ():
        warn(f"{refusal}: it is not used; pulsarscope index makes a new one")
    return index, identity


class IndexKeeper:
    """A writer of an index while captures are browsed. If the index cannot be written, there is none."""

    def __init__(self, place: Path, identity: Identity) -> None:
        self._place: Path | None = place
        self._identity = identity
        self._writer: IndexWriter | None = None
        self.failure = ""

    def begin(self) -> None:
        """Open the file. Raises OSError when it cannot be written."""
        from pulsarscope.index.writer import IndexWriter  # pyarrow is slow to import: show the first rows before

        place, self._place = self._place, None
        if place is not None:
            self._writer = IndexWriter(place, self._identity)

    def add(self, rows: list[Any]) -> None:
        """Add rows; the first ones open the file."""
        with self._noting():
            self.begin()
            if self._writer is not None:
                self._writer.add(rows)

    def finish(self, browsed: Browsed, cancelled: Callable[[], bool]) -> None:
        """Move the index to its place, unless it is cancelled before."""
        from pulsarscope.engine.local import packets
        from pulsarscope.index.writer import IndexTotals

        run, writer = browsed.run, self._writer
        with self._noting():
            if writer is not None:
                for batch in packets(run.inputs, run.starts):
                    if cancelled():
                        return
                    writer.add_packets(batch)
                writer.finish(IndexTotals.of(run), [(name, browsed.table(name)) for name in browsed.tables])
                self._writer = None
                prune(writer.path.parent)

    def abandon(self) -> None:
        """Remove an unfinished index."""
        if self._writer is not None:
            self._writer.abandon()
            self._writer = None

    @contextmanager
    def _noting(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.failure = system_reason(error)
            self.abandon()


def index_keeper(identity: Identity, *, beside: bool) -> IndexKeeper | None:
    """Return a writer of an index of captures; None if there is no place for it."""
    from pulsarscope.index.identity import places_of

    places = places_of(identity, os.environ)
    if beside and len(identity.captures) != 1:
        raise UsageError("--index is for one capture: the index of several is in the cache")
    place = places[0] if beside else places[-1]
    if not beside and place.name.startswith(Path(identity.captures[0].path).name):
        return None  # no cache
    keeper = IndexKeeper(place, identity)
    if beside:
        try:
            keeper.begin()
        except OSError as error:
            raise OutputError(f"{place} cannot be written: {system_reason(error)}") from error
    return keeper


def prune(folder: Path) -> None:
    """Remove unfinished files of killed commands from the cache, and the oldest indexes until the others fit."""
    from pulsarscope.index.identity import SUFFIX, UNFINISHED, cache_folder

    if folder != cache_folder(os.environ):
        return
    with suppress(OSError):
        for path in folder.glob(f"*{UNFINISHED}"):
            if time.time() - path.stat().st_mtime > _ABANDONED_SECONDS:
                path.unlink(missing_ok=True)
        files = sorted(((path.stat().st_mtime, path.stat().st_size, path) for path in folder.glob(f"*{SUFFIX}")), reverse=True)
        size = 0
        for _, own, path in files:
            size += own
            if size > INDEX_CACHE_MAX_BYTES:
                path.unlink(missing_ok=True)


def _is_small(inputs: Inputs) -> bool:
    """Return True if the captures are decoded faster than an index is opened."""
    from pulsarscope.capture.formats.compression import COMPRESSED_SUFFIXES

    is_plain = not any(path.endswith(tuple(COMPRESSED_SUFFIXES)) for path in inputs.paths)
    return inputs.sizes is not None and inputs.sizes < INDEX_USED_MIN_BYTES and is_plain


def _has_any(files: Sequence[str]) -> bool:
    """Return quickly whether there may be an index at all."""
    from pulsarscope.index.identity import SUFFIX, cache_folder, is_there

    folder = cache_folder(os.environ)
    return (folder is not None and is_there(folder)) or any(is_there(Path(file + SUFFIX)) for file in files)
