"""The command line. The module of a command is imported when the command is given."""

from __future__ import annotations

import os
import sys
import warnings
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from pulsarscope.cli.command_names import COMMANDS
from pulsarscope.cli.standard_error import warn
from pulsarscope.model.errors import OutputError, PulsarscopeError, UsageError, internal_error

OPTIONS_OF_TSHARK = frozenset({"-r", "-e", "-T", "-t", "-n", "-c", "-w", "-i", "-D", "-z", "-O", "-R", "-2", "-E"})

OPTIONS_OF_DECODE = OPTIONS_OF_TSHARK | {"-Y", "-V", "-x", "-f"}
"""Options that are understood before any command."""

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class CommandGroup(TyperGroup):
    """Commands that are listed by their names and summaries, and imported when one of them is given."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {name: TyperCommand(name, help=summary) for name, summary in COMMANDS.items()}  # in their place

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take a capture, or an option for one, in the place of a command for `decode`."""
        first = args[0] if args else ""
        if first[:2] in OPTIONS_OF_DECODE or first == "-" or (first not in COMMANDS and not first.startswith("-") and _is_path(first)):
            args = ["decode", *args]
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed

    def invoke(self, ctx: Any) -> Any:
        """Invoke a command; a signal that comes while it is imported ends it as it does later."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise _interrupted() from None

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Replace the placeholder of the command that is given by the command."""
        name, _, remaining = super().resolve_command(ctx, args)
        if name == "decode" and any(argument[:2] in OPTIONS_OF_TSHARK for argument in remaining):
            from pulsarscope.cli.tshark_options import from_tshark

            remaining = from_tshark(remaining)
        return name, command_of(str(name)), remaining


def _interrupted() -> OutputError:
    """Return the error for a signal that comes before a command handles signals itself."""
    return OutputError("interrupted; there is no output")


def command_of(name: str) -> Any:
    """Return a command with its options; its module is imported."""
    from pulsarscope.cli.options import typer_command
    from pulsarscope.cli.typed_command import TypedCommand

    single = typer.Typer(add_completion=False, rich_markup_mode=None, context_settings=SETTINGS)
    single.command(name, cls=TypedCommand)(typer_command(getattr(import_module(f"pulsarscope.cli.{name}"), name)))
    return typer.main.get_command(single)


def _is_path(name: str) -> bool:
    """Return True for a file, which may be missing, and False for a command."""
    return "." in name or "/" in name or os.path.exists(name)  # noqa: PTH110 - Path.exists raises for names that no file can have


app = typer.Typer(
    name="pulsarscope",
    cls=CommandGroup,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings=SETTINGS,
)


def _show_version(value: bool) -> None:
    if value:
        from pulsarscope import __version__  # the package loads this module on its own
        from pulsarscope.model.platform import load_native  # of little use before

        typer.echo(f"pulsarscope {__version__}\nreader: {load_native()[1]}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _pulsarscope(
    context: typer.Context,
    *,
    version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Inspect the traffic between Apache Pulsar clients and brokers, from packet captures."""
    del version  # handled by its callback
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(2)


def _show_warning(message: Warning | str, *_: object) -> None:
    """Show a Python warning as one line: mostly of plug-ins that do not work."""
    warn(str(message))


def main() -> None:
    """Run the command line and exit: 0 done, 1 --fail-on, 2 usage, 3 no capture, 4 damaged input, 5 output not complete, 6 fault."""
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    if sys.stdout is None:  # closed: typer would drop the help, and others would fail
        from pulsarscope.output.export.sink import ClosedStandardOutput

        sys.stdout = ClosedStandardOutput()
    standard_output = sys.stdout
    if sys.stdin is None:  # closed: an empty one, or a file that is opened later would be descriptor 0
        sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115 - until the end of the process
    try:
        app(prog_name="pulsarscope")
    except SystemExit:
        if sys.stdout is standard_output:
            raise
        sys.exit()  # typer replaced it because the reader of the help is gone; its exit code would mean a finding
    except PulsarscopeError as error:
        _exit_with(error)
    except KeyboardInterrupt:  # before a command takes signals itself
        _exit_with(_interrupted())
    except BrokenPipeError:  # of standard error, while wrong usage is explained
        sys.exit(UsageError.exit_code)
    except OSError as error:  # from the help: all other output goes through a sink, which raises OutputError
        sys.stdout = None  # keeps the interpreter from flushing it again
        _exit_with(OutputError(f"cannot write standard output: {error.strerror}"))
    except BaseException as error:  # some that other people's code raises are no Exception, as CancelledError
        if sys.flags.dev_mode:
            raise
        _exit_with(internal_error(error))


def _exit_with(error: PulsarscopeError) -> NoReturn:
    warn(*error.lines)
    sys.exit(error.exit_code)
