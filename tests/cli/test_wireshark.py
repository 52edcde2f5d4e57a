"""Setting up Wireshark, in its folders and no others."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from pulsarscope.cli import wireshark
from pulsarscope.cli.wireshark import Folders, extcap_script, find_folders
from tests.places import ROOT
from tests.scenarios.command_line import run

DISSECTOR = ROOT / "pulsarscope" / "protocols" / "pulsar" / "frame" / "wireshark.lua"
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folders:
    folders = Folders(tmp_path / "plugins", tmp_path / "extcap")
    monkeypatch.setattr(wireshark, "find_folders", lambda _: folders)
    return folders


def test_it_is_installed_told_and_removed(folders: Folders, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    assert run(monkeypatch, "wireshark") == 0
    assert capsys.readouterr().out.count(": not installed") == 2
    assert run(monkeypatch, "wireshark", "--install") == 0
    assert capsys.readouterr().out.count(": installed\n") == 2
    assert (folders.plugins / "pulsarscope.lua").read_text() == DISSECTOR.read_text()
    program = folders.extcap / "pulsarscope"
    assert stat.S_IMODE(program.stat().st_mode) & 0o111
    shown = subprocess.run([program, "--extcap-interfaces"], capture_output=True, text=True, check=True).stdout
    assert "interface {value=pulsarscope}" in shown
    program.write_text("something else")
    assert run(monkeypatch, "wireshark") == 0
    assert "another version" in capsys.readouterr().out
    assert run(monkeypatch, "wireshark", "--remove") == 0
    assert not [*folders.plugins.iterdir(), *folders.extcap.iterdir()]


def test_the_dissector_goes_to_standard_output(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    assert run(monkeypatch, "wireshark", "--lua") == 0
    assert capsys.readouterr().out == DISSECTOR.read_text()
    assert run(monkeypatch, "wireshark", "--lua", "--install") == 2


def test_a_folder_that_cannot_be_written_is_one_line(folders: Folders, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    folders.plugins.write_text("a file")
    assert run(monkeypatch, "wireshark", "--install") == 5
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="makes a program for a shell")
@pytest.mark.parametrize(
    ("told", "plugins", "extcap"),
    [
        ("Personal Lua Plugins:\t/p\nPersonal Extcap path:\t/e\nExtcap path:\t/g\n", "/p", "/e"),
        ("Personal Lua Plugins:\t/p\nExtcap path:\t/g\n", "/p", "/g"),
        ("nonsense\n", "~/.local/lib/wireshark/plugins", "~/.local/lib/wireshark/extcap"),
    ],
)
def test_folders_are_those_that_tshark_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str, plugins: str, extcap: str) -> None:
    program = tmp_path / "tshark"
    program.write_text(f"#!/bin/sh\nprintf '{told}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert find_folders({}) == Folders(Path(plugins).expanduser(), Path(extcap).expanduser())


def test_the_program_starts_this_python_wherever_it_is() -> None:
    assert extcap_script("/a b/it's/python", windows=False) == "#!/bin/sh\nexec '/a b/it'\\''s/python' -m pulsarscope.cli.extcap \"$@\"\n"
    assert extcap_script(r"C:\P y\python.exe", windows=True) == '@echo off\r\n"C:\\P y\\python.exe" -m pulsarscope.cli.extcap %*\r\n'


@pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() != 0, reason="asks as root")
def test_root_installs_for_who_called_sudo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    program = tmp_path / "tshark"
    program.write_text('#!/bin/sh\nprintf "Personal Lua Plugins:\\t$HOME/p\\nPersonal Extcap path:\\t$HOME/e\\n"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    home = Path("~nobody").expanduser()
    assert find_folders({"SUDO_USER": "nobody"}) == Folders(home / "p", home / "e", "nobody")
    assert find_folders({"SUDO_USER": "no such user"}).user is None
    mine = Folders(tmp_path / "home" / "p", tmp_path / "home" / "e", "nobody")
    monkeypatch.setattr(wireshark, "find_folders", lambda _: mine)
    monkeypatch.setattr(Path, "expanduser", lambda path: tmp_path / "home" if str(path) == "~nobody" else path)
    assert run(monkeypatch, "wireshark", "--install") == 0
    assert capsys.readouterr().out.count(" (of nobody): installed\n") == 2
    assert {path.owner() for path in (tmp_path / "home").rglob("*")} == {"nobody"}
