"""Indexes of captures, as commands find and make them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pulsarscope.cli.standard_error import warn
from pulsarscope.model.records import FrameRow

if TYPE_CHECKING:
    from typing import TypeAlias

    from pulsarscope.capture import Inputs
    from pulsarscope.engine.options import Options
    from pulsarscope.engine.parallel import AnyRun
    from pulsarscope.filter import RowFilter
    from pulsarscope.index.identity import Identity
    from pulsarscope.index.reader import Index
    from pulsarscope.index.run import IndexRun

    RowsRun: TypeAlias = AnyRun | IndexRun
    """A run that reads captures, or an index of them."""


def run_from_index(files: Sequence[str], options: Options, row_filter: RowFilter | None, *, quiet: bool) -> IndexRun | None:
    """Return a run that reads an index instead of the captures; None when there is none, or it does not tell what the filter asks."""
    if row_filter is None or options.records.isdisjoint({FrameRow.kind}) or not _has_any(files):
        return None
    from pulsarscope.capture import expand_inputs  # noqa: PLC0415 - most runs have no index
    from pulsarscope.index.run import indexed_run  # noqa: PLC0415 - as above

    inputs = expand_inputs(files, options.source_by)
    index = None if inputs.findings else find_index(inputs, options, quiet=quiet)[0]
    return None if index is None else indexed_run(index, inputs, options, row_filter)


def find_index(inputs: Inputs, options: Options, *, quiet: bool) -> tuple[Index | None, Identity | None]:
    """Return the index of captures, if one can be trusted, and their identity, if they may have one. Says why others cannot."""
    from pulsarscope import __version__  # noqa: PLC0415 - the package loads this module on its own

    try:
        from pulsarscope.index.identity import identity_of, places_of  # noqa: PLC0415 - as above
        from pulsarscope.index.reader import open_index  # noqa: PLC0415 - pyarrow is an extra
    except ImportError:
        return None, None
    identity = identity_of(inputs.paths, options, __version__)
    if identity is None:
        return None, None
    index, refusals = open_index(places_of(identity, os.environ), identity)
    for refusal in refusals if not quiet else ():
        warn(f"{refusal}: it is not used")
    return index, identity


def _has_any(files: Sequence[str]) -> bool:
    """Tell quickly whether there may be an index at all."""
    from pulsarscope.index.identity import SUFFIX, cache_folder  # noqa: PLC0415 - as above

    folder = cache_folder(os.environ)
    return (folder is not None and folder.is_dir()) or any(Path(file + SUFFIX).exists() for file in files)
