"""The command that shows the configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.command_line import run

Captured = pytest.CaptureFixture[str]

TEXT = """
no-color = true
[decode]
limit = 3
[profile.p.decode]
time = "utc"
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "c.toml"
    path.write_text(TEXT)
    monkeypatch.setenv("PULSARSCOPE_CONFIG", str(path))
    monkeypatch.setenv("COLUMNS", "300")
    return path


def test_each_value_has_its_place(path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    assert run(monkeypatch, "config", "--show", "--profile", "p") == 0
    out = capsys.readouterr().out
    assert f"{path}: read, profiles: p" in out
    rows = {tuple(line.split()[:3]): line.split(maxsplit=3)[3] for line in out.splitlines() if len(line.split()) > 3}
    assert rows["decode", "limit", "3"] == f"{path} [decode]"
    assert rows["decode", "time", "utc"] == f"{path} [profile.p.decode]"
    assert rows["stats", "no-color", "true"] == str(path)


def test_a_command_is_listed_whole(path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    assert run(monkeypatch, "config", "decode") == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["decode", "time", "relative", "default"] in rows
    assert ["decode", "limit", "3", str(path), "[decode]"] in rows
    assert not [row for row in rows if row[:1] == ["stats"]]


def test_without_files_none_is_set(monkeypatch: pytest.MonkeyPatch, capsys: Captured, tmp_path: Path) -> None:
    monkeypatch.delenv("PULSARSCOPE_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, "config", "--show") == 0
    out = capsys.readouterr().out
    assert out.count("not there") == 2
    assert "none is set" in out


@pytest.mark.parametrize(
    ("text", "arguments", "reason"),
    [
        ("colums = 'a'", (), 'no command has the option "colums"; did you mean columns?'),
        ("[decode]\nlimit = 'x'", (), "limit: x: give a whole number"),
        ("", ("--profile", "q"), 'unknown profile "q"'),
        ("", ("decod",), 'unknown command "decod"; did you mean decode?'),
    ],
)
def test_what_no_command_takes_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured, text: str, arguments: tuple[str, ...], reason: str
) -> None:
    path.write_text(text)
    assert run(monkeypatch, "config", *arguments) == 2
    err = capsys.readouterr().err
    assert reason in err
    assert err.count("\n") == 1
