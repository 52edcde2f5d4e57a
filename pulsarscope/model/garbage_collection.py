"""Garbage collection in processes that decode."""

from __future__ import annotations

import gc

COLLECT_EVERY_OBJECTS = 100_000
"""Rows are trees, which reference counts free; the collector's default of a look every 700 objects costs a tenth of a run."""


def collect_rarely() -> None:
    """Let the garbage collector run rarely."""
    gc.set_threshold(COLLECT_EVERY_OBJECTS, 20, 20)
