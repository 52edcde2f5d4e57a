"""The setup of Wireshark, in its folders and no others."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from pulsarscope.cli.commands import wireshark
from pulsarscope.cli.commands.wireshark import Folders, extcap_script, find_folders
from pulsarscope.protocols import wireshark_dissector
from tests.scenarios.command_line import run

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folders:
    folders = Folders(tmp_path / "plugins", tmp_path / "extcap")
    monkeypatch.setattr(wireshark, "find_folders", lambda _: folders)
    return folders


def test_it_is_installed_reported_and_removed(folders: Folders, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    assert run(monkeypatch, "wireshark") == 0
    assert capsys.readouterr().out.count(": not installed") == 2
    assert run(monkeypatch, "wireshark", "--install") == 0
    assert capsys.readouterr().out.count(": installed\n") == 2
    assert (folders.plugins / "pulsarscope.lua").read_text() == wireshark_dissector()
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
    assert capsys.readouterr().out == wireshark_dissector()
    assert run(monkeypatch, "wireshark", "--lua", "--install") == 2


def test_a_folder_that_cannot_be_written_is_one_line(folders: Folders, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    folders.plugins.write_text("a file")
    assert run(monkeypatch, "wireshark", "--install") == 5
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="makes a program for a shell")
@pytest.mark.parametrize(
    ("printed", "plugins", "extcap"),
    [
        ("Personal Lua Plugins:\t/p\nPersonal Extcap path:\t/e\nExtcap path:\t/g\n", "/p", "/e"),
        ("Personal Lua Plugins:\t/p\nExtcap path:\t/g\n", "/p", "/g"),
        ("nonsense\n", "~/.local/lib/wireshark/plugins", "~/.local/lib/wireshark/extcap"),
    ],
)
def test_folders_are_those_that_tshark_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: str, plugins: str, extcap: str
) -> None:
    program = tmp_path / "tshark"
    program.write_text(f"#!/bin/sh\nprintf '{printed}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert find_folders({}) == Folders(Path(plugins).expanduser(), Path(extcap).expanduser())


def test_the_program_starts_this_python_wherever_it_is() -> None:
    assert extcap_script("/a b/it's/python", windows=False) == "#!/bin/sh\nexec '/a b/it'\\''s/python' -m pulsarscope.cli.extcap \"$@\"\n"
    assert extcap_script(r"C:\P y\python.exe", windows=True) == '@echo off\r\n"C:\\P y\\python.exe" -m pulsarscope.cli.extcap %*\r\n'


@pytest.fixture
def home_of_nobody() -> Iterator[Path]:
    """Make a folder that the user can reach: others have no access to those of pytest."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        home = Path(folder) / "home"
        home.mkdir()
        shutil.chown(home, "nobody")
        yield home


@pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() != 0, reason="asks as root")
def test_root_installs_for_who_called_sudo(home_of_nobody: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    home = home_of_nobody
    program = home.parent / "tshark"
    program.write_text('#!/bin/sh\nprintf "Personal Lua Plugins:\\t$HOME/$(id -un)\\nPersonal Extcap path:\\t$HOME/e\\n"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SUDO_USER", "nobody")
    assert find_folders({"SUDO_USER": "no such user"}).user is None
    monkeypatch.setattr(Path, "expanduser", lambda path: home if str(path) == "~nobody" else path)
    assert find_folders(os.environ) == Folders(home / "nobody", home / "e", "nobody")
    assert run(monkeypatch, "wireshark", "--install") == 0
    assert capsys.readouterr().out.count(" (of nobody): installed\n") == 2
    assert {path.owner() for path in home.rglob("*")} == {"nobody"}
    assert os.geteuid() == 0


@pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() != 0, reason="writes as root")
def test_root_writes_through_no_link_of_who_called_sudo(home_of_nobody: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    of_root = home_of_nobody.parent / "of-root"
    of_root.write_text("mine")
    (home_of_nobody / "p").mkdir()
    (home_of_nobody / "p" / "pulsarscope.lua").symlink_to(of_root)
    monkeypatch.setattr(wireshark, "find_folders", lambda _: Folders(home_of_nobody / "p", home_of_nobody / "e", "nobody"))
    monkeypatch.setattr(Path, "expanduser", lambda path: home_of_nobody if str(path) == "~nobody" else path)
    assert run(monkeypatch, "wireshark", "--install") == 5
    assert capsys.readouterr().err.count("\n") == 1
    assert (of_root.read_text(), of_root.owner()) == ("mine", "root")
