"""Options of tshark for reading, filtering and printing, as options of `decode`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pulsarscope.model.errors import UsageError

_WITH_VALUE = {"-r", "-e", "-T", "-t", "-c"}

_ELSEWHERE = {
    "-w": "pulsarscope extract FILE -Y FILTER -o OUT.pcapng copies packets",
    "-i": "pulsarscope live -i NAME captures",
    "-D": "pulsarscope live --list lists the interfaces",
    "-z": "pulsarscope stats counts",
    "-O": "-V shows every field",
    "-R": "-Y takes the filter",
    "-2": "-Y takes the filter, in one pass",
    "-E": "--format csv separates by commas; -q leaves out the heading",
}
"""Replacements for other options of tshark."""

_NEGATIVE = re.compile(r"-\d+")
"""A negative number, or tshark's -2."""

_TIMES = {"a": "local", "ad": "local", "d": "delta", "dd": "delta", "e": "epoch", "r": "relative", "u": "utc", "ud": "utc"}
_FORMATS = {"fields": None, "text": None, "json": "json", "ek": "ndjson"}


def from_tshark(arguments: Sequence[str]) -> list[str]:
    """Return arguments with options of tshark translated to those of `decode`. Raises UsageError for one without an equivalent."""
    out: list[str] = []
    columns: list[str] = []
    fields_only = False
    end = arguments.index("--") if "--" in arguments else len(arguments)
    for option, value in _options(arguments[:end]):
        match option:
            case "-r":
                out.append(value)
            case "-e":
                columns.append(value)
            case "-c":
                out += ["--limit", value]
            case "-t":
                out += ["--time", _known(option, value, _TIMES) or value]
            case "-T":
                fields_only = value == "fields"
                known = _known(option, value, _FORMATS)
                out += ["--format", known] if known else []
            case "-n":
                pass  # names are never resolved
            case _ if _NEGATIVE.fullmatch(option) and out and (out[-1] == "-j" or out[-1].startswith("--")):
                out.append(option)  # a number for the preceding option, which checks its value
            case _ if option[:2] in _ELSEWHERE and not option.startswith("--"):
                raise UsageError(f"{option[:2]} is an option of tshark; here, {_ELSEWHERE[option[:2]]}")
            case _:
                out.append(option)
    if fields_only and not columns:
        raise UsageError("-T fields needs a field: -e command, or --columns command,topic")
    return [*out, *(["--columns", ",".join(columns)] if columns else []), *arguments[end:]]


def _options(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield options with their value, separate or attached; "" for options without one."""
    rest = iter(arguments)
    for argument in rest:
        if argument[:2] in _WITH_VALUE and not argument.startswith("--"):
            value = argument[2:] or next(rest, None)
            if value is None:
                raise UsageError(f"{argument} needs a value")
            yield argument[:2], value
        else:
            yield argument, ""


def _known(option: str, value: str, known: dict[str, str | None] | dict[str, str]) -> str | None:
    if value not in known:
        raise UsageError(f"{option} {value}: choose {', '.join(known)}")
    return known[value]
