"""The command `config`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pulsarscope.cli.arguments.command_names import COMMANDS
from pulsarscope.cli.arguments.configured_options import configurable, configured, read_files
from pulsarscope.cli.arguments.declarations import argument, option
from pulsarscope.cli.arguments.options import CommandRequest, NoColorOption
from pulsarscope.cli.arguments.typer_commands import ProfileOption
from pulsarscope.cli.command_output import CommandOutput, with_output
from pulsarscope.cli.exit_codes import EXIT_DONE
from pulsarscope.cli.reports import report_options
from pulsarscope.inputs.config_files import ConfigFile, Setting
from pulsarscope.inputs.config_paths import config_paths
from pulsarscope.model.errors import UsageError
from pulsarscope.model.text import escape, hint_for
from pulsarscope.output.render.text_report import TextColumn, TextReport

DEFAULT = "default"


class ConfigRequest(CommandRequest, frozen=True, kw_only=True):
    """Options of `config`."""

    command: Annotated[str | None, argument(metavar="COMMAND", help="Command whose options are shown.", show_default=False)] = None
    show: Annotated[bool, option("--show", help="Show the options that are set, with the place that sets each.")] = False
    no_color: NoColorOption = False
    profile: ProfileOption = None


class _Line(NamedTuple):
    command: str
    option: str
    value: str
    origin: str


@with_output
def config(request: ConfigRequest, output: CommandOutput) -> int:
    """Show the configuration and where each value comes from.

    Files are checked: unknown options and profiles are refused. --profile shows the values with that profile.
    """
    if request.command is not None and request.command not in COMMANDS:
        raise UsageError(f'unknown command "{escape(request.command)}"{hint_for(request.command, [*COMMANDS])}')
    files = read_files()
    lines = list(_lines(files, [*COMMANDS], request.profile))
    report = TextReport(report_options(request, ()))
    report.heading("files", "later ones win; PULSARSCOPE_CONFIG=off reads none")
    for path, _ in config_paths(os.environ):
        report.paragraph(f"{escape(str(path))}: {_state(files, path)}", 2, hang=2)
    if request.command is not None:
        lines = [line for line in lines if line.command == request.command] + _defaults(request.command, lines)
    if request.show or request.command is not None:
        report.heading("options")
        cells = [[escape(cell) for cell in column] for column in zip(*lines, strict=True)] or [[]] * len(_Line._fields)
        report.table(
            [
                TextColumn(name, column, right=False, name=name in {"value", "from"}, kept=True)
                for name, column in zip(("command", "option", "value", "from"), cells, strict=True)
            ]
        )
        if not lines:
            report.paragraph("none is set", 2)
    output.write(request, report.text())
    return EXIT_DONE


def _lines(files: Sequence[ConfigFile], commands: Sequence[str], profile: str | None) -> Iterator[_Line]:
    """Yield the configured options by command. Raises UsageError for an option that no command has."""
    from pulsarscope.cli.arguments.typer_commands import command_of

    unknown: dict[str, Setting] | None = None
    known: set[str] = set()
    for name in commands if files else ():
        command = command_of(name)
        found, others = configured(command, name, files, profile)
        known.update(configurable(command))
        unknown = others if unknown is None else {name: setting for name, setting in unknown.items() if name in others}
        for own, parameter in configurable(command).items():
            if parameter.name in found:
                value, setting = found[parameter.name]
                yield _Line(name, own, _text(value), setting.origin)
    for other, setting in (unknown or {}).items():
        raise UsageError(f'{setting.origin}: no command has the option "{escape(other)}"{hint_for(other, sorted(known), "see --help")}')


def _defaults(command: str, lines: Sequence[_Line]) -> list[_Line]:
    from pulsarscope.cli.arguments.typer_commands import command_of

    given = {line.option for line in lines if line.command == command}
    options = configurable(command_of(command))
    return [_Line(command, option, _text(parameter.default), DEFAULT) for option, parameter in options.items() if option not in given]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return " ".join(value) if isinstance(value, (list, tuple)) else "" if value is None else str(value)


def _state(files: Sequence[ConfigFile], path: Path) -> str:
    file = next((file for file in files if file.path == path), None)
    if file is None:
        return "not there"
    return f"read, profiles: {', '.join(map(escape, file.profiles()))}" if file.profiles() else "read"
