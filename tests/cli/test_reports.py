from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from pulsarscope.cli.compare import CompareRequest, compare
from pulsarscope.cli.diagnose import DiagnoseRequest, diagnose
from pulsarscope.cli.stats import StatsRequest, stats
from tests.places import ROOT
from tests.scenarios.bad_inputs.cases import capture
from tests.scenarios.bad_inputs.text import OWN_COLORS, hostile_packets
from tests.scenarios.command_line import execute, run

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return capture(tmp_path_factory.mktemp("hostile"), hostile_packets())


def test_a_damaged_input_is_four_and_told(captures: Path, tmp_path: Path, capsys: Captured) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes((captures / "errors.pcap").read_bytes()[:-7])
    assert diagnose(DiagnoseRequest(files=[str(cut)], fail_on="error")) == 4
    captured = capsys.readouterr()
    assert "capture-truncated" in captured.out
    assert captured.err == ""
    assert stats(StatsRequest(files=[str(cut)])) == 4
    assert "The capture ends" in capsys.readouterr().err
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
    """Commands of README.md with what they are said to write."""
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


def test_a_report_goes_to_a_pipe_of_any_encoding(captures: Path) -> None:
    result = execute("stats", str(captures / "quickstart.pcapng"), env={"PYTHONIOENCODING": "ascii", "COLUMNS": "80"})
    assert result.returncode == 0
    assert b"#####" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
