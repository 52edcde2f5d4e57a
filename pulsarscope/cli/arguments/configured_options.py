"""Defaults of a command's options from configuration files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from pulsarscope.cli.arguments.command_names import COMMANDS
from pulsarscope.cli.arguments.typed_command import in_plain_words
from pulsarscope.inputs.config_files import ConfigFile, Setting, read_config_file, settings
from pulsarscope.inputs.config_paths import existing_paths
from pulsarscope.model.errors import UsageError
from pulsarscope.model.text import hint_for, printable

COMMAND_LINE_ONLY = frozenset(
    {"help", "profile", "output", "write", "plot", "export", "list", "check", "compact", "finish", "incremental", "watch", "checkpoint"}
    | {"install", "remove", "lua"}
    | {"connection", "producer", "consumer", "topic", "message", "txn"}
)
"""Options that say what to do or where to write, not how."""

OF_THE_USER_ONLY = frozenset({"show-secrets", "conf", "master", "metrics", "redact-key", "anonymize-key"})
"""Options that a file in the working directory must not set, because anyone may have written it: they show or unmask secrets, run programs,
or listen on the network."""

ORIGINS = f"{__name__}.origins"
"""Key of the context's `meta`: the file and section of each default, by parameter."""

PATHS = frozenset({"FILE", "LOG", "DIR"})
"""Placeholders of options that are paths."""

PATH_BEHIND = "TOPIC=FILE"

_VIEWS, _LISTS = ("detail", "hex"), ("format", "columns")

GIVES_WAY = {"columns": (*_VIEWS, "records"), "format": _VIEWS, "detail": _LISTS, "hex": _LISTS}
"""Options whose default from a file applies only if the command line has none of the options that exclude them."""


def set_defaults(context: typer.Context, profile: str | None) -> None:
    """Give a command the defaults from configuration files, including those of a profile, if given. Raises UsageError for invalid ones."""
    defaults, _ = configured(context.command, str(context.info_name), read_files(), profile)
    context.default_map = {name: value for name, (value, _) in defaults.items()}
    context.meta[ORIGINS] = {name: setting.origin for name, (_, setting) in defaults.items()}


@contextmanager
def with_origins(context: typer.Context) -> Iterator[None]:
    """Add to a UsageError the origins of the command's defaults: one of them may be the cause."""
    try:
        yield
    except UsageError as error:
        origins = [origin for name, origin in context.meta[ORIGINS].items() if not _given(context, name)]
        if not origins:
            raise
        first, *rest = error.lines
        raise UsageError(f"{first} (options of {', '.join(dict.fromkeys(origins))} apply)", *rest) from None


def read_files() -> list[ConfigFile]:
    """Return the existing configuration files. Raises UsageError when one cannot be read."""
    return [read_config_file(path, local=local) for path, local in existing_paths(os.environ)]


def configured(
    command: Any, name: str, files: Sequence[ConfigFile], profile: str | None
) -> tuple[dict[str, tuple[Any, Setting]], dict[str, Setting]]:
    """Return the value of each configured parameter of a command, and the settings for options that it does not have.

    Raises UsageError for a value that the option does not accept, and for an unknown option in the command's own section.
    """
    parameters = configurable(command)
    found: dict[str, tuple[Any, Setting]] = {}
    others: dict[str, Setting] = {}
    for option, setting in settings(files, name, COMMANDS, profile).items():
        if (parameter := parameters.get(option)) is not None:
            if option in OF_THE_USER_ONLY and setting.local:
                raise UsageError(f"{setting.origin}: {option} can be set in your own configuration only, or on the command line")
            found[parameter.name] = _value(parameter, option, setting), setting
        elif setting.own:
            raise UsageError(f"{setting.origin}: {_refusal(option, name, list(parameters))}")
        else:
            others[option] = setting
    return found, others


def giving_way(values: Mapping[str, Any], context: typer.Context) -> dict[str, Any]:
    """Return the values of parameters, without defaults from files that the options on the command line exclude."""
    defaults = context.default_map or {}
    plain = {parameter.name: parameter.default for parameter in context.command.params}
    given = {name for name in values if _given(context, name)}
    yielding = {name for name, others in GIVES_WAY.items() if name in defaults and name not in given and not given.isdisjoint(others)}
    return {name: plain[name] if name in yielding else value for name, value in values.items()}


def _given(context: typer.Context, name: str) -> bool:
    """Return True for a parameter that is on the command line."""
    return (source := context.get_parameter_source(name)) is not None and source.name == "COMMANDLINE"


def configurable(command: Any) -> dict[str, Any]:
    """Return the options of a command that files may set, by their long names."""
    options = [parameter for parameter in command.params if parameter.param_type_name == "option"]
    named = {next((option[2:] for option in each.opts if option.startswith("--")), each.name.replace("_", "-")): each for each in options}
    return {name: option for name, option in named.items() if name not in COMMAND_LINE_ONLY}


def _refusal(option: str, command: str, known: Sequence[str]) -> str:
    if option in COMMAND_LINE_ONLY:
        return f"{option} is for the command line only"
    return f'{command} has no option "{printable(option)}"{hint_for(option, known, f"pulsarscope {command} --help lists them")}'


def _value(parameter: Any, option: str, setting: Setting) -> Any:
    """Return the value of an option as the command line would give it. Raises UsageError when the option does not accept it."""
    value = setting.value
    is_flag = getattr(parameter, "is_flag", False)
    if is_flag != isinstance(value, bool):
        wanted, other = ("true or false", "a value") if is_flag else ("a value", "true or false")
        raise UsageError(f"{setting.origin}: {option} takes {wanted}, not {other}")
    if is_flag:
        return value
    if isinstance(value, dict):
        value = [f"{name}={each}" for name, each in value.items()]
    entries = value if isinstance(value, list) else [value]
    if not all(isinstance(entry, (str, int, float)) for entry in entries):
        raise UsageError(f"{setting.origin}: {option} takes text, a number, or a list of them")
    texts = [_path(parameter.metavar, str(entry), setting) for entry in entries]
    given: Any = texts if parameter.multiple else ",".join(texts)
    try:
        parameter.type_cast_value(None, given)
    except Exception as error:
        if (message := getattr(error, "message", None)) is None:
            raise
        raise UsageError(f"{setting.origin}: {option}: {printable(in_plain_words(message, parameter.type))}") from None
    return given


def _path(metavar: str | None, text: str, setting: Setting) -> str:
    """Return the resolved path: `~` is the user's home, and relative paths start from the folder of the configuration file."""
    if metavar == PATH_BEHIND:
        topic, equals, path = text.partition("=")
        return f"{topic}{equals}{_path('FILE', path, setting)}" if path else text
    if metavar not in PATHS:
        return text
    path = os.path.expanduser(text)  # noqa: PTH111 - the text stays as it is written
    return path if setting.local or os.path.isabs(path) else str(Path(setting.folder) / path)  # noqa: PTH117 - as above
