"""A run of a capture that another program is still writing (--follow-file)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pulsarscope.cli.arguments.options import CommandRequest
from pulsarscope.cli.standard_error import warn
from pulsarscope.model.errors import UsageError
from pulsarscope.model.text import printable
from pulsarscope.output.export.sink import identity

if TYPE_CHECKING:
    from pulsarscope.engine.local import Run
    from pulsarscope.engine.options import Options


@contextmanager
def growing_run(request: CommandRequest, options: Options) -> Iterator[Run]:
    """Yield a run of the single file of a request; a signal ends the run, and a second one interrupts it. Raises UsageError."""
    from pulsarscope.capture import Inputs
    from pulsarscope.cli.signals import stopped
    from pulsarscope.engine.local import Run
    from pulsarscope.live.growing_file import FollowedBlocks

    path = request.files[0]
    if len(request.files) > 1 or path == "-" or (identity(path) is not None and not Path(path).is_file()):
        raise UsageError("--follow-file takes one file; for a pipe, use live -i -")
    followed = FollowedBlocks(path, lambda line: None if request.quiet else warn(printable(line)))
    if not request.quiet:
        warn(f"{'waiting for' if identity(path) is None else 'following'} {printable(path)}, until Ctrl-C")
    with closing(followed), stopped(followed, None):
        yield Run(Inputs(followed.paths, None, []), options, followed)


def check_growing(request: CommandRequest) -> None:
    """Raise UsageError when --follow-file is given with an option that cannot be combined with it."""
    if not request.follow_file:
        return
    others = {
        "--jobs": request.jobs != 1,
        "--tail": request.tail is not None,
        "--redact": request.redact or request.mask_key is not None,
        "--raw": request.raw_streams,
        "--hexdump": request.hexdump,
        "--source-by": request.reading.source_by != "none",
    }
    if conflicts := [option for option, is_set in others.items() if is_set]:
        raise UsageError(f"--follow-file cannot be combined with {', '.join(conflicts)}")
