"""The command line. The module of a command is imported when the command is used."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import NoReturn

from pulsarscope.cli.arguments.plain_arguments import interrupted, plain_command
from pulsarscope.cli.standard_error import warn
from pulsarscope.model.errors import OutputError, PulsarscopeError, UsageError, internal_error
from pulsarscope.model.platform import end_without_memory


def _show_warning(message: Warning | str, *_: object) -> None:
    """Show a Python warning as one line. Most warnings are about plug-ins that do not work."""
    warn(str(message))


def main() -> None:
    """Run the command line and exit: 0 done, 1 --fail-on, 2 usage, 3 no capture, 4 damaged input, 5 output incomplete, 6 fault."""
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    end_without_memory(tells=True)
    if sys.stdout is None:  # closed: typer would drop the help, and other writes would fail
        from pulsarscope.output.export.sink import ClosedStandardOutput

        sys.stdout = ClosedStandardOutput()
    standard_output = sys.stdout
    if sys.stdin is None:  # closed: use an empty one, so that no file opened later gets descriptor 0
        sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115 - until the end of the process
    try:
        run = plain_command(sys.argv[1:])
        if run is not None:
            sys.exit(run())
        from pulsarscope.cli.arguments.application import app

        app(prog_name="pulsarscope")
    except SystemExit:
        if sys.stdout is standard_output:
            raise
        sys.exit()  # typer replaced it because the reader of the help is gone; its exit code would mean a finding
    except PulsarscopeError as error:
        _exit_with(error)
    except KeyboardInterrupt:  # before a command takes signals itself
        _exit_with(interrupted())
    except BrokenPipeError:  # of standard error, while wrong usage is explained
        sys.exit(UsageError.exit_code)
    except OSError as error:  # from the help: all other output goes through a sink, which raises OutputError
        sys.stdout = None  # keeps the interpreter from flushing it again
        _exit_with(OutputError(f"cannot write standard output: {error.strerror}"))
    except BaseException as error:  # other people's code may raise some that are not an Exception, such as CancelledError
        if sys.flags.dev_mode:
            raise
        _exit_with(internal_error(error))


def _exit_with(error: PulsarscopeError) -> NoReturn:
    warn(*error.lines)
    sys.exit(error.exit_code)
