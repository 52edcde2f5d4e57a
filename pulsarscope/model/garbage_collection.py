"""Garbage collection in processes that decode."""

from __future__ import annotations

import atexit
import gc

COLLECT_EVERY_OBJECTS = 100_000
"""Rows are trees, which reference counts free; the collector's default of a look every 700 objects costs a tenth of a run."""


def collect_rarely() -> None:
    """Let the garbage collector run rarely."""
    gc.set_threshold(COLLECT_EVERY_OBJECTS, 20, 20)


def end_without_collecting() -> None:
    """Let the garbage collector pass over everything when the process ends: its memory is given back anyway.

    It took a sixth of decoding a small capture. Functions of `atexit` and `weakref.finalize` run, standard streams are flushed, but an
    object that is still there is not deleted: what must be closed or removed is so before.
    """
    atexit.register(gc.freeze)
