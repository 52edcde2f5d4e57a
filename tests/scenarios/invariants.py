"""Invariants of any capture, whatever it contains."""

from __future__ import annotations

import csv
import gzip
import io
import json
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import msgspec

from pulsarscope import cli
from pulsarscope.dissect.contract.generic_codes import DISSECTOR_FAILED, RULE_FAILED
from pulsarscope.engine.options import ALL_RECORDS, Options
from pulsarscope.engine.parallel import run
from pulsarscope.model.errors import CaptureError
from pulsarscope.model.records import ALL, ConnectionRow, FindingRow, FrameRow
from pulsarscope.model.text import each_line
from pulsarscope.output.registry import encoder

SECONDS = 2.0
SECONDS_PER_BYTE = 20e-6
"""Processor time that an input may take. A whole byte of a real capture takes a hundredth of it."""

MEMORY_STEP_KIB = 128 << 10
"""Largest growth of the process's peak memory for one small input."""

COMMANDS: tuple[tuple[str, ...], ...] = (
    ("decode", "IN"),
    ("decode", "IN", "-V"),
    ("decode", "IN", "-x"),
    ("decode", "IN", "-f", "json"),
    ("decode", "IN", "-f", "parquet", "-o", "OUT"),
    ("messages", "IN"),
    ("stats", "IN"),
    ("stats", "IN", "--by", "topics"),
    ("diagnose", "IN"),
    ("follow", "IN", "--connection", "1"),
    ("extract", "IN", "-o", "OUT"),
    ("compare", "IN", "IN"),
)
"""Command lines; IN is the input, OUT a file."""

EXIT_CODES = (0, 1, 2, 3, 4)
"""Among them 2, of `follow`: there is no such connection."""


class InvariantError(AssertionError):
    """A violated invariant."""


def require(condition: object, message: str) -> None:
    """Raise InvariantError with the message unless the condition holds."""
    if not condition:
        raise InvariantError(message)


class Invariants:
    """Checks of inputs, which are written to files in a folder."""

    def __init__(self, folder: Path, options: Options) -> None:
        self._folder = folder
        self._options = msgspec.structs.replace(options, records=ALL_RECORDS, rules=True, raw=False)
        self._quick = msgspec.structs.replace(self._options, private_keys=())  # loading a key takes longer than most inputs
        self._peak = 0

    def check(self, data: bytes, *, good_checksums_max: int | None = None, other: int | None = None) -> None:
        """Check one input.

        Args:
            data: bytes of a capture file.
            good_checksums_max: largest number of entries with a correct checksum.
            other: number of the one check to run of those that are too slow for each input; NONE for none, None for all.

        Raises:
            InvariantError: an invariant does not hold; other exceptions are the decoder's own.
        """
        path = self._folder / "in.pcap"
        path.write_bytes(data)
        begun = time.process_time()
        options = self._options if other is None or other % OTHERS == 0 else self._quick
        rows = self._rows(path, options)
        self._check_cost(data, begun)
        check_rows(rows, good_checksums_max)
        check_account(rows)
        check_lines(rows)
        for number in range(OTHERS) if other is None else [] if other == NONE else [other % OTHERS]:
            self._check_other(path, data, rows, number, options)

    def _rows(self, path: Path, options: Options | None = None, jobs: int = 1) -> list[Any]:
        try:
            return [row for batch in run([str(path)], options or self._options, jobs) for row in batch.rows]
        except CaptureError:
            return []

    def _check_cost(self, data: bytes, begun: float) -> None:
        seconds = time.process_time() - begun
        require(seconds < SECONDS + SECONDS_PER_BYTE * len(data), f"{seconds:.1f} s of processor time for {len(data)} bytes")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        step, self._peak = peak - self._peak if self._peak else 0, peak
        require(step < MEMORY_STEP_KIB, f"{step >> 10} MiB more memory for {len(data)} bytes")

    def _check_other(self, path: Path, data: bytes, rows: Sequence[Any], number: int, options: Options) -> None:
        if number < len(COMMANDS):
            self._check_command(path, COMMANDS[number])
        elif number == len(COMMANDS):
            for kind in ALL:
                check_csv([row for row in self._rows(path, options) if row.kind == kind], kind)
        elif number == len(COMMANDS) + 1 and not data.startswith(COMPRESSED):
            packed = self._folder / "in.pcap.gz"
            packed.write_bytes(gzip.compress(data, 1))
            require(comparable(self._rows(packed, options)) == comparable(rows), "other rows from the same capture in gzip")

    def check_jobs(self, data: bytes) -> None:
        """Require that two processes give the rows of one."""
        path = self._folder / "jobs.pcap"
        path.write_bytes(data)
        require(comparable(self._rows(path, jobs=2)) == comparable(self._rows(path)), "other rows with --jobs 2")

    def _check_command(self, path: Path, command: Sequence[str]) -> None:
        written = self._folder / "out"
        written.unlink(missing_ok=True)
        arguments = [{"IN": str(path), "OUT": str(written)}.get(word, word) for word in command]
        output, written_errors = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.BytesIO()
        errors = io.TextIOWrapper(written_errors, "utf-8", write_through=True)
        before, sys.argv = sys.argv, ["pulsarscope", *arguments]
        code: Any = 0
        try:
            with redirect_stdout(output), redirect_stderr(errors):
                cli.main()
        except SystemExit as ended:
            code = ended.code or 0
        finally:
            sys.argv = before
        printed = written_errors.getvalue().decode()
        require(code in EXIT_CODES, f"{' '.join(command)}: exit code {code}: {printed[-500:]}")
        require("Traceback" not in printed, f"{' '.join(command)}: {printed[-500:]}")


