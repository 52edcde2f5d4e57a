"""Processes of Python in which Spark runs tasks, one after the other."""

from __future__ import annotations

import gc
from functools import cache

COLLECT_EVERY_OBJECTS = 100_000
"""Threshold of the garbage collector, as on the command line: reference counts free rows, which have no cycles."""


def prepare_process() -> None:
    """Let the garbage collector run seldom and pass over our modules: Spark has it go over everything after each task, for 40 ms."""
    gc.set_threshold(COLLECT_EVERY_OBJECTS, 20, 20)
    _pass_over_modules()


@cache  # the collector would count all that it passes over to say whether it does
def _pass_over_modules() -> None:
    gc.freeze()
