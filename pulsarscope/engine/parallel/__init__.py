"""Captures in several processes: the rows, their order, and all reports are those of one process."""

from __future__ import annotations

from pulsarscope.engine.parallel.driver import AnyRun, ParallelRun, cores, run
from pulsarscope.engine.parallel.live_run import LiveRun
from pulsarscope.engine.parallel.worker import Prepare

__all__ = ["AnyRun", "LiveRun", "ParallelRun", "Prepare", "cores", "run"]
