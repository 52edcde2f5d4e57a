"""The list of command lines has every option, and a fault among them is noticed."""

from __future__ import annotations

import shutil
import subprocess
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


@pytest.mark.slow
@pytest.mark.timeout(900)  # hundreds of processes
def test_no_command_line_has_a_fault(tmp_path: Path) -> None:
    capture = shutil.copy(CAPTURES / "quickstart.pcapng", tmp_path)  # an index is written beside it
    done = subprocess.run([sys.executable, "-m", "benchmarks.command_lines", capture], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


FAULTS = """
import sys, time
from pathlib import Path
from benchmarks import command_lines as program

def fault():
    match sys.argv[1]:
        case "fails":
            raise ValueError(sys.argv[1])
        case "hangs":
            time.sleep(60)
        case "ends":
            sys.exit(int(sys.argv[2]))

program.program = fault
program.SECONDS = 1
for line, code, problem in program.outcomes([["fails"], ["hangs"], ["ends", "2"], ["ends", "6"], ["ends", "1"]], Path("x")):
    print(*line, code, problem.strip().splitlines()[-1:])
"""


@pytest.mark.slow
def test_what_goes_wrong_is_seen() -> None:
    done = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True)
    assert sorted(done.stdout.splitlines()) == [
        "ends 1 exit 1 []",
        "ends 2 exit 2 ['nothing says why']",
        "ends 6 exit 6 ['exit code 6']",
        "fails exit 1 ['ValueError: fails']",
        "hangs hang ['no end after 1 s']",
    ]
