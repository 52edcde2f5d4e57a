"""Starting a run of the engine, in one process or several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pulsarscope.engine.options import Options
    from pulsarscope.engine.parallel import AnyRun, Prepare


def start_run(files: Sequence[str], options: Options, jobs: int, prepare: Prepare | None = None) -> AnyRun:
    """Open the captures for a run in `jobs` processes (0: one per core). Other processes prepare their rows with `prepare`."""
    from pulsarscope.engine import local  # a wrong command line is refused before anything heavy is imported

    if jobs == 1:
        return local.run(files, options)
    from pulsarscope.engine import parallel  # most runs use one process

    return parallel.run(files, options, jobs, prepare)
