"""The command `selftest`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import msgspec

import pulsarscope
from pulsarscope.cli.arguments.options import CommandRequest
from pulsarscope.cli.command_output import CommandOutput, with_output
from pulsarscope.cli.exit_codes import EXIT_DONE
from pulsarscope.model.errors import InternalError, PulsarscopeError, UsageError
from pulsarscope.model.platform import install_command, load_native
from pulsarscope.model.records import ALL

EXPECTED = Path(__file__).parents[1] / "selftest.json"
"""File with counts and digest of the rows by capture; docs/make_selftest.py writes it."""

FOLDERS = (Path(__file__).parents[2] / "captures", Path(__file__).parents[3] / "captures")
"""Folder of the captures in the wheel, and in a clone."""

KINDS = (*ALL, "journey")

EXTRAS = {
    "connect": ("grpc", "grpc_status"),
    "live": ("scapy", "prometheus_client"),
    "mcp": ("mcp",),
    "parquet": ("pyarrow",),
    "report": ("jinja2",),
    "spark": ("pyspark", "pandas", "pyarrow"),
    "sql": ("duckdb", "pyarrow"),
    "tui": ("textual",),
}
"""Packages of each extra, by import name."""


class Expected(msgspec.Struct, frozen=True):
    """The expected rows of a capture."""

    rows: dict[str, int]
    """Number of rows by kind."""
    digest: str
    """SHA-256 of the rows, each as JSON."""


class SelftestRequest(CommandRequest, frozen=True, kw_only=True):
    """Options of `selftest`: none."""


@with_output
def selftest(request: SelftestRequest, output: CommandOutput) -> int:
    """Check this installation against the bundled captures.

    Compares the rows with the expected ones; says which reader works and which extras are installed. The exit code is 6 when rows differ.
    """
    expected = expected_rows()
    folder = next((folder for folder in FOLDERS if all((folder / name).is_file() for name in expected)), None)
    if folder is None:
        raise UsageError("the captures of the self-test are missing; install pulsarscope from its wheel, or run this in a clone")
    sink = output.open(request, ())
    sink.write(f"pulsarscope {pulsarscope.__version__}, Python {sys.version.split()[0]}, {sys.platform}\n".encode())
    sink.write(f"reader: {load_native()[1]}\n".encode())
    for extra, packages in EXTRAS.items():
        missing = [package for package in packages if find_spec(package) is None]
        state = f"without {', '.join(missing)}: {install_command(extra)}" if missing else "installed"
        sink.write(f"extra {extra}: {state}\n".encode())
    wrong = 0
    for name, rows in expected.items():
        difference = _difference(folder / name, rows)
        wrong += difference is not None
        sink.write(f"{'ok    ' if difference is None else 'wrong '} {name}: {difference or _counts(rows)}\n".encode())
    sink.finish()
    if wrong:
        raise InternalError(f"{wrong} of {len(expected)} captures do not decode as expected; install pulsarscope again")
    return EXIT_DONE


def decoded(path: Path) -> Expected:
    """Decode a complete capture. Raises PulsarscopeError on failure."""
    counts, digest = Counter[str](), sha256()
    for row in pulsarscope.open(path).records(*KINDS):
        counts[row.kind] += 1
        digest.update(msgspec.json.encode(row))
    return Expected(dict(sorted(counts.items())), digest.hexdigest())


def expected_rows() -> Mapping[str, Expected]:
    """Return the expected rows by capture."""
    return msgspec.json.decode(EXPECTED.read_bytes(), type=dict[str, Expected])


def _counts(rows: Expected) -> str:
    return ", ".join(f"{count:,} {kind}{'s' if count != 1 else ''}" for kind, count in rows.rows.items())


def _difference(path: Path, expected: Expected) -> str | None:
    """Describe the difference from the expected rows; None when there is none."""
    try:
        found = decoded(path)
    except PulsarscopeError as error:
        return str(error)
    if found.rows != expected.rows:
        return f"{_counts(found)}, expected {_counts(expected)}"
    return None if found == expected else "the same number of rows, but different ones"
