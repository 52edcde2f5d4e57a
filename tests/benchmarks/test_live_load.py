"""A full line: every packet is kept or counted as dropped, and memory does not grow."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.live_load import run
from tests.scenarios.loopback import needs_capturing

SECONDS = 2
MEMORY_MAX_MEBIBYTES = 320
"""Ring and queue of 64 MiB each, Python, and rows of a block; far below what is sent."""


@needs_capturing
@pytest.mark.parametrize(
    "options", [["--format", "ndjson", "-o", "/dev/null"], ["--format", "ndjson", "-o", "/dev/null", "--buffer", "2MiB"]]
)
def test_what_is_not_kept_is_counted(options: list[str], tmp_path: Path) -> None:
    report = run(SECONDS, None, "tiny", str(tmp_path), options)
    assert report["sent_bytes"] > 100_000_000
    assert report["kept_packets"] > 0
    assert report["kept_packets"] + report["kernel_dropped"] == report["kernel_received"]
    (packets,) = re.findall(r"([\d,]+) packets from lo", report["said"])
    assert int(packets.replace(",", "")) == report["kept_packets"]
    dropped = re.findall(r"([\d,]+) dropped by the kernel", report["said"])
    assert [int(number.replace(",", "")) for number in dropped] == ([report["kernel_dropped"]] if report["kernel_dropped"] else [])
    assert max(report["memory_MiB"]) < MEMORY_MAX_MEBIBYTES
