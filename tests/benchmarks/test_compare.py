"""The comparison runs whole processes and says what failed."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from benchmarks import compare


@pytest.fixture
def measurements(tmp_path: Path) -> list[compare.Measurement]:
    capture = tmp_path / "a&b.pcap"
    capture.write_bytes(bytes(1000))
    tools = {"ours": f"{sys.executable} -c 'pass'", "tshark-json": f"{sys.executable} -c 'bytearray(1 << 27)' {{}}", "none": "false {}"}
    return compare.measure([capture], tools, 2)


def test_time_and_memory_are_those_of_the_process(measurements: list[compare.Measurement]) -> None:
    ours, other, none = measurements
    assert [len(ours.cpu), len(ours.wall), len(ours.memory)] == [2, 2, 2]
    assert 0 < ours.best <= max(ours.wall) + 1
    assert min(other.memory) > 1 << 27 > max(ours.memory)
    assert none.failure.startswith("exit code 1")


def test_the_table_has_a_row_for_every_tool(measurements: list[compare.Measurement]) -> None:
    table = compare.markdown(measurements, 2, dissector=False)
    assert "| pulsarscope decode |" in table
    assert "1.0×" in table
    assert "tshark -T json (TCP only: no Pulsar dissector)" in table
    assert "failed: exit code 1" in table


def test_the_plot_is_well_formed_and_leaves_out_what_failed(measurements: list[compare.Measurement]) -> None:
    root = ET.fromstring(compare.svg(measurements, dissector=True))  # noqa: S314 - our own
    texts = [element.text or "" for element in root.iter() if element.tag.endswith("text")]
    assert any("a&b.pcap" in text for text in texts)
    assert "tshark -T json" in texts
    assert len([element for element in root.iter() if element.tag.endswith("rect")]) == 3
