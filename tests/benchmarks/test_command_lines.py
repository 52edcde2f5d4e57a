"""The list of command lines has every option, and a fault among them is seen."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from benchmarks import command_lines as program
from docs.command_tree import every_option
from tests.places import CAPTURES

LINES = list(program.command_lines())


def test_every_option_of_every_command_is_tried() -> None:
    assert len(LINES) >= 300
    tried = {(line[0], part) for line in LINES for part in line}
    known = {(command, max(option.names, key=len)) for command, _, option in every_option()}
    assert {option for _, option in known - tried} == {"--help", *program.ENDLESS}


@pytest.mark.parametrize("line", [["decode", "{capture}"], ["decode", "{capture}", "--columns", "x"], ["fields", "send"]])
def test_a_command_line_without_a_fault_is_well(line: list[str]) -> None:
    code, problem = program.run(line, CAPTURES / "quickstart.pcapng")
    assert code in {"exit 0", "exit 2"}
    assert problem == ""


def test_a_traceback_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho Traceback >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    assert "Traceback" in program.run(["decode"], CAPTURES / "quickstart.pcapng")[1]


@pytest.mark.slow
@pytest.mark.timeout(900)  # hundreds of processes
def test_no_command_line_has_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    capture = shutil.copy(CAPTURES / "quickstart.pcapng", tmp_path)  # beside which an index is written
    monkeypatch.setattr(sys, "argv", ["command_lines", str(capture)])
    assert program.main() == 0, capsys.readouterr().out
