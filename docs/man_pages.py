"""The man pages: one for the program, and one for each command."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pulsarscope
from docs.command_tree import FLAG, PROGRAM, Command, Parameter, commands, findings
from pulsarscope.dissect.plugins.finding_catalogue import Wording

_DATE = "2026-11-27"
"""Date of the last review of the pages: readers of man pages expect one."""

_EXIT_CODES = (
    ("0", "Done."),
    ("1", "There is a finding of the severity of --fail-on, or worse."),
    ("2", "The command line is wrong."),
    ("3", "No input is a capture."),
    ("4", "Some input is damaged, or no capture."),
    ("5", "The output is not complete."),
    ("6", "A fault of pulsarscope."),
)

_ENVIRONMENT = (
    ("NO_COLOR", "Disables colours."),
    ("FORCE_COLOR", "Enables colours where standard output is no terminal; 0 disables them."),
    ("COLUMNS", "Width of text where standard output is no terminal."),
    ("PULSARSCOPE_NATIVE", "Reader of frames: auto, off, or require for the compiled one."),
    ("JAVA_HOME", "The Java of the command pipeline."),
)


def pages() -> dict[str, str]:
    """Return the text of each page by its name."""
    return {
        PROGRAM: _page(PROGRAM, _program()),
        **{f"{PROGRAM}-{one.name}": _page(f"{PROGRAM}-{one.name}", _command(one)) for one in commands()},
    }


def _page(name: str, lines: Iterable[str]) -> str:
    heading = f'.TH {name.upper().replace("-", chr(92) + "-")} 1 "{_DATE}" "pulsarscope {pulsarscope.__version__}" "User Commands"'
    return "\n".join(['.\\" Made of the commands by docs/make_share.py: not to be edited.', heading, *lines, ""])


def _program() -> Iterator[str]:
    yield from _section("NAME", f"{PROGRAM} \\- inspect the traffic of Apache Pulsar")
    yield from (".SH SYNOPSIS", f".B {PROGRAM}", r".I COMMAND", r"[\fIOPTIONS\fR] [\fIFILE\fR...]", ".br", f".B {PROGRAM}", ".I FILE")
    yield from _section(
        "DESCRIPTION",
        _text("Reads packet captures of the traffic between Apache Pulsar clients, proxies, brokers and bookies, or the traffic itself. "),
        _text("A file in the place of a command is decoded."),
    )
    yield ".SH COMMANDS"
    for command in commands():
        yield from (".TP", f".BR {_dashes(f'{PROGRAM}-{command.name}')} (1)", _text(command.summary))
    yield ".SH OPTIONS"
    yield from (
        ".TP",
        r"\fB\-h\fR, \fB\-\-help\fR",
        "Show a message and exit.",
        ".TP",
        r"\fB\-\-version\fR",
        "Show the version and the reader.",
    )
    yield from _table("EXIT STATUS", _EXIT_CODES)
    yield from _table("ENVIRONMENT", _ENVIRONMENT)


def _command(command: Command) -> Iterator[str]:
    yield from _section(
        "NAME", rf"{_dashes(f'{PROGRAM}-{command.name}')} \- {_text(command.summary[0].lower() + command.summary[1:].rstrip('.'))}"
    )
    arguments = " ".join(rf"\fI{_text(one.metavar)}\fR" if one.required else rf"[\fI{_text(one.metavar)}\fR]" for one in command.arguments)
    yield from (".SH SYNOPSIS", f".B {PROGRAM} {command.name}", rf"[\fIOPTIONS\fR] {arguments}".rstrip())
    yield from _section("DESCRIPTION", _text(command.summary), *([_text(command.description)] if command.description else ()))
    if command.arguments:
        yield ".SH ARGUMENTS"
        for argument in command.arguments:
            yield from (".TP", rf"\fI{_text(argument.metavar)}\fR", _text(argument.help))
    yield ".SH OPTIONS"
    for option in command.options:
        yield from (".TP", _names(option), _text(_help(option)))
    if command.name == "findings":
        yield from _table("FINDINGS", [(entry.code, _meaning(entry.severity, entry.wordings)) for entry in findings().values()])
    yield from _table("EXIT STATUS", _EXIT_CODES)
    yield from (".SH SEE ALSO", f".BR {PROGRAM} (1)")


def _meaning(severity: str, wordings: Sequence[Wording]) -> str:
    return f"{severity.capitalize()}: {' '.join(dict.fromkeys(wording.meaning for wording in wordings))}"


def _names(option: Parameter) -> str:
    names = ", ".join(rf"\fB{_dashes(name)}\fR" for name in option.names)
    return names if option.value.form == FLAG else rf"{names} \fI{_text(option.metavar)}\fR"


def _help(option: Parameter) -> str:
    return f"{option.help} Default: {option.default}." if option.default else option.help


def _section(name: str, *lines: str) -> Iterator[str]:
    yield f".SH {name}"
    yield from lines


def _table(name: str, rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    yield f".SH {name}"
    for term, text in rows:
        yield from (".TP", rf"\fB{_dashes(term)}\fR", _text(text))


def _dashes(text: str) -> str:
    return text.replace("-", r"\-")


def _text(text: str) -> str:
    """Escape a line: backslashes, characters that roff would make typographic, and a control character at the beginning."""
    escaped = (
        text.strip()
        .replace("\\", r"\(rs")
        .replace("-", r"\-")
        .replace("'", r"\(aq")
        .replace("`", r"\(ga")
        .replace("^", r"\(ha")
        .replace("~", r"\(ti")
    )
    return rf"\&{escaped}" if escaped.startswith(".") else escaped
