"""Runs pulsarscope and its peers on captures and compares processor time and memory.

    python -m benchmarks.compare FILE... [--rounds 5] [--tools ours,dpkt,tshark-json] [--markdown OUT] [--svg OUT]

Every tool is a whole process, start-up and imports included, writing to /dev/null. The tools take turns, so that a slow moment of the
machine hits all of them; of the rounds the least processor time (user + system) counts, and the most memory. tshark is run with
reassembly of disordered segments: without it, it loses frames. Where tshark has no Pulsar dissector it does less than the others: it
decodes TCP only.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

OURS = Path(sys.executable).with_name("pulsarscope")
TSHARK = "tshark -n -o tcp.reassemble_out_of_order:TRUE"
TSHARK_FIELDS = "frame.number frame.time_epoch ip.src tcp.srcport ip.dst tcp.dstport tcp.stream tcp.seq tcp.len"

LAUNCHER = """
import os, subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(child.pid, 0)
child.returncode = os.waitstatus_to_exitcode(status)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
sys.exit(child.returncode)
"""
"""Starts one tool from a process of a few MB, and tells its processor time in seconds and its peak memory in KiB."""

TOOLS = {
    "ours": f"{OURS} decode {{}} --format ndjson --records frame",
    "ours-messages": f"{OURS} messages {{}} --format ndjson",
    "dpkt": f"{sys.executable} -m benchmarks.dpkt_decoder {{}}",
    "tshark-json": f"{TSHARK} -T json -r {{}}",
    "tshark-fields": f"{TSHARK} -T fields {' '.join('-e ' + name for name in TSHARK_FIELDS.split())} -r {{}}",
}
"""Command line by name; {} is the capture."""

LABELS = {
    "ours": "pulsarscope decode",
    "ours-messages": "pulsarscope messages",
    "dpkt": "dpkt + protobuf + json",
    "tshark-json": "tshark -T json",
    "tshark-fields": "tshark -T fields",
}


@dataclass(slots=True)
class Measurement:
    """One tool on one capture. Times in seconds, memory in bytes; empty lists when it failed."""

    capture: Path
    tool: str
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    failure: str = ""

    @property
    def best(self) -> float:
        """Least processor time."""
        return min(self.cpu)


def run(command: list[str], measurement: Measurement) -> None:
    """Runs a process to its end and adds what it took.

    The kernel counts the memory of the process that starts it as the least of its peak: a small one does.
    """
    start = time.perf_counter()
    launcher = [sys.executable, "-I", "-S", "-c", LAUNCHER, *command]
    run = subprocess.run(launcher, capture_output=True, text=True, errors="replace", check=False)
    if run.returncode:
        measurement.failure = f"exit code {run.returncode}: {run.stderr.strip().splitlines()[-1:]}"
        return
    cpu, memory = run.stdout.split()
    measurement.wall.append(time.perf_counter() - start)
    measurement.cpu.append(float(cpu))
    measurement.memory.append(int(memory) * 1024)


def measure(captures: list[Path], tools: dict[str, str], rounds: int) -> list[Measurement]:
    """All tools on all captures. A tool that fails on a capture is not run on it again."""
    measurements = []
    for capture in captures:
        with capture.open("rb") as file:  # the first reader of a cold file would pay for it
            while file.read(1 << 20):
                pass
        row = [Measurement(capture, tool) for tool in tools]
        for _ in range(rounds):
            for measurement in row:
                if not measurement.failure:
                    run([part.format(capture) for part in shlex.split(tools[measurement.tool])], measurement)
        measurements += row
    return measurements


def has_pulsar_dissector() -> bool:
    """Whether the installed tshark knows the protocol."""
    protocols = subprocess.run(["tshark", "-G", "protocols"], capture_output=True, text=True, check=True).stdout  # noqa: S607
    return any(line.split("\t")[-1] == "pulsar" for line in protocols.splitlines())


def label(tool: str, dissector: bool) -> str:
    """The name of a tool in the results; says when tshark only decodes TCP."""
    name = LABELS.get(tool, tool)
    return f"{name} (TCP only: no Pulsar dissector)" if tool.startswith("tshark") and not dissector else name


def markdown(measurements: list[Measurement], rounds: int, *, dissector: bool) -> str:
    """The results as a table. Ratios are processor time to that of the first tool."""
    lines = [
        f"Least processor time (user + system) and most memory of {rounds} interleaved rounds of whole processes.",
        "",
        "| capture | MB | tool | cpu s | ratio | wall s | peak MiB |",
        "|---|---:|---|---:|---:|---:|---:|",
    ]
    first: Measurement | None = None
    for row in measurements:
        if first is None or row.capture != first.capture:
            first = row
        start = f"| {row.capture.name} | {row.capture.stat().st_size / 1e6:.1f} | {label(row.tool, dissector)} |"
        if row.failure:
            lines.append(f"{start} failed: {row.failure} | | | |")
            continue
        ratio = "" if first.failure else f"{row.best / first.best:.1f}×"
        lines.append(f"{start} {row.best:.2f} | {ratio} | {min(row.wall):.2f} | {max(row.memory) / (1 << 20):.0f} |")
    return "\n".join(lines) + "\n"


BAR, GAP, LEFT, WIDTH = 18, 14, 330, 900
OURS_COLOR, PEER_COLOR, TEXT_COLOR = "#2f6fde", "#a8b0bd", "#24292f"


def svg(measurements: list[Measurement], *, dissector: bool) -> str:
    """The results as horizontal bars; each capture has a scale of its own."""
    shapes = []
    y = 34
    for capture in dict.fromkeys(row.capture for row in measurements):
        rows = [row for row in measurements if row.capture == capture and not row.failure]
        if not rows:
            continue
        longest = max(row.best for row in rows)
        title = f"{capture.name}, {capture.stat().st_size / 1e6:.0f} MB"
        shapes.append(f'<text x="12" y="{y + 12}" font-weight="bold">{escape(title)}</text>')
        y += BAR + 6
        for row in rows:
            width = max(1.0, (WIDTH - LEFT - 120) * row.best / longest)
            color = OURS_COLOR if row.tool.startswith("ours") else PEER_COLOR
            shapes.append(f'<text x="{LEFT - 8}" y="{y + 13}" text-anchor="end">{escape(label(row.tool, dissector))}</text>')
            shapes.append(f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR}" rx="2" fill="{color}"/>')
            shapes.append(f'<text x="{LEFT + width + 6:.1f}" y="{y + 13}">{row.best:.2f} s, {max(row.memory) / (1 << 20):.0f} MiB</text>')
            y += BAR + 4
        y += GAP
    body = "\n".join(shapes)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" height="{y}" '
        f'font-family="system-ui, sans-serif" font-size="13" fill="{TEXT_COLOR}">\n'
        f'<rect width="{WIDTH}" height="{y}" fill="#ffffff"/>\n'
        f'<text x="12" y="20" font-size="15">Processor seconds (shorter is better) and peak memory, whole processes</text>\n'
        f"{body}\n</svg>\n"
    )


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("captures", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tools", default="ours,dpkt,tshark-json", help=f"of {','.join(TOOLS)}; the first is what ratios refer to")
    parser.add_argument("--add", action="append", default=[], metavar="NAME=COMMAND", help="another tool; {} in it is the capture")
    parser.add_argument("--markdown", type=Path, help="write the table there, too")
    parser.add_argument("--svg", type=Path, help="draw the results there")
    options = parser.parse_args(arguments)
    tools = {name: TOOLS[name] for name in options.tools.split(",")} | dict(part.split("=", 1) for part in options.add)
    if not shutil.which("tshark"):
        tools = {name: command for name, command in tools.items() if not command.startswith("tshark")}
    dissector = any(command.startswith("tshark") for command in tools.values()) and has_pulsar_dissector()
    measurements = measure(options.captures, tools, options.rounds)
    table = markdown(measurements, options.rounds, dissector=dissector)
    print(table, end="")
    if options.markdown:
        options.markdown.write_text(table)
    if options.svg:
        options.svg.write_text(svg(measurements, dissector=dissector))


if __name__ == "__main__":
    main()
