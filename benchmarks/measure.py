"""Measurement of whole processes: their processor time, memory and output.

Every tool runs including start-up and imports, and writes to /dev/null. Tools that are compared take turns, so that a slow moment of the
machine hits all of them; the least processor time (user + system) and the most memory of all rounds count. Before the rounds, each tool
runs once with its output counted: a fast wrong answer does not count, and no tool pays for a file that is not cached yet.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

OURS = Path(sys.executable).with_name("pulsarscope")
TSHARK = "tshark -n -o tcp.reassemble_out_of_order:TRUE"
TSHARK_FIELDS = "frame.number frame.time_epoch ip.src tcp.srcport ip.dst tcp.dstport tcp.stream tcp.seq tcp.len"
MESSAGE_COLUMNS = "time,direction,topic,sequence_id,ledger,entry,batch_index,key,publish_time,payload_size"
"""Columns of messages for which neither properties nor the digest of the payload are needed."""

LAUNCHER = """
import os, subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(child.pid, 0)
child.returncode = os.waitstatus_to_exitcode(status)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
sys.exit(child.returncode)
"""
"""Program that starts one tool from a process of a few MB, and prints its processor time in seconds and its peak memory in KiB."""

MESSAGES = "messages"
"""Key of the number of messages among the counts of commands, which are in capitals."""

RECORD = re.compile(rb'\{"record":"(\w+)"')
COMMAND = re.compile(rb'"command": ?"(\w+)"')
CUT = re.compile(rb"frame-(truncated|unfinished)")
TRUNCATED = b'"status":"truncated"'
TIMELINE = re.compile(" *[0-9:.]+ .*? (?:→|←) ([A-Z][A-Z0-9_]+)".encode())


def count_lines(lines: Iterable[bytes], _: Path) -> Counter[str]:
    """Count whole frames by command, and messages, in JSON lines; lines of peers are frames."""
    found: Counter[bytes] = Counter()
    for line in lines:
        record = RECORD.match(line)
        if record and record[1] == b"message":
            found[MESSAGES.encode()] += 1
        elif (not record or record[1] == b"frame") and (command := COMMAND.search(line)) and TRUNCATED not in line:
            found[command[1]] += 1
    return Counter({name.decode(): count for name, count in found.items()})


def count_timeline(lines: Iterable[bytes], _: Path) -> Counter[str]:
    """Count whole frames by command in a timeline."""
    return Counter(match[1].decode() for line in lines if (match := TIMELINE.match(line)) and not CUT.search(line))


def count_parquet(lines: Iterable[bytes], folder: Path) -> Counter[str]:
    """Count whole frames by command, and messages, in a folder of Parquet files; they are complete when the output ends."""
    count_nothing(lines, folder)
    if not (folder / "frame.parquet").exists():
        return Counter()
    from pyarrow import parquet

    rows = parquet.read_table(folder / "frame.parquet", columns=["command", "status"]).to_pydict()
    whole = zip(rows["command"], rows["status"], strict=True)
    found = Counter(command for command, status in whole if command and status != "truncated")
    found[MESSAGES] = parquet.read_metadata(folder / "message.parquet").num_rows
    return +found


def count_nothing(lines: Iterable[bytes], _: Path) -> Counter[str]:
    """Return no counts, for tools that do not decode Pulsar frame by frame."""
    deque(lines, 0)
    return Counter()


class Tool(NamedTuple):
    """A command line; {} stands for the capture, {out} for a folder that it may write."""

    label: str
    command: str
    finding: Callable[[Iterable[bytes], Path], Counter[str]] = count_nothing
    """Counts what the tool decoded, from its output or {out}."""
    cut: bool = False
    """True for a tool so slow that it is compared on the beginning of a capture only."""
    needs: str = ""
    """Module that the tool needs."""


TOOLS = {
    "frames": Tool("pulsarscope decode (frames, NDJSON)", f"{OURS} decode {{}} --format ndjson --records frame", count_lines),
    "compiled": Tool(
        "pulsarscope, compiled reader",
        f"env PULSARSCOPE_NATIVE=require {OURS} decode {{}} --format ndjson --records frame",
        count_lines,
        needs="pulsarscope_native",
    ),
    "python": Tool("pulsarscope", f"env PULSARSCOPE_NATIVE=off {OURS} decode {{}} --format ndjson --records frame", count_lines),
    "timeline": Tool("pulsarscope decode (timeline)", f"{OURS} decode {{}}", count_timeline),
    "all": Tool("pulsarscope decode (all records, NDJSON)", f"{OURS} decode {{}} --format ndjson --records all", count_lines),
    "parquet": Tool(
        "pulsarscope decode (all records, Parquet)",
        f"{OURS} decode {{}} --format parquet --records all -o {{out}}",
        count_parquet,
        needs="pyarrow",
    ),
    "messages": Tool("pulsarscope messages (NDJSON)", f"{OURS} messages {{}} --format ndjson", count_lines),
    "messages-columns": Tool(
        "pulsarscope messages (NDJSON, ten columns)", f"{OURS} messages {{}} --format ndjson --columns {MESSAGE_COLUMNS}", count_lines
    ),
    "dpkt": Tool("dpkt + protobuf + json", f"{sys.executable} -m benchmarks.dpkt_decoder {{}}", count_lines, needs="dpkt"),
    "tshark-fields": Tool("tshark -T fields", f"{TSHARK} -T fields {' '.join('-e ' + name for name in TSHARK_FIELDS.split())} -r {{}}"),
    "tshark-json": Tool("tshark -T json", f"{TSHARK} -T json -r {{}}"),
    "scapy": Tool("scapy + protobuf + json", f"{sys.executable} -m benchmarks.scapy_decoder {{}}", count_lines, cut=True, needs="scapy"),
    "pyshark": Tool(
        "pyshark + protobuf + json", f"{sys.executable} -m benchmarks.pyshark_decoder {{}}", count_lines, cut=True, needs="pyshark"
    ),
}
"""Ours and the peers by name. tshark is told to reassemble segments out of order; by default it loses frames."""


def missing(tool: Tool) -> str:
    """Return why a tool cannot run here; "" if it can."""
    if tool.needs and not find_spec(tool.needs):
        return f"{tool.needs} is not installed"
    program = "tshark" if tool.needs == "pyshark" else shlex.split(tool.command)[0]
    return "" if shutil.which(program) else f"{program} is not installed"


def has_pulsar_dissector() -> bool:
    """Return True if there is a tshark that knows the protocol."""
    if not shutil.which("tshark"):
        return False
    protocols = subprocess.run(["tshark", "-G", "protocols"], capture_output=True, text=True, check=True).stdout  # noqa: S607
    return any("pulsar" in line.split("\t")[-1].lower() for line in protocols.splitlines())


@dataclass(slots=True)
class Measurement:
    """Measurement of a tool on a capture. Times in seconds, memory in bytes; empty lists if it failed."""

    capture: Path
    """A file, or a folder of files."""
    name: str
    tool: Tool
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    found: Counter[str] = field(default_factory=Counter)
    """Frames by command, and messages; empty for a tool that counts nothing."""
    failure: str = ""
    size: int = field(init=False)
    """Size of the capture in bytes."""

    def __post_init__(self) -> None:
        files = self.capture.iterdir() if self.capture.is_dir() else (self.capture,)
        self.size = sum(file.stat().st_size for file in files)

    @property
    def best(self) -> float:
        """Least processor time."""
        return min(self.cpu)

    @property
    def most(self) -> float:
        """Peak memory in MiB."""
        return max(self.memory) / (1 << 20)

    @property
    def frames(self) -> int:
        """Frames found."""
        return sum(self.found.values()) - self.messages

    @property
    def messages(self) -> int:
        """Messages found."""
        return self.found[MESSAGES]

    def commands(self) -> Counter[str]:
        """Frames found, by command."""
        return self.found - Counter({MESSAGES: self.messages})

    def line(self, out: Path) -> list[str]:
        """Return the command line with its placeholders filled in."""
        return [part.format(self.capture, out=out) for part in shlex.split(self.tool.command)]


def count(measurement: Measurement, out: Path) -> None:
    """Run a process to its end, and count its output."""
    with subprocess.Popen(measurement.line(out), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None  # noqa: S101 - for the type checker: a pipe was asked for
        measurement.found = measurement.tool.finding(process.stdout, out)


def run(measurement: Measurement, out: Path) -> None:
    """Run a process to its end, and add its resources.

    The kernel counts the parent's memory as the minimum of the peak, so the parent must be small.
    """
    start = time.perf_counter()
    launcher = [sys.executable, "-I", "-S", "-c", LAUNCHER, *measurement.line(out)]
    run = subprocess.run(launcher, capture_output=True, text=True, errors="replace", check=False)
    if run.returncode:
        measurement.failure = f"exit code {run.returncode}: {run.stderr.strip().splitlines()[-1:]}"
        return
    cpu, memory = run.stdout.split()
    measurement.wall.append(time.perf_counter() - start)
    measurement.cpu.append(float(cpu))
    measurement.memory.append(int(memory) * 1024)


def interleave(measurements: Sequence[Measurement], rounds: int) -> None:
    """Count the output of each tool, then run all in turns, except those that failed."""
    with TemporaryDirectory() as folder:
        for measurement in measurements:
            count(measurement, Path(folder) / measurement.name)
        for _ in range(rounds):
            for measurement in measurements:
                if not measurement.failure:
                    run(measurement, Path(folder) / measurement.name)


def differences(measurements: Sequence[Measurement]) -> list[str]:
    """Return a sentence for each tool whose counts differ from those of the first tool that counts anything on the same capture."""
    first: dict[tuple[Path, str], Measurement] = {}
    sentences = []
    for measurement in measurements:
        for what, found in (("frames", measurement.commands()), (MESSAGES, measurement.messages)):
            if not found:
                continue
            other = first.setdefault((measurement.capture, what), measurement)
            if found != (other.commands() if what == "frames" else other.messages):
                counts = f"{getattr(measurement, what):,} {what}, {other.name} {getattr(other, what):,}"
                sentences.append(f"{measurement.capture.name}: {measurement.name} finds {counts}")
    return sentences


def machine() -> str:
    """Describe the machine and the software of the measurement in one paragraph."""
    model = platform.processor()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), model)
    versions = []
    for name in ("pulsarscope", "protobuf", "msgspec", "crc32c", "lz4", "pyarrow", "dpkt", "scapy", "pyshark"):
        with suppress(PackageNotFoundError):
            versions.append(f"{name} {version(name)}")
    if shutil.which("tshark"):
        printed = subprocess.run(["tshark", "--version"], capture_output=True, text=True, check=True).stdout  # noqa: S607
        versions.append("tshark " + " ".join(re.findall(r"\d+\.\d+\.\d+", printed)[:1]))
    system = f"{platform.system()} {platform.release()}, {platform.python_implementation()} {platform.python_version()}"
    return f"{os.cpu_count()} cores of {model}, {system}; {', '.join(versions)}."
