"""Profile of a run: its processor time by stage.

    python -m benchmarks.profile [--functions 3] FILE
    python -m benchmarks.profile [--functions 3] messages FILE --format ndjson

Runs pulsarscope in this process and discards its output. The arguments after the options are its command line; a capture alone stands for
`decode FILE --format ndjson`. Every few milliseconds of processor time, a signal samples the position of the program; the innermost
function of the package decides the stage, so that what it calls elsewhere (protobuf, zlib, msgspec, the garbage collector) counts for it.
Unlike cProfile, this slows nothing down, and does not exaggerate the cost of many small functions.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import FrameType
from typing import NamedTuple

PACKAGE = Path(__file__).resolve().parent.parent / "pulsarscope"
INTERVAL_SECONDS = 0.001
"""The kernel may round it up to its own tick, mostly 4 ms."""

STAGES = {
    "capture": "read",
    "tcp": "tcp",
    "dissect": "split",
    "protocols/pulsar/frame/boundary": "split",
    "protocols/pulsar/frame/ranges": "render",
    "protocols/pulsar/entry": "payloads",
    "protocols/pulsar/session": "session",
    "protocols/pulsar/text": "render",
    "protocols": "decode",
    "engine": "session",
    "output/export": "encode",
    "output/render": "render",
    "model": "",
}
"""Stages by the beginning of a module's path; the first match counts. "" is the stage of the caller; without a match it is "other"."""

ORDER = ("start", "read", "tcp", "split", "decode", "payloads", "session", "encode", "render", "other")


class Place(NamedTuple):
    """A position of the program."""

    stage: str
    function: str


def place(frame: FrameType | None) -> Place:
    """Return the stage of the innermost function of the package that has one."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith("<frozen importlib"):
            return Place("start", "import")
        if file.startswith(f"{PACKAGE}{os.sep}"):
            module = Path(file).relative_to(PACKAGE).with_suffix("").as_posix()
            if frame.f_code.co_name == "<module>":
                return Place("start", "import")
            stage = next((stage for start, stage in STAGES.items() if f"{module}/".startswith(f"{start}/")), "other")
            if stage:
                return Place(stage, f"{module}.{getattr(frame.f_code, 'co_qualname', frame.f_code.co_name)}")
        frame = frame.f_back
    return Place("other", "outside")


@contextmanager
def sampling() -> Iterator[Counter[Place]]:
    """Count the samples at each place while the block runs."""
    found: Counter[Place] = Counter()
    previous = signal.signal(signal.SIGPROF, lambda _, frame: found.update((place(frame),)))
    signal.setitimer(signal.ITIMER_PROF, INTERVAL_SECONDS, INTERVAL_SECONDS)
    try:
        yield found
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)


def run(arguments: list[str]) -> None:
    """Run `pulsarscope` with these arguments, as the console script does.

    Raises:
        SystemExit: always, at its end.
    """
    from pulsarscope.cli import main  # noqa: PLC0415 - what it imports is part of what is measured

    sys.argv = ["pulsarscope", *arguments]
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        main()


def markdown(found: Counter[Place], seconds: float, functions: int) -> str:
    """Format the shares of `seconds` as a table of stages and their most expensive functions."""
    total = found.total()
    lines = ["| stage | share | s | most of it in |", "|---|---:|---:|---|"]
    for stage in ORDER:
        places = Counter({place.function: count for place, count in found.items() if place.stage == stage})
        if places:
            share = places.total() / total
            most = ", ".join(f"`{function}` {count / total:.0%}" for function, count in places.most_common(functions))
            lines.append(f"| {stage} | {share:.1%} | {share * seconds:.2f} | {most} |")
    return "\n".join(lines) + f"\n\n{seconds:.2f} s of processor time, {total:,} samples.\n"


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--functions", type=int, default=3, metavar="N", help="to name in each stage")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="FILE | COMMAND...", help="a capture, or arguments of pulsarscope")
    options = parser.parse_args(arguments)
    command = options.command
    if not command:
        parser.error("name a capture")
    if len(command) == 1:
        command = ["decode", *command, "--format", "ndjson"]
    before = time.process_time()
    code: str | int | None = 0
    with sampling() as found:
        try:
            run(command)
        except SystemExit as end:
            code = end.code
    print(markdown(found, time.process_time() - before, options.functions), end="")
    sys.exit(code)


if __name__ == "__main__":
    main()
