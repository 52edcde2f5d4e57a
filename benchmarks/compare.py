"""Runs pulsarscope and its peers on captures and compares processor time and memory.

    python -m benchmarks.compare FILE... [--rounds 5] [--tools frames,dpkt,tshark-json] [--cut 20000] [--markdown OUT] [--svg OUT]
        [--readme README.md]

measure.py describes the method. Peers too slow for a whole capture are compared with ours on its first packets. Peers that are not
installed are named and left out. Without a Pulsar dissector, tshark does less than the others: it decodes TCP only. Exit code 1 if two of
them find different frames.
"""

from __future__ import annotations

import argparse
import re
import sys
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.sax.saxutils import escape

from benchmarks.measure import TOOLS, Measurement, Tool, differences, has_pulsar_dissector, interleave, machine, missing
from benchmarks.traffic import records, write_records


def cut(capture: Path, out: Path, packets: int) -> Path:
    """Copy the first packets of a capture.

    Raises:
        ValueError: the capture is not a little-endian pcap file.
    """
    write_records(capture, out, islice(records(capture), packets))
    return out


def measure(capture: Path, tools: dict[str, Tool], rounds: int) -> list[Measurement]:
    """Return the commands of the tools for a capture."""
    row = [Measurement(capture, name, tool) for name, tool in tools.items()]
    interleave(row, rounds)
    return row


def compare(captures: list[Path], tools: dict[str, Tool], rounds: int, packets: int) -> list[Measurement]:
    """Return the commands for each capture; slow tools get its first packets, after the tool that the ratios refer to."""
    fast = {name: tool for name, tool in tools.items() if not tool.cut}
    slow = {name: tool for name, tool in tools.items() if tool.cut}
    measurements = []
    for capture in captures:
        measurements += measure(capture, fast, rounds)
        if slow:
            with TemporaryDirectory() as folder:
                try:
                    beginning = cut(capture, Path(folder) / f"{capture.name}, first {packets:,} packets", packets)
                except ValueError as problem:
                    print(f"skipped {', '.join(slow)}: {problem}", file=sys.stderr)
                else:
                    measurements += measure(beginning, dict(list(fast.items())[:1]) | slow, rounds)
    return measurements


def label(measurement: Measurement, *, dissector: bool) -> str:
    """Return the name of a tool in the results, with a note if tshark decodes only TCP."""
    tshark_only = measurement.name.startswith("tshark") and not dissector
    return f"{measurement.tool.label} (TCP only: no Pulsar dissector)" if tshark_only else measurement.tool.label


def markdown(measurements: list[Measurement], rounds: int, *, dissector: bool) -> str:
    """Format the results as a table; ratios are CPU time relative to the first tool on a capture."""
    lines = [
        f"Least processor time (user + system) and most memory of {rounds} interleaved rounds of whole processes. {machine()}",
        "",
        "| capture | MB | tool | frames | cpu s | ratio | wall s | peak MiB |",
        "|---|---:|---|---:|---:|---:|---:|---:|",
    ]
    first: Measurement | None = None
    for row in measurements:
        if first is None or row.capture != first.capture:
            first = row
        found = f"{row.frames:,}" if row.frames else ""
        start = f"| {row.capture.name} | {row.size / 1e6:.1f} | {label(row, dissector=dissector)} | {found} |"
        if row.failure:
            lines.append(f"{start} failed: {row.failure} | | | |")
            continue
        ratio = "" if first.failure else f"{row.best / first.best:.1f}×"
        lines.append(f"{start} {row.best:.2f} | {ratio} | {min(row.wall):.2f} | {row.most:.0f} |")
    return "\n".join(lines) + "\n"


README_PART = re.compile("(?<=<!-- speed: made by benchmarks.compare -->\n).*?(?=<!-- /speed -->)", re.DOTALL)


