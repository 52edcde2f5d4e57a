"""Processes of Python in which Spark runs tasks, one after the other."""

from __future__ import annotations

import gc

COLLECT_EVERY_OBJECTS = 100_000
"""Threshold of the garbage collector, as on the command line: reference counts free rows, which have no cycles."""


def prepare_process() -> None:
    """Let the garbage collector run seldom and pass over our modules: Spark has it go over everything after each task, for 40 ms."""
    gc.set_threshold(COLLECT_EVERY_OBJECTS, 20, 20)
    if not gc.get_freeze_count():
        gc.freeze()
