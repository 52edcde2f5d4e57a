"""Processes of Python in which Spark runs tasks, one after the other."""

from __future__ import annotations

import gc
from functools import cache

from pulsarscope.model.garbage_collection import collect_rarely


def prepare_process() -> None:
    """Make the garbage collector run rarely and skip our modules: Spark runs it over everything after each task, which takes 40 ms."""
    collect_rarely()
    _pass_over_modules()


@cache  # the collector would count all that it passes over to say whether it does
def _pass_over_modules() -> None:
    gc.freeze()
