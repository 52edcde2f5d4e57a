"""Python processes in which Spark runs tasks, one after the other."""

from __future__ import annotations

import gc
from functools import cache

from pulsarscope.model.garbage_collection import collect_rarely


def prepare_process() -> None:
    """Make the garbage collector run rarely and skip our modules: Spark runs it over all objects after each task, which takes 40 ms."""
    collect_rarely()
    _pass_over_modules()


@cache  # cached, because the collector can only tell by counting all skipped objects
def _pass_over_modules() -> None:
    gc.freeze()
