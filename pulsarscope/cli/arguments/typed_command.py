"""A command that reports errors about options in plain English."""

from __future__ import annotations

import re
from typing import Any

import typer
from typer.core import TyperCommand

from pulsarscope.model.errors import UsageError

_REFUSED = r"(?P<value>.*) is not (?:a valid (?:int|float) range|in the range .*)\."
"""Message of typer about a value for a number with bounds."""

ALSO_CALLED = {
    "--count": "--limit",
    "--duration": "--for",
    "--filename": "--output",
    "--out": "--output",
    "--outfile": "--output",
    "--processes": "--jobs",
    "--seconds": "--for",
    "--threads": "--jobs",
    "--timeout": "--for",
    "--workers": "--jobs",
    "-w": "--output",
}
"""Options of other programs, with the equivalent option of this one."""


class TypedCommand(TyperCommand):
    """A command of the command line."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments. Errors state the range of an option's numbers, and the equivalent of another program's option."""
        self._refuse_equals_sign(args)
        try:
            parsed: list[str] = super().parse_args(ctx, args)
        except Exception as error:  # depending on its version, typer uses its own classes or click's
            self._explain(error)
            raise
        return parsed

    def _refuse_equals_sign(self, args: list[str]) -> None:
        """Raise UsageError for -o=FILE, which would write to a file named =FILE."""
        for before, argument in zip(["", *args], args, strict=False):
            if argument.startswith("-o=") and not before.startswith("-") and any("-o" in parameter.opts for parameter in self.params):
                raise UsageError(f"-o takes its value without =: write -o {argument[3:]}")

    def _explain(self, error: Any) -> None:
        ours = ALSO_CALLED.get(getattr(error, "option_name", ""))
        if ours is not None and any(ours in parameter.opts for parameter in self.params):
            error.possibilities = [ours]
        elif getattr(error, "option_name", "") == "-r" and any(parameter.name == "files" for parameter in self.params):
            error.message += " (name captures without it)"
        elif isinstance(error, typer.BadParameter) and error.param is not None:
            error.message = in_plain_words(error.message, error.param.type)


def in_plain_words(message: str, kind: Any) -> str:
    """Return typer's message about a value, with the range of numbers that an option of this kind takes."""
    found = re.fullmatch(_REFUSED, message)
    return message if found is None else f"{found['value'].strip(chr(39))}: give {_number(kind)}."


def _number(bounds: Any) -> str:
    """Return in words the numbers that a typer range allows."""
    kind = "a number" if "Float" in type(bounds).__name__ else "a whole number"
    if bounds.max is None:
        return f"{kind} from {bounds.min:g} on"
    return f"{kind} from {bounds.min:g} to {bounds.max}"
