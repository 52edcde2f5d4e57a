"""The peer must be correct, or comparisons with it mean nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.measure import TOOLS, Measurement, count, missing


@pytest.mark.skipif(bool(missing(TOOLS["scapy"])), reason="scapy is not installed")
@pytest.mark.parametrize("name", ["quickstart.pcapng", "ipv6.pcap", "raw-coalesce.pcap", "raw-dribble.pcap", "rw-shuffle.pcap"])
def test_it_finds_every_command_of_a_real_capture(name: str, captures: Path, tmp_path: Path) -> None:
    measurement = Measurement(captures / name, "scapy", TOOLS["scapy"])
    count(measurement, tmp_path)
    assert measurement.found == json.loads((captures / "commands.json").read_text())[name]
