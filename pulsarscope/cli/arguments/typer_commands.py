"""Commands for typer, which shows their help and the errors of a command line."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from inspect import Parameter, Signature, get_annotations
from itertools import chain, takewhile
from typing import Annotated, Any, get_args, get_type_hints

import msgspec
import typer

from pulsarscope.cli.arguments.command_names import function_of
from pulsarscope.cli.arguments.declarations import Declaration, option
from pulsarscope.cli.arguments.options import AnyRequest, CommandRequest, answer_of, fields_of
from pulsarscope.cli.arguments.typed_command import TypedCommand
from pulsarscope.inputs.config_paths import PROFILE, existing_paths

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def command_of(name: str) -> Any:
    """Return a command with its options; its module is imported."""
    single = typer.Typer(add_completion=False, rich_markup_mode=None, context_settings=SETTINGS)
    single.command(name, cls=TypedCommand)(typer_command(function_of(name)))
    return typer.main.get_command(single)


def _configure(context: typer.Context, profile: str | None) -> str | None:
    """Take defaults from configuration files, if there are any, before the options are read."""
    if profile is not None or existing_paths(os.environ):
        from pulsarscope.cli.arguments.configured_options import set_defaults  # most runs have no configuration

        set_defaults(context, profile)
    return profile


ProfileOption = Annotated[
    str | None,
    option(
        "--profile",
        metavar="NAME",
        envvar=PROFILE,
        is_eager=True,
        callback=_configure,
        help="Take defaults from this profile of the configuration (see pulsarscope help configuration).",
    ),
]


def typer_command(function: Callable[[AnyRequest], int]) -> Callable[..., None]:
    """Adapt `function` to typer: it gets a parameter for each option of its request, and exits with its return value as the code."""
    request_class = get_type_hints(function)["request"]

    @wraps(function)
    def run(invocation: typer.Context, **values: Any) -> None:
        if not invocation.default_map:
            raise typer.Exit(answer(values))
        from pulsarscope.cli.arguments.configured_options import giving_way, with_origins  # most runs have no configuration

        with with_origins(invocation):
            raise typer.Exit(answer(giving_way(values, invocation)))

    def answer(values: dict[str, Any]) -> int:
        request: AnyRequest = _struct_of(request_class, values)
        return answer_of(function, request)

    own = {parameter.name: parameter for parameter in _parameters(request_class)}
    own.setdefault("profile", Parameter("profile", Parameter.KEYWORD_ONLY, default=None, annotation=_for_typer(ProfileOption)))
    parameters = [Parameter("invocation", Parameter.KEYWORD_ONLY, annotation=typer.Context), *own.values()]
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _parameters(options: type[msgspec.Struct]) -> Iterator[Parameter]:
    """Yield a keyword parameter for each option that a class or one of its groups of options declares."""
    for field, declaration in _in_order(options):
        if declaration is not None:
            yield Parameter(field.name, Parameter.KEYWORD_ONLY, default=_default(field), annotation=_for_typer(field.type))
        else:
            yield from _parameters(field.type)


def _struct_of(options: type[Any], values: Mapping[str, Any]) -> Any:
    """Return the options of a class and of its groups, with the values of its parameters."""
    fields = _in_order(options)
    own = {field.name: values[field.name] for field, declaration in fields if declaration is not None}
    return options(**own, **{field.name: _struct_of(field.type, values) for field, declaration in fields if declaration is None})


def _in_order(options: type[msgspec.Struct]) -> list[tuple[msgspec.structs.FieldInfo, Declaration | None]]:
    """Return the options of a class like `fields_of`: first its own, then those of its bases below `CommandRequest`."""
    classes = takewhile(lambda declaring: declaring not in (CommandRequest, msgspec.Struct), options.__mro__)
    known = {field.name: (field, declaration) for field, declaration in fields_of(options)}
    return [known[name] for name in dict.fromkeys(chain.from_iterable(map(get_annotations, classes))) if name in known]


def _for_typer(hint: Any) -> Any:
    """Return the annotation of an option with its declaration for typer."""
    kind, declaration = get_args(hint)
    declare = typer.Option if declaration.names else typer.Argument
    return Annotated[kind, declare(*declaration.names, **declaration.settings)]


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.required:
        return Parameter.empty
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
