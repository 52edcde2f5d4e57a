"""Several capture files side by side, in several processes: the rows, their order and all that is said are those of one process.

Files that share a connection stay together (`plan`). Each process (`process`, and `child` inside of it) decodes its files in the order
of the list, and the rows are taken in that order (`side_by_side`); what a process has ready before its turn waits in a `spool`.
"""

from __future__ import annotations

from pulsarscope.engine.parallel.driver import Prepare, cores, run

__all__ = ["Prepare", "cores", "run"]
