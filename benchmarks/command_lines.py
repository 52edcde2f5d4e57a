"""Runs a list of command lines, each option of each command with and without its extra, and holds them to exit codes without a traceback.

    python -m benchmarks.command_lines CAPTURE

The extras are those that are installed: a base installation says in one line which one is missing. Needs no extra itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pulsarscope.cli import command_of
from pulsarscope.cli.command_names import COMMANDS

EXIT_CODES = frozenset(range(6))
"""All but 6, a fault, and what the system gives to who dies."""

SECONDS = 180

ARGUMENTS = {"files": ["{capture}"], "before": ["{capture}"], "after": ["{capture}"], "query": ["select count(*) from frame"]}
"""By name of a required argument."""

NEEDED = {
    "follow": ["--topic", "ng-t-421"],
    "extract": ["-o", "{folder}/copy.pcapng"],
    "report": ["-o", "{folder}/report.html"],
    "live": ["-i", "no-such-interface"],
    "pipeline": ["-o", "{folder}/tables"],
    "registry": [],
}
"""What a command cannot do without."""

ENDLESS = frozenset({"--wait-for-interface", "--follow-file"})
"""Options that wait for an interface that never comes, and for the end of a file that does not grow."""

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
"""By placeholder."""


def command_lines() -> Iterator[list[str]]:
    """Yield each command as it is, with each of its options, and with pairs of options that say how to write."""
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
    """Return the longest name of an option, and what may stand behind it."""
    name = max(parameter.opts, key=len)
    if getattr(parameter, "is_flag", False):
        return name, [[]]
    choices = list(getattr(parameter.type, "choices", ())) or [VALUES.get(parameter.metavar, "x")]
    return name, [[str(choice)] for choice in choices]


def run(line: list[str], capture: Path) -> tuple[str, str]:
    """Run a command line in a folder of its own. Returns "exit N", and what is wrong with it, if anything."""
    with TemporaryDirectory(prefix="pulsarscope-") as folder:
        arguments = [part.replace("{capture}", str(capture)).replace("{folder}", folder) for part in line]
        try:
            done = subprocess.run(
                [sys.executable, "-m", "pulsarscope", *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=SECONDS,
                check=False,
                cwd=folder,
                env={**os.environ, "HOME": folder, "APPDATA": folder, "PATH": folder},  # nothing of this machine is changed
            )
        except subprocess.TimeoutExpired:
            return "hang", f"no end after {SECONDS} s"
    error = done.stderr.decode(errors="replace")
    if "Traceback" in error or done.returncode not in EXIT_CODES:
        return f"exit {done.returncode}", error[-600:] or f"exit code {done.returncode}"
    if done.returncode == 2 and not (error + done.stdout.decode(errors="replace")).strip():
        return "exit 2", "nothing says why"
    return f"exit {done.returncode}", ""


def main() -> int:
    """Run them all, and return the number that went wrong."""
    capture = Path(sys.argv[1]).resolve()
    lines = list(command_lines())
    wrong = 0
    codes = Counter[str]()
    with ThreadPoolExecutor(2) as pool:
        for line, (code, problem) in zip(lines, pool.map(lambda line: run(line, capture), lines), strict=True):
            codes[code] += 1
            if problem:
                wrong += 1
                print(f"{' '.join(line)}: {problem}")
    print(f"{len(lines)} command lines, {wrong} wrong; {', '.join(f'{count} {code}' for code, count in sorted(codes.items()))}")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
