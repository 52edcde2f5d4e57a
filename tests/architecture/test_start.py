"""The start of the program: imports of help and of a plain decode."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.places import ROOT

PROGRAM = """
import sys
import msgspec  # what it imports itself is its own
before = set(sys.modules)
from pulsarscope.__main__ import main
sys.argv = ["pulsarscope", *sys.argv[1:]]
try:
    main()
finally:
    print("modules:", *sorted(set(sys.modules) - before), file=sys.stderr)
"""

HEAVY = {"cryptography", "jinja2", "lark", "numpy", "pandas", "pyarrow", "pyspark", "scapy"}
"""Packages of extras, and large ones."""

LATE = {
    "csv",
    "hashlib",
    "hmac",
    "importlib.metadata",
    "json",
    "pickle",
    "random",
    "tempfile",
    "pulsarscope.cli.arguments.configured_options",
    "pulsarscope.dissect.contract.known_issues",
    "pulsarscope.engine.rule_engine",
    "pulsarscope.engine.snapshot",
    "pulsarscope.filter",
    "pulsarscope.protocols.bookkeeper.boundary",
    "pulsarscope.protocols.bookkeeper.frame",
    "pulsarscope.protocols.bookkeeper.session",
    "pulsarscope.protocols.kafka07.boundary",
    "pulsarscope.protocols.kafka07.frame",
    "pulsarscope.protocols.kafka07.session",
    "pulsarscope.protocols.pulsar.rules",
}
"""Modules that few runs need, each of which takes a hundredth of a start or more."""

OF_ENTRIES = {"pulsarscope.protocols.pulsar.entry.reader", "pulsarscope.protocols.pulsar.values.connection_values"}
"""Modules that open messages."""


def modules_after(*arguments: str, native: str = "auto") -> set[str]:
    """Return the names of the modules that a run of the command line imported, and of their packages."""
    command = [sys.executable, "-c", PROGRAM, *arguments]
    environment = os.environ | {"PULSARSCOPE_NATIVE": native}
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert result.returncode == 0, result.stderr
    line = result.stderr.splitlines()[-1]
    assert line.startswith("modules:")
    names = line.split()
    return {*names, *(name.partition(".")[0] for name in names)}


OF_TYPER = {"inspect", "typer", "pulsarscope.cli.arguments.application"}
"""Modules that read command lines which are not plain, or explain them."""


def test_help_imports_nothing_heavy() -> None:
    assert not modules_after("--help") & (HEAVY | LATE)


@pytest.mark.parametrize("native", ["auto", "off"])
@pytest.mark.parametrize("capture", ["acks-batchindex.pcap", "quickstart.pcapng"])
def test_a_plain_decode_imports_nothing_that_it_does_not_need(capture: str, native: str) -> None:
    path = str(ROOT / "captures" / capture)
    assert not modules_after("decode", path, native=native) & (HEAVY | LATE | OF_TYPER)
    assert not modules_after("decode", path, "--format", "ndjson", native=native) & (HEAVY | LATE | OF_TYPER | OF_ENTRIES | {"rich"})


def test_statistics_import_no_rules() -> None:
    assert not modules_after("stats", str(ROOT / "captures" / "acks-batchindex.pcap")) & {
        "csv",
        "hashlib",
        "json",
        "tempfile",
        "pulsarscope.protocols.pulsar.rules",
    }