def short_table(measurements: list[Measurement]) -> str:
    """Format processor times with one row for each capture and one column for each tool, each with its ratio to the slowest."""
    captures = dict.fromkeys(row.capture for row in measurements)
    names = list(dict.fromkeys(row.tool.label for row in measurements))
    lines = [f"| processor time | {' | '.join(names)} |", "|---|" + "---:|" * len(names)]
    for capture in captures:
        best = {row.tool.label: row.best for row in measurements if row.capture == capture and not row.failure}
        slowest = max(best.values(), default=0)
        cells = [f"{best[name]:.2f} s ({slowest / best[name]:.1f}×)" if name in best else "" for name in names]
        of_capture = next(row for row in measurements if row.capture == capture)
        lines.append(f"| {capture.stem}, {of_capture.size / 1e6:.0f} MB, {of_capture.frames:,} frames | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def write_readme(readme: Path, measurements: list[Measurement]) -> None:
    """Put the short table into a README, between its two marks. Raises ValueError if it has none."""
    text, count = README_PART.subn(lambda _: "\n" + short_table(measurements) + "\n", readme.read_text())
    if not count:
        raise ValueError(f"{readme} has no marks for the table")
    readme.write_text(text)


BAR, GAP, LEFT, WIDTH = 18, 14, 400, 960
OURS_COLOR, PEER_COLOR, TEXT_COLOR = "#2f6fde", "#a8b0bd", "#24292f"


def svg(measurements: list[Measurement], *, dissector: bool) -> str:
    """Draw the results as horizontal bars, with a scale for each capture."""
    shapes = []
    y = 34
    for capture in dict.fromkeys(row.capture for row in measurements):
        rows = [row for row in measurements if row.capture == capture and not row.failure]
        if not rows:
            continue
        longest = max(row.best for row in rows)
        title = f"{capture.name}, {rows[0].size / 1e6:.0f} MB"
        shapes.append(f'<text x="12" y="{y + 12}" font-weight="bold">{escape(title)}</text>')
        y += BAR + 6
        for row in rows:
            width = max(1.0, (WIDTH - LEFT - 180) * row.best / longest)
            color = OURS_COLOR if row.tool.label.startswith("pulsarscope") else PEER_COLOR
            figures = f"{row.best:.2f} s, {row.best / rows[0].best:.1f}×, {row.most:.0f} MiB"
            shapes.append(f'<text x="{LEFT - 8}" y="{y + 13}" text-anchor="end">{escape(label(row, dissector=dissector))}</text>')
            shapes.append(f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR}" rx="2" fill="{color}"/>')
            shapes.append(f'<text x="{LEFT + width + 6:.1f}" y="{y + 13}">{figures}</text>')
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
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("captures", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    default = "frames,dpkt,tshark-fields,tshark-json,scapy,pyshark"
    parser.add_argument("--tools", default=default, help=f"of {', '.join(TOOLS)}; the first is what ratios refer to")
    parser.add_argument("--add", action="append", default=[], metavar="NAME=COMMAND", help="another tool; {} in it is the capture")
    parser.add_argument("--cut", type=int, default=20_000, metavar="PACKETS", help="how many the slow peers get")
    parser.add_argument("--markdown", type=Path, help="write the table there, too")
    parser.add_argument("--svg", type=Path, help="draw the results there")
    parser.add_argument("--readme", type=Path, help="put a short table into this README, between its marks")
    options = parser.parse_args(arguments)
    tools = {name: TOOLS[name] for name in options.tools.split(",")}
    tools |= {name: Tool(name, command) for name, _, command in (part.partition("=") for part in options.add)}
    for name, reason in [(name, missing(tool)) for name, tool in tools.items()]:
        if reason:
            print(f"skipped {name}: {reason}", file=sys.stderr)
            del tools[name]
    dissector = any(name.startswith("tshark") for name in tools) and has_pulsar_dissector()
    measurements = compare(options.captures, tools, options.rounds, options.cut)
    table = markdown(measurements, options.rounds, dissector=dissector)
    print(table, end="")
    if options.markdown:
        options.markdown.write_text(table)
    if options.svg:
        options.svg.write_text(svg(measurements, dissector=dissector))
    if options.readme:
        write_readme(options.readme, measurements)
    wrong = differences(measurements)
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
