"""Processes of Python in which Spark runs tasks, one after the other."""

from __future__ import annotations

import gc
from functools import cache

from pulsarscope.model.garbage_collection import collect_rarely


def prepare_process() -> None:
    """Let the garbage collector run rarely and pass over our modules: Spark has it go over everything after each task, for 40 ms."""
    collect_rarely()
    _pass_over_modules()


@cache  # the collector would count all that it passes over to say whether it does
def _pass_over_modules() -> None:
    gc.freeze()
