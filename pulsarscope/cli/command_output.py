"""The output of a command: opened once there is something to write, and left whole or not at all whatever ends the command."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from pulsarscope.cli.exit_codes import EXIT_DONE, EXIT_INCOMPLETE
from pulsarscope.cli.signals import Interrupts
from pulsarscope.cli.standard_error import warn
from pulsarscope.model.errors import OutputError, UsageError
from pulsarscope.output.export.sink import Sink, open_sink


class CommandOutput:
    """The place that -o names, or standard output."""

    def __init__(self, interrupts: Interrupts) -> None:
        self.interrupts = interrupts
        self._sink: Sink | None = None

    def open(self, out: str | None, paths: Sequence[str], *, folder: bool = False) -> Sink:
        """Open the place, which must not be one of the captures at `paths`. Raises UsageError when it is, or OutputError."""
        refuse_own_input(out, paths)
        self._sink = open_sink(out, folder=folder)
        return self._sink

    def keep(self) -> str | None:
        """Keep the incomplete output of a command that cannot run again, and return its name."""
        sink, self._sink = self._sink, None
        if sink is None:
            return None
        with suppress(OutputError):
            sink.keep()
        return sink.unfinished

    def abandon(self) -> None:
        """Remove the incomplete output."""
        if self._sink is not None:
            self._sink.abandon()


def run_with_output(run: Callable[[CommandOutput], int]) -> int:
    """Run a command with its output and return its exit code. A closed pipe ends it quietly, a signal with a warning."""
    with Interrupts() as interrupts:
        output = CommandOutput(interrupts)
        try:
            return run(output)
        except BrokenPipeError:
            output.abandon()
            return EXIT_DONE
        except KeyboardInterrupt:
            output.abandon()
            return interrupted()
        except BaseException:
            output.abandon()
            raise


def interrupted() -> int:
    """Warn that the output is not complete, and return the exit code that says so."""
    warn("interrupted; the output is not complete")
    return EXIT_INCOMPLETE


def refuse_own_input(out: str | None, paths: Sequence[str]) -> None:
    """Raise UsageError when the output would overwrite a capture that is read."""
    for path in paths:
        with suppress(OSError):
            if out is not None and out != "-" and Path(out).samefile(path):
                raise UsageError(f"{out} is one of the captures: name another file with -o")
