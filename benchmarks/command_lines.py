"""Runs each option of each command, with whatever extras are installed, and checks for documented exit codes and no traceback.

    python -m benchmarks.command_lines CAPTURE

A base installation must say in one line which extra is missing. This module itself needs none.
"""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from itertools import islice
from multiprocessing import get_context
from multiprocessing.connection import wait
from pathlib import Path
from pkgutil import walk_packages
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

import pulsarscope
from pulsarscope.__main__ import main as program
from pulsarscope.cli.arguments.command_names import COMMANDS
from pulsarscope.cli.arguments.typer_commands import command_of
from pulsarscope.filter.syntax import parse
from pulsarscope.model.records import ROWS, columns

EXIT_CODES = frozenset(range(6))
"""All but 6, which is a fault, and the codes that the system gives to a process that dies."""

SECONDS = 180

PROCESSES: Any = get_context("fork" if hasattr(os, "fork") else "spawn")
"""Forks inherit the modules that all command lines share; importing them would take most of the time."""

ARGUMENTS = {"files": ["{capture}"], "before": ["{capture}"], "after": ["{capture}"], "query": ["select count(*) from frame"]}
"""Arguments by the name of a required parameter."""

NEEDED = {
    "follow": ["--topic", "ng-t-421"],
    "extract": ["-o", "{folder}/copy.pcapng"],
    "report": ["-o", "{folder}/report.html"],
    "live": ["-i", "no-such-interface"],
    "pipeline": ["-o", "{folder}/tables"],
    "registry": [],
}
"""Arguments that a command requires."""

ENDLESS = frozenset({"--wait-for-interface", "--follow-file"})
"""Options that never end: they wait for an interface that does not appear, or for a file that does not grow."""

VALUES = {
    "A,B": "packet,topic",
    "KIND,...": "all",
    "FILTER": "packet > 1",
    "N": "2",
    "OUT": "{folder}/out",
    "FILE.svg": "{folder}/plot.svg",
    "PORT=DISSECTOR": "6650=pulsar",
    "TOPIC=FILE": "orders={folder}/schema.avsc",
    "NAME=VALUE": "slow-exchange-seconds=2",
    "none|dir|interface|REGEX": "dir",
    "TIME": "1s",
    "SECTION,...": "topics",
    "ID": "489:1",
    "MOST:LEAST": "1:1",
    "T": "ng-t-421",
    "SIZE": "1MiB",
    "SIZE|TIME": "1MiB",
    "SIZE|off": "off",
    "HOST:PORT": "127.0.0.1:0",
    "FINDING": "idle-cut",
    "CODE": "idle-cut",
    "BPF": "tcp",
    "URL": "local[1]",
    "SECONDS": "1",
    "DIR": "{folder}/new",
    "LOG": "{capture}",
    "FILE": "{capture}",
    "TOPIC": "filter",
    "FINDING|any-error|FILTER": "any-error",
    "PREFIX": "send",
    "COMMAND": "decode",
    "NAME": "x",
}
"""Values by placeholder."""


def command_lines() -> Iterator[list[str]]:
    """Yield each command on its own, with each of its options, and with pairs of options that control the output."""
    for name in COMMANDS:
        command = command_of(name)
        needed = [*NEEDED.get(name, ())]
        arguments = [value for parameter in command.params if parameter.param_type_name == "argument" for value in _argument(parameter)]
        base = [name, *arguments, *needed]
        yield base
        options = [_option(parameter) for parameter in command.params if parameter.param_type_name == "option"]
        given = [[option, *values] for option, every in options for values in every if option not in needed and option not in ENDLESS]
        for option in given:
            yield [*base, *option]
        formats = [option for option in given if option[0] in {"--format", "--records"}]
        for option in formats:
            for other in (["-o", "{folder}/out"], ["--columns", "packet,len(topic)"], ["-j", "2"], ["-Y", "topic"]):
                if other[0] in {name for parameter in command.params for name in parameter.opts}:
                    yield [*base, *option, *other]


def _argument(parameter: Any) -> list[str]:
    return ARGUMENTS.get(parameter.name, []) if parameter.required or parameter.name in ARGUMENTS else []