OTHERS = len(COMMANDS) + 2
NONE = -1

COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
"""First bytes of gzip and Zstandard: captures are compressed once."""


def check_rows(rows: Sequence[Any], good_checksums_max: int | None) -> None:
    """Require that nothing failed, that all rows of a connection name its dissector, and that no changed entry has a correct checksum."""
    dissectors = {row.connection: row.dissector for row in rows if isinstance(row, ConnectionRow)}
    for row in rows:
        if isinstance(row, FindingRow):
            require(row.code not in (DISSECTOR_FAILED, RULE_FAILED), f"{row.code}: {row.text}")
        expected = dissectors.get(row.connection)
        require(row.dissector == expected or (isinstance(row, FindingRow) and row.dissector != ""), f"{row} is not of {expected}")
    if good_checksums_max is not None:
        good = sum(isinstance(row, FrameRow) and row.checksum is not None and row.checksum.status == "good" for row in rows)
        require(good <= good_checksums_max, f"{good} good checksums, {good_checksums_max} of unchanged entries")


def check_account(rows: Sequence[Any]) -> None:
    """Require that the rows of each connection account for every byte of its streams."""
    sizes: Counter[tuple[str | None, str]] = Counter()
    for row in rows:
        if isinstance(row, FrameRow) and row.status not in ("skipped", "truncated"):
            sizes[row.connection, row.direction] += row.size
    for row in rows:
        if isinstance(row, ConnectionRow):
            for side in ("client", "server"):
                size, missing, skipped, tail = (getattr(row, f"{side}_{part}") for part in ("bytes", "missing", "skipped", "tail"))
                counted = sizes[row.connection, side] + missing + skipped + tail
                require(size == counted, f"{row.connection} {side}: {size} bytes, {counted} in its rows")


def check_lines(rows: list[Any]) -> None:
    """Require one JSON object per row, without control characters."""
    rows = [msgspec.structs.replace(row) for row in rows]
    lines: Any = encoder("ndjson", tuple(ALL), None)
    for line in each_line(lines.lines(rows)):
        text = line.decode()
        require(isinstance(json.loads(text), dict), f"no JSON object: {text[:200]!r}")


def check_csv(rows: list[Any], kind: str) -> None:
    """Require one record per row, all with the same number of cells."""
    made: Any = encoder("csv", (kind,), None)
    text = b"".join([made.header(), *made.lines(list(rows))]).decode()
    records = list(csv.reader(io.StringIO(text, newline="")))
    require(len(records) == len(rows) + 1, f"{len(records)} CSV records of {len(rows)} {kind} rows")
    require(len({len(record) for record in records}) == 1, f"CSV records of {kind} rows differ in length")


def comparable(rows: Sequence[Any]) -> list[bytes]:
    """Return the rows as JSON, without what depends on the path of the file."""
    return list(_comparable(rows))


def _comparable(rows: Sequence[Any]) -> Iterator[bytes]:
    for row in rows:
        yield msgspec.json.encode(row).replace(b"in.pcap.gz", b"in.pcap")
