"""The comparison shows every tool, and says what is missing or wrong."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from benchmarks import compare, traffic
from benchmarks.measure import TOOLS, Measurement, Tool


@pytest.fixture
def measurements(tmp_path: Path) -> list[Measurement]:
    capture = tmp_path / "a&b.pcap"
    capture.write_bytes(bytes(1000))
    ours, tshark, failed = row = [Measurement(capture, name, TOOLS[name]) for name in ("frames", "tshark-json", "dpkt")]
    for seconds, measurement in enumerate(row, 1):
        measurement.cpu = measurement.wall = [seconds, seconds + 1]
        measurement.memory = [64 << 20, 65 << 20]
    ours.found = Counter(SEND=1234)
    tshark.found = Counter()
    failed.failure = "exit code 1"
    return row


def test_the_table_has_a_row_for_every_tool(measurements: list[Measurement]) -> None:
    table = compare.markdown(measurements, 2, dissector=False)
    assert "| pulsarscope decode (frames, NDJSON) | 1,234 | 1.00 | 1.0× | 1.00 | 65 |" in table
    assert "| tshark -T json (TCP only: no Pulsar dissector) |  | 2.00 | 2.0× |" in table
    assert "failed: exit code 1" in table


def test_the_plot_is_well_formed_and_leaves_out_what_failed(measurements: list[Measurement]) -> None:
    root = ET.fromstring(compare.svg(measurements, dissector=True))  # noqa: S314 - our own
    texts = [element.text or "" for element in root.iter() if element.tag.endswith("text")]
    assert any("a&b.pcap" in text for text in texts)
    assert "tshark -T json" in texts
    assert len([element for element in root.iter() if element.tag.endswith("rect")]) == 3


def test_a_readme_gets_a_row_for_every_capture(measurements: list[Measurement], tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("a\n<!-- speed: made by benchmarks.compare -->\nold\n<!-- /speed -->\nz\n")
    for _ in range(2):
        compare.write_readme(readme, measurements)
    lines = readme.read_text().splitlines()
    assert lines[3] == "| processor time | pulsarscope decode (frames, NDJSON) | tshark -T json | dpkt + protobuf + json |"
    assert lines[5] == "| a&b, 0 MB, 1,234 frames | 1.00 s (2.0×) | 2.00 s (1.0×) |  |"
    assert [*lines[:2], *lines[-2:]] == ["a", "<!-- speed: made by benchmarks.compare -->", "<!-- /speed -->", "z"]
    readme.write_text("")
    with pytest.raises(ValueError, match="no marks"):
        compare.write_readme(readme, measurements)


def test_slow_peers_are_compared_on_the_first_packets(tmp_path: Path) -> None:
    capture = tmp_path / "x.pcap"
    traffic.main(["sync", str(capture), "--megabytes", "0.1"])
    slow = Tool("slow", TOOLS["dpkt"].command, TOOLS["dpkt"].finding, cut=True)
    whole, ours, peer = compare.compare([capture], {"frames": TOOLS["frames"], "slow": slow}, 1, 100)
    assert (whole.capture, ours.capture.name, peer.capture) == (capture, "x.pcap, first 100 packets", ours.capture)
    assert whole.frames > ours.frames == peer.frames > 0


def test_a_capture_that_cannot_be_cut_is_reported(captures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slow = Tool("slow", "true {}", cut=True)
    (whole,) = compare.compare([captures / "quickstart.pcapng"], {"frames": TOOLS["frames"], "slow": slow}, 1, 100)
    assert whole.name == "frames"
    assert "skipped slow: " in capsys.readouterr().err


def test_a_wrong_answer_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    capture = tmp_path / "x.pcap"
    traffic.main(["sync", str(capture), "--megabytes", "0.1"])
    wrong = Tool("wrong", 'echo \'"command":"SEND"\' {}', TOOLS["dpkt"].finding)
    monkeypatch.setitem(TOOLS, "wrong", wrong)
    with pytest.raises(SystemExit, match=r"wrong finds 1 frames, frames \d+"):
        compare.main([str(capture), "--rounds", "1", "--tools", "frames,wrong"])
    assert "| wrong | 1 |" in capsys.readouterr().out
