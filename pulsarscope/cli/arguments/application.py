"""The command line for typer: all commands, each imported when it is used."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from pulsarscope.cli.arguments.command_names import COMMANDS
from pulsarscope.cli.arguments.plain_arguments import OPTIONS_OF_TSHARK, interrupted, is_for_decode
from pulsarscope.cli.arguments.typer_commands import SETTINGS, command_of


class CommandGroup(TyperGroup):
    """A group of commands that are listed with names and summaries, and imported when used."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {name: TyperCommand(name, help=summary) for name, summary in COMMANDS.items()}  # placeholders

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Treat a capture, or an option for one, in place of a command as arguments of `decode`."""
        if args and is_for_decode(args[0]):
            args = ["decode", *args]
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed

    def invoke(self, ctx: Any) -> Any:
        """Invoke a command; a signal during its import ends it in the same way as later."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise interrupted() from None

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Replace the placeholder of the given command by the command."""
        name, _, remaining = super().resolve_command(ctx, args)
        if name == "decode" and any(argument[:2] in OPTIONS_OF_TSHARK for argument in remaining):
            from pulsarscope.cli.arguments.tshark_options import from_tshark

            remaining = from_tshark(remaining)
        return name, command_of(str(name)), remaining


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
        from pulsarscope.model.platform import load_native  # not needed before

        typer.echo(f"pulsarscope {__version__}\nreader: {load_native()[1]}{_other_dissectors()}")
        raise typer.Exit


def _other_dissectors() -> str:
    """Return a line about dissectors of other packages; "" if there are none."""
    from pulsarscope.model.errors import UsageError
    from pulsarscope.protocols import DISSECTORS, make_dissectors

    try:
        others = ", ".join(f"{made.name} of {made.package}" for made in make_dissectors()[len(DISSECTORS) :])
    except UsageError as error:
        others = str(error)
    return others and f"\nother dissectors: {others}"


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
