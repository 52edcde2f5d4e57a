"""How captures are read: the options of every command that reads them, declared once."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, NamedTuple, get_type_hints

import typer


class Reading(NamedTuple):
    """What such a command was told."""

    port: Annotated[
        list[int] | None,
        typer.Option("--port", min=1, max=65_535, metavar="N", help="Take server port N for Pulsar, whatever its bytes say; repeatable."),
    ] = None
    decode_as: Annotated[
        list[str] | None,
        typer.Option("-d", "--decode-as", metavar="PORT=DISSECTOR", help="Take a port for a protocol, as in 9093=kafka07; repeatable."),
    ] = None
    tls_keylog: Annotated[
        list[str] | None,
        typer.Option("--tls-keylog", metavar="LOG", help="Read TLS with the secrets of this key log (SSLKEYLOGFILE); repeatable."),
    ] = None
    private_key: Annotated[
        list[str] | None,
        typer.Option("--private-key", metavar="FILE", help="Open messages encrypted for this RSA key (PEM, DER); repeatable."),
    ] = None
    schema: Annotated[
        list[str] | None,
        typer.Option("--schema", metavar="TOPIC=FILE", help="Read the payloads of a topic by this schema (docs/schemas.md); repeatable."),
    ] = None
    source_by: Annotated[
        str,
        typer.Option(
            "--source-by",
            metavar="none|dir|interface|REGEX",
            help="Tell vantage points apart: hosts by the folder or what a REGEX finds in the path of a capture, or interfaces.",
        ),
    ] = "none"


def reads_captures(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command, which takes a `reading: Reading`, each of its options instead."""

    @wraps(command)
    def heeding(**given: Any) -> None:
        if given["quiet"]:
            warnings.simplefilter("ignore")
        command(**given)

    return gathers("reading", Reading)(heeding)


def gathers(name: str, options: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command that takes a tuple of options under this name each of them instead: typer reads signatures."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        types = get_type_hints(options, include_extras=True)
        own = [parameter for parameter in signature.parameters.values() if parameter.name != name]
        gathered = [
            inspect.Parameter(field, inspect.Parameter.KEYWORD_ONLY, default=options._field_defaults[field], annotation=types[field])
            for field in options._fields
        ]

        @wraps(command)
        def gathering(**given: Any) -> None:
            told = options(**{field: given.pop(field) for field in options._fields})
            command(**given, **{name: told})

        gathering.__signature__ = signature.replace(parameters=[*own, *gathered])  # type: ignore[attr-defined]
        gathering.__annotations__ = {parameter.name: parameter.annotation for parameter in [*own, *gathered]}
        return gathering

    return decorate
