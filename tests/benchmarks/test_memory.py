"""The captures that need most memory are made and read, and a command that needs too much fails the benchmark."""

from __future__ import annotations

from pathlib import Path

import pytest

import pulsarscope
from benchmarks import memory
from pulsarscope.model.records import ConnectionRow, FindingRow


@pytest.mark.parametrize("name", memory.SHAPES)
def test_each_shape_is_a_capture_without_damage(name: str, tmp_path: Path) -> None:
    capture = tmp_path / "shape.pcap"
    memory.write(capture, memory.SHAPES[name].make, 2)
    rows = list(pulsarscope.open(str(capture)).records("connection", "finding"))
    assert {row.dissector for row in rows if isinstance(row, ConnectionRow)} in ({"pulsar"}, {"pulsar", "bookkeeper"})
    assert not [row for row in rows if isinstance(row, FindingRow) and row.layer in {"capture", "tcp"}]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_command_above_the_limit_fails_the_benchmark(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], jobs: str
) -> None:
    arguments = ["--only", "batches", "--only", "unfinished-chunks", "--share", "0.01", "--jobs", jobs]
    assert memory.main(arguments) == 0
    monkeypatch.setattr(memory, "LIMIT_MIB", 1)
    assert memory.main(arguments) == 1
    output = capsys.readouterr().out
    assert output.index("BAD batches") < output.index("BAD unfinished-chunks")


@pytest.mark.parametrize(("share", "code"), [("0.5", 1), ("1", 1), ("2", 0)])
def test_the_limit_of_a_shape_is_that_of_its_size(monkeypatch: pytest.MonkeyPatch, share: str, code: int) -> None:
    shape = memory.SHAPES["large-names"]._replace(size=2, commands=("stats {}",), limit_mib=1)
    monkeypatch.setitem(memory.SHAPES, "large-names", shape)
    assert memory.main(["--only", "large-names", "--share", share]) == code
