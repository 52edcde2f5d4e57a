"""Acceptance of speed and memory: each promised figure of either reader, its target, and whether it is reached.

    python -m benchmarks.acceptance DIR [--tiny FILE] [--mixed FILE] [--shortconn FILE]
                                    [--reader compiled] [--rows a,d] [--rounds 5] [--markdown OUT]

The captures are generated into DIR once and kept (4 GB). Your own captures must be little-endian pcap files, of many unbatched
messages (tiny), several kinds of traffic (mixed), or many short connections (shortconn); rows whose capture is missing are not measured.
measure.py describes the method; the runs of a row take turns. A figure does not count if its run found something other than what the
capture contains: the content of generated captures is known, that of others comes from the dpkt decoder. Exit code 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from benchmarks import traffic
from benchmarks.measure import OURS, TOOLS, TSHARK, Measurement, Tool, count, differences, interleave, machine, missing
from benchmarks.traffic import Content

ROOT = Path(__file__).resolve().parent.parent
QUICKSTART = ROOT / "captures" / "quickstart.pcapng"
SEED = 1
COPIES = 10
FILES = 6
PORT = 6650
DISORDER = 0.005

WHAT_FRAMES_SAY = "direction,offset,size,command,fields,checksum,metadata,payload_size,num_messages,status"
"""Columns that do not depend on how packets carried the bytes, and when."""


def count_different(lines: Iterable[bytes], _: Path) -> Counter[str]:
    """Count lines by their digest."""
    return Counter(blake2b(line, digest_size=8).hexdigest() for line in lines)


JUDGED = f"{OURS} decode {{}} --format ndjson --records frame,finding"

SUITE = TOOLS | {
    "same": Tool(
        "pulsarscope decode (what frames say)", f"{OURS} decode {{}} --format ndjson --columns {WHAT_FRAMES_SAY}", count_different
    ),
    "help": Tool("pulsarscope --help", f"{OURS} --help"),
    "two-jobs": Tool("pulsarscope decode --jobs 2", TOOLS["frames"].command + " --jobs 2", TOOLS["frames"].finding),
    "judged": Tool("pulsarscope decode (frames and findings)", JUDGED, TOOLS["frames"].finding),
    "judged-two-jobs": Tool("pulsarscope decode --jobs 2 (frames and findings)", JUDGED + " --jobs 2", TOOLS["frames"].finding),
    "diagnose": Tool("pulsarscope diagnose", f"{OURS} diagnose {{}}"),
    "stats": Tool("pulsarscope stats", f"{OURS} stats {{}}"),
    "extract": Tool("pulsarscope extract", f"{OURS} extract {{}} -q -Y 'command == SEND' -o {{out}}.pcap"),
    "follow": Tool("pulsarscope follow --topic", f"{OURS} follow {{}} --topic {traffic.TOPIC}"),
    "tshark-list": Tool("tshark, a line for each packet", f"{TSHARK} -r {{}}"),
    "tshark-expert": Tool("tshark -z expert", f"{TSHARK} -q -z expert -r {{}}"),
}
"""Tools by name. Ours run with the reader of the row."""
GIVES_FRAMES = {"frames", "timeline", "all", "parquet", "dpkt", "same", "two-jobs", "judged", "judged-two-jobs"}
GIVES_MESSAGES = {"messages", "messages-columns", "all", "parquet"}

GENERATED: dict[str, Callable[[Path], Content]] = {
    "tiny": lambda out: traffic.steady(out, "tiny", 60, SEED),
    "sync": lambda out: traffic.steady(out, "sync", 25, SEED),
    "batch": lambda out: traffic.steady(out, "batch", 25, SEED),
    "big": lambda out: traffic.steady(out, "big", 1000, SEED),
    "connections": lambda out: traffic.short_connections(out, 20_000, SEED),
}
"""Arguments: 100-byte messages; one message at a time; LZ4 batches with keys and properties; 1 GB of 64 KiB bodies; 20,000 connections."""

Runs = list[Measurement]


def ratio(runs: Runs) -> float:
    """Return the processor time of the first run divided by that of the second."""
    return runs[0].best / runs[1].best


def gigabytes_per_second(runs: Runs) -> float:
    """Return the gigabytes of capture per second of processor time."""
    return runs[0].size / 1e9 / runs[0].best


def messages_per_second(runs: Runs) -> float:
    """Return the messages per second of processor time."""
    return runs[0].messages / runs[0].best


def seconds(runs: Runs) -> float:
    """Return the seconds of processor time."""
    return runs[0].best


def elapsed_ratio(runs: Runs) -> float:
    """Return the elapsed time of the first run divided by that of the second."""
    return min(runs[0].wall) / min(runs[1].wall)


def peak(runs: Runs) -> float:
    """Return the largest peak memory of the runs, in MiB."""
    return max(run.most for run in runs)


def unlike(runs: Runs) -> float:
    """Return the number of frames that only one of the two runs has."""
    one, other = (run.found for run in runs)
    return ((one - other) + (other - one)).total()


TIMES, MEBIBYTES, RATE, SPEED = "{:.2f}×", "{:.0f} MiB", "{:,.0f} a second", "{:.2f} GB/s"
AT_LEAST, AT_MOST = "≥", "≤"
COMPILED, PYTHON = "compiled", "Python"
READERS = {COMPILED: "require", PYTHON: "off"}
"""Values of PULSARSCOPE_NATIVE by reader."""


class Row(NamedTuple):
    """A promise. `runs` are pairs of tool and capture, compared in turns."""

    letter: str
    what: str
    runs: str
    figure: Callable[[Runs], float]
    bound: str
    targets: Mapping[str, float | None]
    """Target by reader; None if the figure is measured without one."""
    form: str = TIMES
    rounds: int | None = None
    """Number of rounds, if the requested number would waste time."""


def both(compiled: float | None, python: float | None) -> dict[str, float | None]:
    """Return the targets of both readers."""
    return {COMPILED: compiled, PYTHON: python}


LEAST_MEMORY = {COMPILED: 64.0}
"""Target in MiB of commands whose memory is not promised for the Python reader."""

ROWS = (
    Row("a", "decode: faster than dpkt, unbatched messages", "dpkt:tiny frames:tiny", ratio, AT_LEAST, both(25, 4.8)),
    Row("a", "decode: faster than dpkt, unbatched messages (given)", "dpkt:given-tiny frames:given-tiny", ratio, AT_LEAST, both(25, 4.8)),
    Row("a", "decode: faster than tshark -T fields (given)", "tshark-fields:given-tiny frames:given-tiny", ratio, AT_LEAST, both(20, None)),
    Row("b", "decode: faster than dpkt, mixed traffic ten times", "dpkt:mixed-x10 frames:mixed-x10", ratio, AT_LEAST, both(15, 3.5)),
    Row(
        "b",
        "decode: faster than dpkt, short connections ten times",
        "dpkt:shortconn-x10 frames:shortconn-x10",
        ratio,
        AT_LEAST,
        both(10, 2),
    ),
    Row("c", "decode: 1 GB of 64 KiB bodies", "frames:big", gigabytes_per_second, AT_LEAST, both(3, 0.6), SPEED),
    Row("d", "timeline to NDJSON, unbatched messages", "timeline:tiny frames:tiny", ratio, AT_MOST, {PYTHON: 1.6}),
    Row("d", "timeline to NDJSON, one message at a time", "timeline:sync frames:sync", ratio, AT_MOST, {PYTHON: 1.6}),
    Row("d", "timeline: faster than tshark's list (given)", "tshark-list:given-tiny timeline:given-tiny", ratio, AT_LEAST, {COMPILED: 4}),
    Row("e", "messages of LZ4 batches, all columns", "messages:batch", messages_per_second, AT_LEAST, both(2_000_000, 220_000), RATE),
    Row("e", "messages of LZ4 batches, ten columns", "messages-columns:batch", messages_per_second, AT_LEAST, both(None, 700_000), RATE),
    Row("f", "Parquet to NDJSON, all records of unbatched messages", "parquet:tiny all:tiny", ratio, AT_MOST, {PYTHON: 1.3}),
    Row("f", "Parquet to NDJSON, all records of LZ4 batches", "parquet:batch all:batch", ratio, AT_MOST, {PYTHON: 1.3}),
    Row("f", "Parquet of all records to NDJSON of frames (given)", "parquet:given-tiny frames:given-tiny", ratio, AT_MOST, {COMPILED: 2}),
    Row(
        "g",
        "memory: generated",
        "frames:tiny timeline:tiny frames:sync frames:big messages:batch",
        peak,
        AT_MOST,
        both(64, 64),
        MEBIBYTES,
        1,
    ),
    Row("g", "memory: 20,000 connections", "frames:connections timeline:connections", peak, AT_MOST, both(64, 64), MEBIBYTES, 1),
    Row("g", "memory: unbatched messages ten times", "frames:tiny-x10", peak, AT_MOST, both(64, 64), MEBIBYTES, 1),
    Row("g", "memory: mixed traffic", "frames:mixed timeline:mixed messages:mixed", peak, AT_MOST, both(64, 64), MEBIBYTES, 1),
    Row(
        "g",
        "memory: mixed traffic ten times",
        "frames:mixed-x10 timeline:mixed-x10 messages:mixed-x10",
        peak,
        AT_MOST,
        both(64, 64),
        MEBIBYTES,
        1,
    ),
    Row(
        "g",
        "memory: short connections",
        "frames:shortconn timeline:shortconn messages:shortconn",
        peak,
        AT_MOST,
        both(64, 64),
        MEBIBYTES,
        1,
    ),
    Row(
        "g", "memory: short connections ten times", "frames:shortconn-x10 timeline:shortconn-x10", peak, AT_MOST, both(64, 64), MEBIBYTES, 1
    ),
    *(
        Row("g", f"memory of {tool}: {what} ten times", f"{tool}:{capture}-x10", peak, AT_MOST, LEAST_MEMORY, MEBIBYTES, 1)
        for tool in ("stats", "diagnose", "extract")
        for what, capture in (("unbatched messages", "tiny"), ("mixed traffic", "mixed"), ("short connections", "shortconn"))
    ),
    Row("g", "memory of Parquet: generated", "parquet:tiny parquet:batch parquet:big", peak, AT_MOST, both(160, 160), MEBIBYTES, 1),
    Row("g", "memory of Parquet: 20,000 connections", "parquet:connections", peak, AT_MOST, both(160, 160), MEBIBYTES, 1),
    Row("g", "memory of Parquet: given", "parquet:mixed parquet:shortconn", peak, AT_MOST, both(160, 160), MEBIBYTES, 1),
    Row("g", "memory of Parquet: given, ten times", "parquet:mixed-x10 parquet:shortconn-x10", peak, AT_MOST, both(160, 160), MEBIBYTES, 1),
    Row("h", "decode: 0.5 % of packets out of order to in order", "frames:disorder frames:tiny", ratio, AT_MOST, {PYTHON: 1.1}),
    Row("h", "frames that disorder changes", "same:disorder same:tiny", unlike, AT_MOST, both(0, 0), "{:.0f}", 0),
    Row("i", "--help", "help:quickstart", seconds, AT_MOST, both(0.15, 0.15), "{:.3f} s", 10),
    Row("i", "decode: a small capture, timeline", "timeline:quickstart", seconds, AT_MOST, both(0.25, 0.25), "{:.3f} s", 10),
    Row("i", "decode: a small capture, NDJSON", "frames:quickstart", seconds, AT_MOST, both(0.25, 0.25), "{:.3f} s", 10),
    Row(
        "j",
        "two jobs: elapsed time of one, six files",
        "frames:tiny-apart two-jobs:tiny-apart",
        elapsed_ratio,
        AT_LEAST,
        both(None, None),
        rounds=2,
    ),
    Row(
        "j",
        "two jobs: elapsed time of one, one file",
        "judged:mixed-x10 judged-two-jobs:mixed-x10",
        elapsed_ratio,
        AT_LEAST,
        both(1.7, 1.6),
    ),
    Row("k", "diagnose to decode (given)", "diagnose:given-tiny frames:given-tiny", ratio, AT_MOST, both(3, 2.5)),
    Row(
        "k",
        "diagnose: faster than tshark -z expert (given)",
        "tshark-expert:given-tiny diagnose:given-tiny",
        ratio,
        AT_LEAST,
        {COMPILED: 1},
    ),
    Row("k", "stats to decode (given)", "stats:given-tiny frames:given-tiny", ratio, AT_MOST, both(2, 2)),
    Row("k", "extract -Y to decode (given)", "extract:given-tiny frames:given-tiny", ratio, AT_MOST, both(2, 2)),
    Row("k", "follow --topic to decode", "follow:tiny frames:tiny", ratio, AT_MOST, both(2, 2)),
)


class Captures:
    """The captures in a folder and their content, made on first use."""

    def __init__(self, folder: Path, given: dict[str, Path]) -> None:
        self._folder = folder
        self._given = given
        folder.mkdir(parents=True, exist_ok=True)

    def get(self, name: str) -> tuple[Path, Content]:
        """Return a capture by name. The suffix -x10 stands for ten copies in one file, -apart for a folder of copies.

        Raises:
            KeyError: there is no capture of that name.
        """
        once = name.removesuffix(f"-x{COPIES}")
        if name == "quickstart":
            return QUICKSTART, Content(0, 0)
        if once != name:
            source, content = self.get(once)
            copies = traffic.copies(source, COPIES, PORT)
            return self._made(f"{source.stem}-x{COPIES}", lambda out: write(source, out, copies, content.times(COPIES)))
        if name.endswith("-apart"):
            source, content = self.get(name.removesuffix("-apart"))
            return self._made(name, lambda out: write_apart(source, out, content))
        if name in self._given:
            source = self._given[name]
            return source, self._made(source.stem, lambda _: content_of(source))[1]
        if name == "disorder":
            source, content = self.get("tiny")
            packets = traffic.disordered(source, DISORDER, SEED)
            return self._made(name, lambda out: write(source, out, packets, content))
        return self._made(name, GENERATED[name])

    def _made(self, name: str, make: Callable[[Path], Content]) -> tuple[Path, Content]:
        """Build the capture of that name, and record its content once it is complete."""
        out, note = self._folder / (name if name.endswith("-apart") else f"{name}.pcap"), self._folder / f"{name}.json"
        if not note.exists():
            note.write_text(json.dumps(make(out)))
        return out, Content(*json.loads(note.read_text()))


def write(source: Path, out: Path, packets: Iterable[tuple[int, bytes]], content: Content) -> Content:
    """Write the packets of `source`, and return their content."""
    traffic.write_records(source, out, packets)
    return content


def write_apart(source: Path, out: Path, content: Content) -> Content:
    """Write copies of an IPv4 capture into a folder, one file each, and return their content."""
    out.mkdir(exist_ok=True)
    packets = traffic.copies(source, FILES, PORT)
    length = sum(1 for _ in traffic.records(source))
    for number in range(FILES):
        traffic.write_records(source, out / f"{number}.pcap", islice(packets, length))
    return content.times(FILES)


def content_of(capture: Path) -> Content:
    """Return the content according to the dpkt decoder, which does not decode messages."""
    peer = Measurement(capture, "dpkt", TOOLS["dpkt"])
    count(peer, Path())
    return Content(peer.frames, 0)


def wrong(runs: Runs, contents: list[Content]) -> list[str]:
    """Return the differences between expected and decoded content."""
    sentences = differences([run for run in runs if run.name != "same"])
    for run, content in zip(runs, contents, strict=True):
        for what, given, found, there in (
            ("frames", GIVES_FRAMES, run.frames, content.frames),
            ("messages", GIVES_MESSAGES, run.messages, content.messages),
        ):
            if run.name in given and there and found != there:
                sentences.append(f"{run.name} finds {found:,} of {there:,} {what} of {run.capture.name}")
    return sentences


def tool_of(name: str, reader: str) -> Tool:
    """Return a tool, told which reader to take if it is ours."""
    tool = SUITE[name]
    ours = tool.command.startswith(str(OURS))
    return tool._replace(command=f"env PULSARSCOPE_NATIVE={READERS[reader]} {tool.command}") if ours else tool


def judge(row: Row, reader: str, captures: Captures, rounds: int) -> tuple[str, str, Runs]:
    """Measure a row with a reader. Return the figure, or why there is none; the verdict; the runs."""
    pairs = [run.split(":") for run in row.runs.split()]
    if reader == COMPILED and not find_spec("pulsarscope_native"):
        return "pulsarscope_native is not installed", "not measured", []
    for tool, _ in pairs:
        if reason := missing(SUITE[tool]):
            return reason, "not measured", []
    try:
        found = [captures.get(capture) for _, capture in pairs]
    except KeyError as name:
        return f"no {name.args[0]} capture was given", "not measured", []
    runs = [Measurement(path, tool, tool_of(tool, reader)) for (tool, _), (path, _) in zip(pairs, found, strict=True)]
    interleave(runs, rounds if row.rounds is None else row.rounds)
    problems = [f"{run.name}: {run.failure}" for run in runs if run.failure] or wrong(runs, [content for _, content in found])
    if problems:
        return "; ".join(problems), "**wrong**", runs
    figure, target = row.figure(runs), row.targets[reader]
    if target is None:
        return row.form.format(figure), "", runs
    reached = figure >= target if row.bound == AT_LEAST else figure <= target
    return row.form.format(figure), "reached" if reached else "**missed**", runs


Measured = list[tuple[Row, str, Measurement]]
"""Rows, readers and their runs."""


def table(promises: Iterable[tuple[Row, str]], captures: Captures, rounds: int, measured: Measured) -> Iterator[str]:
    """Yield the lines of the table as they are measured."""
    yield f"Whole processes in turns, {rounds} rounds; least processor time, most memory. {machine()}\n"
    yield "| | what | reader | figure | target | |"
    yield "|---|---|---|---:|---:|---|"
    for row, reader in promises:
        figure, verdict, runs = judge(row, reader, captures, rounds)
        measured += [(row, reader, run) for run in runs]
        target = row.targets[reader]
        shown = "" if target is None else f"{row.bound} {row.form.format(target)}"
        yield f"| {row.letter} | {row.what} | {reader} | {figure} | {shown} | {verdict} |"


def details(measured: Measured) -> Iterator[str]:
    """Return the individual runs behind the table."""
    yield "\n| | tool | reader | capture | MB | frames | messages | cpu s | wall s | peak MiB |"
    yield "|---|---|---|---|---:|---:|---:|---:|---:|---:|"
    for row, reader, run in measured:
        if run.cpu:
            frames, messages = (f"{number:,}" if number else "" for number in (run.frames, run.messages))
            start = f"| {row.letter} | {run.tool.label} | {reader} | {run.capture.name} | {run.size / 1e6:.1f} | {frames} | {messages} |"
            yield f"{start} {run.best:.2f} | {min(run.wall):.2f} | {run.most:.0f} |"


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="DIR")
    for name in ("tiny", "mixed", "shortconn"):
        parser.add_argument(f"--{name}", type=Path, metavar="FILE")
    parser.add_argument("--reader", choices=READERS, help="only this one; otherwise both")
    parser.add_argument("--rows", default="", metavar="LETTERS", help="only these, as in a,d; otherwise all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--markdown", type=Path, help="write the tables there, too")
    options = parser.parse_args(arguments)
    given = {"given-tiny": options.tiny, "mixed": options.mixed, "shortconn": options.shortconn}
    captures = Captures(options.folder, {name: path for name, path in given.items() if path})
    letters = [letter for letter in options.rows.split(",") if letter]
    readers = [options.reader] if options.reader else list(READERS)
    rows = [row for row in ROWS if not letters or row.letter in letters]
    promises = [(row, reader) for reader in readers for row in rows if reader in row.targets]
    measured: Measured = []
    lines = []
    for line in chain(table(promises, captures, options.rounds, measured), details(measured)):
        print(line, flush=True)
        lines.append(line)
    if options.markdown:
        options.markdown.write_text("\n".join(lines) + "\n")
    sys.exit(any("| **" in line for line in lines))


if __name__ == "__main__":
    main()
