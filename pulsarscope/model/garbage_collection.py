"""Garbage collection in processes that decode."""

from __future__ import annotations

import atexit
import gc

COLLECT_EVERY_OBJECTS = 100_000
"""Objects between two collections. Rows are trees, freed by reference counts; the collector's default of 700 costs a tenth of a run."""


def collect_rarely() -> None:
    """Make the garbage collector run rarely."""
    gc.set_threshold(COLLECT_EVERY_OBJECTS, 20, 20)


def end_without_collecting() -> None:
    """Let the garbage collector skip all objects when the process ends: its memory is returned anyway.

    Collection took a sixth of the time to decode a small capture. Functions of `atexit` and `weakref.finalize` still run, and standard
    streams are flushed, but remaining objects are not deleted: whatever must be closed or removed has to be so before.
    """
    atexit.register(gc.freeze)
