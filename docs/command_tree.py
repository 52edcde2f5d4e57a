"""The commands with their options and arguments, and the possible values of each: the source of completion scripts and man pages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import typer

from pulsarscope.cli.arguments.application import app
from pulsarscope.cli.arguments.command_names import COMMANDS
from pulsarscope.cli.commands.fields import catalogue
from pulsarscope.cli.commands.help import TOPICS
from pulsarscope.cli.commands.registry import NOTES, OTHER
from pulsarscope.dissect.plugins.finding_catalogue import FindingEntry, finding_entries
from pulsarscope.dissect.plugins.registry import threshold_table
from pulsarscope.dissect.plugins.report_tables import report_tables
from pulsarscope.filter.reference import field_entries
from pulsarscope.model.records import ROWS
from pulsarscope.output.registry import column_names
from pulsarscope.protocols import make_dissectors

PROGRAM = "pulsarscope"

FLAG, ANY, FILE, FOLDER, WORD, LIST, FILTER, INTERFACE = "flag", "any", "file", "folder", "word", "list", "filter", "interface"
BEFORE, BEHIND, FILE_BEHIND = "before", "behind", "file-behind"


class Value(NamedTuple):
    """Values that a placeholder stands for."""

    form: str
    """FLAG: none. ANY: unknown. WORD: one of the words; LIST: several, separated by commas; FILTER: words in an expression.

    BEFORE, BEHIND: words before or after an equals sign; FILE_BEHIND: a file after it.
    """

    words: tuple[str, ...] = ()
    named: str = ""
    """Name of the list that contains the words, if it is one of `word_lists`."""


class Parameter(NamedTuple):
    """An option or an argument of a command."""

    names: tuple[str, ...]
    """Names as written, the short one first; none for an argument."""
    metavar: str
    help: str
    value: Value
    default: str = ""
    many: bool = False
    """True if it may be given several times."""
    required: bool = False


class Command(NamedTuple):
    """A command."""

    name: str
    summary: str
    description: str
    """The sentences below the summary; may be empty."""
    options: tuple[Parameter, ...]
    arguments: tuple[Parameter, ...]


_VALUES: Mapping[str, Value] = {
    "FILE": Value(FILE),
    "LOG": Value(FILE),
    "OUT": Value(FILE),
    "FILE.svg": Value(FILE),
    "FILE...": Value(FILE),
    "A": Value(FILE),
    "B": Value(FILE),
    "DIR": Value(FOLDER),
    "A,B": Value(LIST, named="columns"),
    "KIND,...": Value(LIST, named="kinds"),
    "FILTER": Value(FILTER, named="fields"),
    "FINDING": Value(WORD, named="findings"),
    "CODE": Value(WORD, named="findings"),
    "COMMAND": Value(WORD, named="commands"),
    "PREFIX": Value(WORD, named="fields"),
    "TOPIC": Value(WORD, named="topics"),
    "FINDING|any-error|FILTER": Value(WORD, named="triggers"),
    "PORT=DISSECTOR": Value(BEHIND, named="dissectors"),
    "TOPIC=FILE": Value(FILE_BEHIND),
    "none|dir|interface|REGEX": Value(WORD, ("none", "dir", "interface")),
    "SIZE|off": Value(WORD, ("off",)),
}
"""Values by the placeholder in the help; those of other placeholders are unknown."""

_VALUES_OF = {
    ("live", "interfaces"): Value(INTERFACE),
    ("stats", "by"): Value(LIST, named="sections"),
    ("registry", "by"): Value(LIST, named="registry_sections"),
}
"""Values by command and parameter, where the placeholder does not show them."""


@cache
def commands() -> tuple[Command, ...]:
    """Return all commands, in the order of the help."""
    group = typer.main.get_command(app)
    return tuple(_command(name, group.resolve_command(None, [name])[1]) for name in COMMANDS)  # type: ignore[attr-defined]


@cache
def findings() -> Mapping[str, FindingEntry]:
    """Return all findings by their codes."""
    return finding_entries(make_dissectors())


@cache
def word_lists() -> Mapping[str, tuple[str, ...]]:
    """Return the words of values by the names of their lists."""
    from pulsarscope.analysis.statistics import SECTIONS  # noqa: PLC0415 - beside the tables that complete it
    from pulsarscope.dissect.contract.dissector import Dissector  # noqa: PLC0415 - for its type

    dissectors: list[Dissector] = list(make_dissectors())
    registries = ("brokers", "topics", "consumers", "partitions", OTHER, NOTES)
    return {
        "commands": tuple(COMMANDS),
        "columns": tuple(sorted({name for kind in ROWS for name in column_names(kind)})),
        "dissectors": tuple(sorted(dissector.name for dissector in dissectors)),
        "fields": tuple(sorted({entry.name for entry in field_entries(catalogue()) if re.fullmatch(r"[\w.]+", entry.name)})),
        "findings": tuple(sorted(findings())),
        "kinds": (*ROWS, "all"),
        "registry_sections": registries,
        "sections": (*SECTIONS, *report_tables(dissectors)),
        "thresholds": tuple(sorted(threshold_table(dissectors))),
        "topics": (*TOPICS, *COMMANDS),
        "triggers": ("any-error", *sorted(findings())),
    }


def words_of(value: Value) -> tuple[str, ...]:
    """Return the possible words of a value."""
    return word_lists()[value.named] if value.named else value.words


def _command(name: str, command: Any) -> Command:
    summary, _, description = (command.help or "").partition("\n")
    options = tuple(_parameter(name, parameter) for parameter in command.params if parameter.param_type_name == "option")
    arguments = tuple(_parameter(name, parameter) for parameter in command.params if parameter.param_type_name == "argument")
    asked = Parameter(("-h", "--help"), "", "Show this message and exit.", Value(FLAG))
    return Command(name, summary.strip(), " ".join(description.split()), (*options, asked), arguments)


def _parameter(command: str, parameter: Any) -> Parameter:
    choices = tuple(getattr(parameter.type, "choices", ()))
    is_argument = parameter.param_type_name == "argument"
    is_flag = getattr(parameter, "is_flag", False)
    shown = not (is_argument or is_flag) and parameter.show_default and parameter.default not in (None, "", [])
    return Parameter(
        names=() if is_argument else tuple(sorted(parameter.opts, key=len)),
        metavar="" if is_flag else "|".join(choices) or parameter.metavar,
        help=parameter.help or "",
        value=_value(command, parameter, choices, is_flag=is_flag),
        default=str(parameter.default) if shown else "",
        many=parameter.nargs == -1 or bool(getattr(parameter, "multiple", False)),
        required=parameter.required,
    )


def _value(command: str, parameter: Any, choices: tuple[str, ...], *, is_flag: bool) -> Value:
    if is_flag:
        return Value(FLAG)
    if choices:
        return Value(WORD, choices)
    if parameter.name == "threshold":
        return Value(BEFORE, named="thresholds")
    return _VALUES_OF.get((command, parameter.name)) or _VALUES.get(parameter.metavar, Value(ANY))


def every_option() -> Iterator[tuple[str, str, Parameter]]:
    """Yield command, name and option for each name of each option."""
    for command in commands():
        for option in command.options:
            for name in option.names:
                yield command.name, name, option
