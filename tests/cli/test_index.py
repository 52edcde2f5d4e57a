"""The command `index`, and what it serves."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pulsarscope.cli.index import IndexRequest, index
from pulsarscope.cli.options import CommandRequest
from pulsarscope.cli.run_command import run_command
from pulsarscope.model.errors import UsageError

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def capture(captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Path(shutil.copy(captures / "errors.pcap", tmp_path / "a.pcap"))


@pytest.mark.parametrize("beside", [False, True])
def test_an_index_is_written_once_and_anew_when_the_capture_changes(capture: Path, tmp_path: Path, capsys: Captured, beside: bool) -> None:
    request = IndexRequest(files=[str(capture)], beside=beside)
    assert index(request) == 0
    assert "written: " in capsys.readouterr().err
    (place,) = tmp_path.glob("*.psidx" if beside else "cache/pulsarscope/*.psidx")
    assert place.stat().st_mode & 0o77 == 0
    assert index(request) == 0
    assert "up to date: " in capsys.readouterr().err
    capture.write_bytes(capture.read_bytes()[:-10])
    assert index(request) == 4
    said = capsys.readouterr().err
    assert "of another state" in said
    assert "written: " in said


@pytest.mark.parametrize(
    "values", [{"filter": "command == ERROR"}, {"subject": ("connection", "#1")}, {"filter": "time < 10ms", "format": "csv"}]
)
def test_commands_give_the_same_with_an_index_and_without_reading_the_capture(
    capture: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, values: dict[str, object]
) -> None:
    request = CommandRequest(files=[str(capture)], **values)  # type: ignore[arg-type]
    assert run_command(request) == 0
    expected = capsys.readouterr().out
    assert index(IndexRequest(files=[str(capture)], quiet=True)) == 0
    monkeypatch.setattr("pulsarscope.cli.run_command.start_run", None)
    assert run_command(request) == 0
    assert capsys.readouterr().out == expected


def test_a_stale_index_is_told_and_not_used(capture: Path, capsys: Captured) -> None:
    assert index(IndexRequest(files=[str(capture)], quiet=True)) == 0
    capture.write_bytes(capture.read_bytes()[:-1000])
    assert run_command(CommandRequest(files=[str(capture)], filter="command == CONNECT")) == 4
    captured = capsys.readouterr()
    assert "it is not used" in captured.err
    assert "CONNECT" in captured.out


def test_pipes_and_several_captures_beside_are_refused(capture: Path) -> None:
    with pytest.raises(UsageError, match="pipes have no index"):
        index(IndexRequest(files=["-"]))
    other = shutil.copy(capture, capture.with_name("b.pcap"))
    with pytest.raises(UsageError, match="for one capture"):
        index(IndexRequest(files=[str(capture), str(other)], beside=True))
    assert index(IndexRequest(files=[str(capture), str(other)], quiet=True)) == 0
