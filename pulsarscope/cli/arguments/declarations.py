"""Declarations of options and arguments without typer, which few command lines need (`plain_arguments`)."""

from __future__ import annotations

from typing import Any

import msgspec


class Declaration(msgspec.Struct, frozen=True):
    """An option or argument of a command."""

    names: tuple[str, ...]
    """Names of an option as typed by users; empty for an argument."""
    settings: dict[str, Any]
    """Further settings for typer."""


def option(*names: str, **settings: Any) -> Any:
    """Declare an option, as typer.Option does."""
    return Declaration(names, settings)


def argument(**settings: Any) -> Any:
    """Declare an argument, as typer.Argument does."""
    return Declaration((), settings)
