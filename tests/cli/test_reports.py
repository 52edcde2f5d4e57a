from __future__ import annotations

import json
import os
import re
import shlex
import signal
from pathlib import Path
from typing import Any

import pytest

from pulsarscope.cli.arguments.application import app
from pulsarscope.cli.commands.compare import CompareRequest, compare
from pulsarscope.cli.commands.decode import DecodeRequest, decode
from pulsarscope.cli.commands.diagnose import DiagnoseRequest, diagnose
from pulsarscope.cli.commands.stats import StatsRequest, stats
from pulsarscope.cli.progress import ProgressBar
from tests.places import CAPTURES, ROOT
from tests.scenarios.bad_inputs.cases import capture
from tests.scenarios.bad_inputs.text import OWN_COLORS, hostile_packets
from tests.scenarios.command_line import execute, run

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return capture(tmp_path_factory.mktemp("hostile"), hostile_packets())


def test_a_damaged_input_is_four_and_reported(captures: Path, tmp_path: Path, capsys: Captured) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes((captures / "errors.pcap").read_bytes()[:-7])
    assert diagnose(DiagnoseRequest(files=[str(cut)], fail_on="error")) == 4
    captured = capsys.readouterr()
    assert "capture-truncated" in captured.out
    assert captured.err == ""
    assert stats(StatsRequest(files=[str(cut)])) == 4
    assert f"pulsarscope: {cut}: The capture ends" in capsys.readouterr().err
    assert decode(DecodeRequest(files=[str(cut)], format="ndjson")) == 4
    assert f"pulsarscope: {cut}: The capture ends" in capsys.readouterr().err
    assert compare(CompareRequest(before=str(cut), after=str(captures / "errors.pcap"))) == 4
    assert "The capture ends" in capsys.readouterr().err


COMMANDS = [("stats", "--interval", "1ms"), ("diagnose", "--fail-on", "never"), ("compare",)]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_no_report_lets_a_peer_write_to_the_terminal(
    hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    files = [str(hostile)] * (2 if command[0] == "compare" else 1)
    out = tmp_path / "out"

    def written() -> str:
        assert run(monkeypatch, *command, *files, "-o", str(out), "--limit", "100") == 0
        return out.read_text()

    monkeypatch.setenv("NO_COLOR", "1")
    plain = written()
    assert {character for character in plain if not character.isprintable()} <= {"\n"}
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert OWN_COLORS.sub("", written()) == plain
    if command[0] != "compare":
        assert "\\x1b" in plain


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_capture_is_never_overwritten_by_its_report(
    captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured, command: tuple[str, ...]
) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes((captures / "errors.pcap").read_bytes())
    files = [str(path)] * (2 if command[0] == "compare" else 1)
    assert run(monkeypatch, *command, *files, "-o", str(path)) == 2
    assert "is one of the inputs" in capsys.readouterr().err
    assert path.read_bytes() == (captures / "errors.pcap").read_bytes()


def examples() -> list[tuple[str, str]]:
    """Commands of README.md with their output there."""
    blocks = re.findall(r"^```console\n\$ pulsarscope (.*?)\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    return [(command, shown) for command, shown in blocks]


@pytest.mark.parametrize(("command", "shown"), examples())
def test_the_readme_shows_what_commands_write(monkeypatch: pytest.MonkeyPatch, capsys: Captured, command: str, shown: str) -> None:
    monkeypatch.chdir(ROOT)
    for name in ("COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    run(monkeypatch, *shlex.split(command))
    assert capsys.readouterr().out == shown


def test_the_page_on_reports_names_every_key(captures: Path, capsys: Captured) -> None:
    page = (ROOT / "docs" / "reports.md").read_text()
    path = str(captures / "rw-capture-loss.pcap.zst")
    assert stats(StatsRequest(files=[path], format="json", interval="100ms")) == 0
    made = json.loads(capsys.readouterr().out)
    keys = {key for section in made.values() for record in ([section] if isinstance(section, dict) else section) for key in record}
    assert diagnose(DiagnoseRequest(files=[path], format="json", fail_on="never")) == 0
    diagnosed = json.loads(capsys.readouterr().out)
    keys |= diagnosed["verdict"].keys() | diagnosed["findings"][0].keys() | diagnosed["findings"][0]["samples"][0].keys()
    keys |= {"not_judged"} | diagnosed["not_judged"][0].keys() | {part["code"] for part in diagnosed["not_judged"]}
    assert compare(CompareRequest(before=path, after=str(captures / "errors.pcap"), format="json")) == 0
    compared = json.loads(capsys.readouterr().out)
    keys |= compared.keys() | compared["verdict"].keys() | {key for name in compared.keys() - {"verdict"} for key in compared[name][0]}
    assert {key for key in keys if f"`{key}`" not in page} == set()


@pytest.mark.slow
def test_a_report_goes_to_a_pipe_of_any_encoding(captures: Path) -> None:
    result = execute("stats", str(captures / "quickstart.pcapng"), env={"PYTHONIOENCODING": "ascii", "COLUMNS": "80"})
    assert result.returncode == 0
    assert b"#####" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


@pytest.mark.slow
@pytest.mark.parametrize("command", ["stats", "diagnose"])
@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_report_is_that_of_what_was_read(
    command: str, jobs: str, number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    advance = ProgressBar.advance

    def interrupt(self: ProgressBar, *place: Any) -> None:
        advance(self, *place)
        if place[0] == 0:
            os.kill(os.getpid(), number)
            monkeypatch.setattr(ProgressBar, "advance", advance)

    files = [str(CAPTURES / name) for name in ("quickstart.pcapng", "ipv6.pcap", "stuck-consumer.pcap", "errors.pcap")]

    def end(*options: str) -> tuple[int, str]:
        monkeypatch.setattr(ProgressBar, "advance", interrupt)
        with pytest.raises(SystemExit) as ended:
            app([command, *files, "--jobs", jobs, *options], standalone_mode=True)
        return int(ended.value.code or 0), capsys.readouterr().err

    code, errors = end("-f", "json", "-o", str(tmp_path / "report.json"))
    assert code == 5
    assert re.search(r"interrupted: the following covers the first \d+ packets", errors)
    (kept,) = tmp_path.iterdir()
    assert f"the incomplete report is in {kept}" in errors
    report = json.loads(kept.read_text())
    if command == "diagnose":
        assert report["not_judged"][0]["code"] == "interrupted"
        assert 0 < report["not_judged"][0]["counts"]["packets"] < 1000
    else:
        assert 0 < sum(row["frames"] for row in report["commands"]) < 600
    assert end()[0] == 5


def test_a_second_signal_ends_a_report_at_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(_self: ProgressBar, *_place: Any) -> None:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(ProgressBar, "advance", interrupt)
    with pytest.raises(SystemExit) as ended:
        app(["diagnose", str(CAPTURES / "quickstart.pcapng")], standalone_mode=True)
    assert ended.value.code == 5
    assert "interrupted; the output is not complete" in capsys.readouterr().err
