"""Command lines that are parsed without typer: known options, with valid values, of a command that reads captures.

Importing typer and describing a command to it takes a fifth of the start. typer parses and explains all other command lines.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from pulsarscope.cli.arguments.command_names import COMMANDS, function_of
from pulsarscope.inputs.config_paths import PROFILE, existing_paths
from pulsarscope.model.errors import INTERRUPTED, OutputError

if TYPE_CHECKING:
    import msgspec

OPTIONS_OF_TSHARK = frozenset({"-r", "-e", "-T", "-t", "-n", "-c", "-w", "-i", "-D", "-z", "-O", "-R", "-2", "-E"})

OPTIONS_OF_DECODE = OPTIONS_OF_TSHARK | {"-Y", "-V", "-x", "-f"}
"""Options that are understood without a command."""

DIGITS_MAX = 9
"""Longer numbers are left to typer: Python refuses to read very long ones."""

SHELL_COMPLETION = "_PULSARSCOPE_COMPLETE"
"""Environment variable with which a shell requests completions from typer."""


class NotPlainError(Exception):
    """The command line must be parsed by typer."""


def interrupted() -> OutputError:
    """Return the error for a signal that arrives before a command handles signals."""
    return OutputError(INTERRUPTED)


def is_for_decode(first: str) -> bool:
    """Return True for a first argument that stands in place of a command: a capture, or an option for one."""
    return first[:2] in OPTIONS_OF_DECODE or first == "-" or (first not in COMMANDS and not first.startswith("-") and _is_path(first))


def _is_path(name: str) -> bool:
    """Return True for the path of a file, which may be missing; False for a command."""
    return "." in name or "/" in name or os.path.exists(name)  # noqa: PTH110 - Path.exists raises for names that no file can have


def plain_command(arguments: Sequence[str]) -> Callable[[], int] | None:
    """Return a function that carries out a plain command line and returns the exit code; None for other command lines."""
    if not arguments or os.name == "nt" or PROFILE in os.environ or SHELL_COMPLETION in os.environ or existing_paths(os.environ):
        return None
    name, behind = arguments[0], arguments[1:]
    if name not in COMMANDS:
        if name.startswith("-") or not is_for_decode(name):
            return None
        name, behind = "decode", arguments
    if name == "decode" and any(argument[:2] in OPTIONS_OF_TSHARK for argument in behind):
        return None
    try:
        return _read(name, behind)
    except NotPlainError:
        return None


def _read(name: str, arguments: Sequence[str]) -> Callable[[], int]:
    """Return a function that carries out the command with these arguments. Raises NotPlainError."""
    if not any(argument and not argument.startswith("-") for argument in arguments):
        raise NotPlainError  # incomplete, or a request for help: do not import the command
    from pulsarscope.cli.arguments.options import answer_of  # for commands only

    function = function_of(name)
    made = PlainArguments(get_type_hints(function)["request"])
    made.read(arguments)
    request = made.request()
    return lambda: answer_of(function, request)


class PlainArguments:
    """A reader of the arguments of a command, by the class of its request."""

    def __init__(self, request: type[msgspec.Struct]) -> None:
        """Collect the options that the class declares. Raises NotPlainError when the command takes arguments other than captures."""
        self._request = request
        self._groups: dict[str, type[msgspec.Struct]] = {}
        self._known: dict[str, tuple[type[msgspec.Struct], msgspec.structs.FieldInfo, dict[str, Any]]] = {}
        self._values: dict[type[msgspec.Struct], dict[str, Any]] = {request: {}}
        self._files: list[str] = []
        self._takes_files = False
        self._declare(request)
        if not self._takes_files:
            raise NotPlainError

    def _declare(self, owner: type[msgspec.Struct]) -> None:
        from pulsarscope.cli.arguments.options import Files, fields_of  # as above

        for field, declaration in fields_of(owner):
            if declaration is None:
                self._groups[field.name] = field.type
                self._values[field.type] = {}
                self._declare(field.type)
            elif declaration.names:
                self._known |= dict.fromkeys(declaration.names, (owner, field, declaration.settings))
            elif field.type == Files and field.required:
                self._takes_files = True
            else:
                raise NotPlainError

    def read(self, arguments: Sequence[str]) -> None:
        """Read arguments. Raises NotPlainError."""
        remaining = iter(arguments)
        for argument in remaining:
            if argument[:1] != "-" or argument == "-":
                self._files.append(argument)
                continue
            name, equals, value = argument.partition("=")
            if name not in self._known or (equals and not name.startswith("--")):
                raise NotPlainError
            owner, field, settings = self._known[name]
            kind = _kind(field)
            if kind is not bool and not equals:
                value = next(remaining, "")
            self._take(self._values[owner], field.name, kind, value, settings, equals=bool(equals))

    def _take(self, values: dict[str, Any], name: str, kind: Any, value: str, settings: dict[str, Any], *, equals: bool) -> None:
        if kind is bool and not equals and name not in values:
            values[name] = True
        elif kind is bool or value == "" or (value.startswith("-") and value != "-" and not equals):
            raise NotPlainError
        elif get_origin(kind) is list:
            values.setdefault(name, []).append(_value(get_args(kind)[0], value, settings))
        elif name in values:
            raise NotPlainError
        else:
            values[name] = _value(kind, value, settings)

    def request(self) -> Any:
        """Return the request. Raises NotPlainError without captures."""
        if not self._files or "" in self._files:
            raise NotPlainError
        groups = {name: group(**self._values[group]) for name, group in self._groups.items()}
        return self._request(**{"files": self._files, **groups, **self._values[self._request]})


def _kind(field: msgspec.structs.FieldInfo) -> Any:
    """Return the type of the value of an option, without None."""
    kind = get_args(field.type)[0]
    if NoneType in (kinds := get_args(kind)) and len(kinds) == 2:
        return next(each for each in kinds if each is not NoneType)
    return kind


def _value(kind: Any, value: str, settings: dict[str, Any]) -> Any:
    """Return the value of an option. Raises NotPlainError for a value of another type, or one that is not allowed."""
    if kind is str or (get_origin(kind) is Literal and value in get_args(kind)):
        return value
    if kind is int and value.isascii() and value.isdecimal() and len(value) <= DIGITS_MAX:
        number = int(value)
        if settings.get("min", 0) <= number <= settings.get("max", number):
            return number
    raise NotPlainError