def _option(parameter: Any) -> tuple[str, list[list[str]]]:
    """Return the longest name of an option, and the values to try with it."""
    name = max(parameter.opts, key=len)
    if getattr(parameter, "is_flag", False):
        return name, [[]]
    choices = list(getattr(parameter.type, "choices", ())) or [VALUES.get(parameter.metavar, "x")]
    return name, [[str(choice)] for choice in choices]


def execute(line: list[str], capture: str, folder: str) -> None:
    """Run the program with a command line, in a folder that is also its home, so that nothing else on this machine changes."""
    for name, descriptor in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
        os.dup2(os.open(Path(folder) / name, os.O_RDWR | os.O_CREAT), descriptor)
    sys.stdin, sys.stdout, sys.stderr = open(0, closefd=False), open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
    home = Path(folder) / "home"
    home.mkdir()
    os.chdir(home)
    os.environ |= {"HOME": str(home), "APPDATA": str(home), "PATH": str(home)}
    sys.argv = ["pulsarscope", *(part.replace("{capture}", capture).replace("{folder}", str(home)) for part in line)]
    program()


class Attempt:
    """A command line that runs in a process of its own."""

    def __init__(self, line: list[str], capture: Path) -> None:
        self.line = line
        self._folder = TemporaryDirectory(prefix="pulsarscope-")
        self.process = PROCESSES.Process(target=execute, args=(line, str(capture), self._folder.name))
        self.process.start()
        self._end = monotonic() + SECONDS

    @property
    def is_late(self) -> bool:
        """True if the run takes too long."""
        return monotonic() > self._end

    def outcome(self) -> tuple[str, str]:
        """Wait for the end of the run. Return "exit N", and what is wrong with it, if anything."""
        self.process.join(max(self._end - monotonic(), 0))
        code = self.process.exitcode
        if code is None:
            self.process.kill()
            self.process.join()
        output, error = ((Path(self._folder.name) / name).read_text(errors="replace") for name in ("stdout", "stderr"))
        self._folder.cleanup()
        if code is None:
            return "hang", f"no end after {SECONDS} s"
        if "Traceback" in error or code not in EXIT_CODES:
            return f"exit {code}", error[-600:] or f"exit code {code}"
        if code == 2 and not (error + output).strip():
            return "exit 2", "nothing says why"
        return f"exit {code}", ""


def outcomes(lines: Iterable[list[str]], capture: Path) -> Iterator[tuple[list[str], str, str]]:
    """Run command lines, two at a time, and yield each with its outcome when it ends."""
    running: list[Attempt] = []
    waiting = iter(lines)
    while True:
        running += [Attempt(line, capture) for line in islice(waiting, 2 - len(running))]
        if not running:
            return
        wait([attempt.process.sentinel for attempt in running], timeout=1)
        for attempt in [one for one in running if one.process.exitcode is not None or one.is_late]:
            running.remove(attempt)
            yield attempt.line, *attempt.outcome()


HEAVY = ("duckdb", "pyarrow.dataset", "pyarrow.parquet")
"""Modules of extras that are imported on use: in a fork, they take twice as long as everything else."""


def import_shared() -> None:
    """Import the package and the installed extras, and read grammar and columns; a fork reports by itself that an extra is missing."""
    for module in walk_packages(pulsarscope.__path__, "pulsarscope.", onerror=lambda _: None):
        if not module.name.startswith("pulsarscope.spark"):
            with suppress(ImportError):
                import_module(module.name)
    for name in HEAVY:
        with suppress(ImportError):
            import_module(name)
    parse("packet > 1")  # reads the grammar of filters, which takes longer than most command lines
    for kind in ROWS:
        columns(kind)
    gc.freeze()  # else a fork that collects looks at all of them, and copies them


def main() -> int:
    """Run all command lines, and return 1 if one went wrong."""
    lines = list(command_lines())
    import_shared()
    wrong = 0
    codes = Counter[str]()
    for line, code, problem in outcomes(lines, Path(sys.argv[1]).resolve()):
        codes[code] += 1
        if problem:
            wrong += 1
            print(f"{' '.join(line)}: {problem}")
    print(f"{len(lines)} command lines, {wrong} wrong; {', '.join(f'{count} {code}' for code, count in sorted(codes.items()))}")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
