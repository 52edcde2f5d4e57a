"""Cost of `pulsarscope pipeline` on this machine beside `decode`: `python -m benchmarks.on_spark FILE [--rounds 3] [--markdown OUT]`.

The rows are `decode --jobs 1` and 2, `pipeline` in local[1] and local[2], and `pipeline` on next to nothing, which shows what starting
Spark costs. Processor time covers all processes that a command starts or leaves behind, including Java; memory is that of the largest
Python worker, which decodes. Tools take turns; the least processor time of all rounds counts.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import NamedTuple

from benchmarks.measure import OURS, machine

NEXT_TO_NOTHING = Path(__file__).resolve().parent.parent / "captures" / "quickstart.pcapng"
LOOK_SECONDS = 0.05
WORKER = b"pyspark"
"""Workers are forks of a daemon, and have its module in their command lines."""

LAUNCHER = """
import ctypes, os, resource, subprocess, sys
SET_CHILD_SUBREAPER = 36
assert ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1) == 0
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
code = child.wait()
try:
    while True:
        os.wait()
except ChildProcessError:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print(usage.ru_utime + usage.ru_stime)
sys.exit(code)
"""
"""Program that starts a command, waits for all processes that it leaves behind, and prints their total processor time in seconds."""


class Run(NamedTuple):
    """Cost of one command: processor and elapsed seconds, and bytes of the largest Python worker."""

    cpu: float
    wall: float
    worker: int


class Way(NamedTuple):
    """A way to get the tables of a capture. {out} is a folder that does not exist yet."""

    label: str
    command: tuple[str, ...]

    def run(self, capture: Path, records: str) -> Run:
        """Run the command.

        Raises:
            RuntimeError: it failed.
        """
        with TemporaryDirectory() as folder:
            line = [part.format(capture=capture, records=records, out=f"{folder}/out") for part in self.command]
            began = time.perf_counter()
            launched = [sys.executable, "-I", "-S", "-c", LAUNCHER, *line]
            with (
                subprocess.Popen(launched, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process,
                watched(process.pid) as peaks,
            ):
                said, errors = process.communicate()
        if process.returncode:
            message = f"{' '.join(line)}: exit code {process.returncode}: {errors.strip()}"
            raise RuntimeError(message)
        return Run(float(said), time.perf_counter() - began, peaks[-1])


DECODE = (str(OURS), "decode", "{capture}", "--format", "parquet", "--records", "{records}", "-o", "{out}", "--jobs")
PIPELINE = (str(OURS), "pipeline", "{capture}", "-q", "--records", "{records}", "-o", "{out}", "--master")

WAYS = (
    Way("decode --jobs 1", (*DECODE, "1")),
    Way("pipeline --master local[1]", (*PIPELINE, "local[1]")),
    Way("decode --jobs 2", (*DECODE, "2")),
    Way("pipeline --master local[2]", (*PIPELINE, "local[2]")),
)
STARTS = {way.label: Way(way.label, tuple(str(NEXT_TO_NOTHING) if part == "{capture}" else part for part in way.command)) for way in WAYS}
"""The same command on next to nothing."""


@contextmanager
def watched(root: int) -> Iterator[list[int]]:
    """Measure the peak memory of the Python workers below a process in bytes, the largest last."""
    peaks = [0]
    ended = Event()

    def look_on() -> None:
        while not ended.wait(LOOK_SECONDS):
            for process in descendants(root):
                with suppress(OSError):
                    if WORKER in Path(f"/proc/{process}/cmdline").read_bytes() and not is_java(process):
                        peaks.append(max(peaks[-1], peak_bytes(process)))

    thread = Thread(target=look_on)
    thread.start()
    try:
        yield peaks
    finally:
        ended.set()
        thread.join()


def is_java(process: int) -> bool:
    """Return True for the Java virtual machine, whose command line also names Python modules."""
    return Path(f"/proc/{process}/comm").read_text().startswith("java")


def peak_bytes(process: int) -> int:
    """Return the peak memory of a process in bytes."""
    status = Path(f"/proc/{process}/status").read_text()
    return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:")), 0)


def descendants(root: int) -> list[int]:
    """Return the existing descendants of a process."""
    found = [root]
    for process in found:
        with suppress(OSError):
            for children in Path(f"/proc/{process}/task").glob("*/children"):
                found += map(int, children.read_text().split())
    return found[1:]


def table(capture: Path, records: str, rounds: int) -> str:
    """Run all ways in turns, and return the results as Markdown."""
    runs: dict[str, list[Run]] = {way.label: [] for way in WAYS}
    starts: dict[str, list[Run]] = {way.label: [] for way in WAYS}
    for _ in range(rounds):
        for way in WAYS:
            runs[way.label].append(way.run(capture, records))
            starts[way.label].append(STARTS[way.label].run(capture, records))
    size = capture.stat().st_size
    lines = [
        f"{capture.name}, {size / 1e6:,.0f} MB, --records {records}, best of {rounds}.",
        "",
        "| way | CPU s | of it start | CPU s per GB of own work | times decode | MB/s | worker MiB |",
        "|---|---|---|---|---|---|---|",
    ]
    own_work: dict[str, float] = {}
    for way in WAYS:
        cpu = min(run.cpu for run in runs[way.label])
        start = min(run.cpu for run in starts[way.label])
        own_work[way.label] = cpu - start
        wall = min(run.wall for run in runs[way.label])
        worker = max(run.worker for run in runs[way.label])
        local = own_work[WAYS[0].label]
        lines.append(
            f"| {way.label} | {cpu:.1f} | {start:.1f} | {own_work[way.label] / size * 1e9:.1f} | {own_work[way.label] / local:.2f} "
            f"| {size / wall / 1e6:.0f} | {worker / (1 << 20):.0f} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("captures", type=Path, nargs="+")
    parser.add_argument("--records", default="all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--markdown", type=Path)
    given = parser.parse_args()
    text = "\n\n".join([machine(), *(table(capture, given.records, given.rounds) for capture in given.captures)])
    print(text)
    if given.markdown:
        given.markdown.write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
