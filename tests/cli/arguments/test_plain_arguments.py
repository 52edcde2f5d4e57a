"""Command lines read without typer give the same as with it."""

from __future__ import annotations

import shlex
from importlib import import_module
from typing import Any, get_type_hints

import pytest

from pulsarscope.cli.arguments.application import app
from pulsarscope.cli.arguments.command_names import COMMANDS
from pulsarscope.cli.arguments.options import fields_of
from pulsarscope.cli.arguments.plain_arguments import plain_command

OF_CAPTURES = ("browse", "decode", "diagnose", "extract", "follow", "index", "messages", "report", "stats")
"""Commands that take captures, and options."""


@pytest.fixture(autouse=True)
def no_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULSARSCOPE_CONFIG", "off")


def read_by(arguments: list[str], monkeypatch: pytest.MonkeyPatch, *, plain: bool) -> Any:
    """The command and its request, as read by one of the two; None if it does not read them."""
    found: list[Any] = []

    def take(name: str, request: Any) -> int:
        found.append((name, request))
        return 7

    with monkeypatch.context() as patched:
        for name in OF_CAPTURES:
            module = import_module(f"pulsarscope.cli.commands.{name}")
            hints = get_type_hints(getattr(module, name))

            def function(request: Any, name: str = name) -> int:
                return take(name, request)

            function.__annotations__ = hints
            patched.setattr(module, name, function)
        if plain:
            if (command := plain_command(arguments)) is not None:
                assert command() == 7
        else:
            with pytest.raises(SystemExit) as ended:
                app(arguments, prog_name="pulsarscope")
            assert ended.value.code == 7
    return found[0] if found else None


def options_of(name: str) -> list[list[str]]:
    """Arguments that give each option of a command a value, the first and the last possible one."""
    given: list[list[str]] = []

    def add(owner: Any) -> None:
        for field, declaration in fields_of(owner):
            if declaration is None:
                add(field.type)
                continue
            text = str(field.type)
            low, high = declaration.settings.get("min", 0), declaration.settings.get("max", 99)
            words = [each.strip("' ]") for each in text.partition("Literal[")[2].partition("]")[0].split(",")]
            values = [str(low), str(high)] if "int" in text.partition(",")[0] else words if any(words) else ["a=b", "x y", "-"]
            for option in declaration.names:
                if "bool" in text.partition(",")[0]:
                    given.append([option])
                    continue
                given.extend([option, value] for value in values)
                if option.startswith("--"):
                    given.append([f"{option}={values[0]}"])
                if "list[" in text.partition(",")[0]:
                    given.append([option, values[0], option, values[-1]])

    add(get_type_hints(getattr(import_module(f"pulsarscope.cli.commands.{name}"), name))["request"])
    return given


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_CAPTURES)
def test_each_option_of_a_command_is_read_as_typer_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = options_of(name)
    assert len(given) > 3
    for options in given:
        for arguments in ([name, *options, "a.pcap"], [name, "-", *options, "b.pcap"]):
            if name == "decode" and options[0] == "-r":
                continue
            plain = read_by(arguments, monkeypatch, plain=True)
            assert plain is not None, arguments
            assert plain == read_by(arguments, monkeypatch, plain=False), arguments


@pytest.mark.parametrize(
    "line",
    [
        "a.pcap",
        "./folder -q",
        "decode a.pcap b.pcap -V -x",
        "decode -f ndjson -q --records=all a.pcap",
        "decode a.pcap --port 6650 --port 6651 -d 9093=kafka07 -Y 'command == SEND'",
        "messages a.pcap --columns key,size --limit 5",
        "diagnose a.pcap --threshold x=1 --fail-on never -j 2",
        "follow a.pcap --topic t",
    ],
)
def test_a_plain_line_is_read_as_typer_does(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = shlex.split(line)
    plain = read_by(arguments, monkeypatch, plain=True)
    assert plain is not None
    assert plain == read_by(arguments, monkeypatch, plain=False)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "-h",
        "--version",
        "decode",
        "decode -h",
        "decode a.pcap -h",
        "decode a.pcap --hlep",
        "decode a.pcap -f xml",
        "decode a.pcap -f",
        "decode a.pcap -fndjson",
        "decode a.pcap -qV",
        "decode a.pcap -q=1",
        "decode a.pcap --quiet=1",
        "decode a.pcap -f ndjson -f csv",
        "decode a.pcap -q -q",
        "decode a.pcap -o -V",
        "decode a.pcap -o ''",
        "decode '' -q",
        "decode a.pcap --limit 0",
        "decode a.pcap --limit ²",
        "decode a.pcap --limit 1_0",
        pytest.param(f"decode a.pcap --limit {'9' * 5000}", id="decode a.pcap --limit 9…"),
        "decode a.pcap --port 65536",
        "decode a.pcap --profile p",
        "decode -r a.pcap",
        "decode a.pcap -- -q",
        "-r a.pcap",
        "-Y x a.pcap",
        "compare a.pcap b.pcap",
        "sql a.pcap 'select 1'",
        "live -i lo",
        "help decode",
        "unknown a.pcap",
    ],
)
def test_any_other_line_is_for_typer(line: str) -> None:
    assert plain_command(shlex.split(line)) is None


@pytest.mark.parametrize("name", ["PULSARSCOPE_PROFILE", "PULSARSCOPE_CONFIG", "_PULSARSCOPE_COMPLETE"])
def test_configurations_and_completions_are_for_typer(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert plain_command(["decode", "a.pcap"]) is not None
    monkeypatch.setenv(name, "file")
    assert plain_command(["decode", "a.pcap"]) is None


def test_commands_without_captures_of_their_own_are_for_typer() -> None:
    assert all(plain_command([name, "a.pcap"]) is None for name in COMMANDS if name not in OF_CAPTURES)
