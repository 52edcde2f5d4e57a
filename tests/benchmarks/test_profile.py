"""The profile gives the stage of a sample."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, cast

import pytest

from benchmarks import profile, traffic
from benchmarks.profile import PACKAGE, Place
from tests.architecture.modules import SOURCES
from tests.places import ROOT


class Stack:
    """The used part of a stack frame; innermost function first."""

    def __init__(self, *functions: tuple[str, str]) -> None:
        (file, name), *outer = functions
        self.f_code = compile(f"def {name}(): pass", file, "exec").co_consts[0] if name.isidentifier() else compile("", file, "exec")
        self.f_back: Any = Stack(*outer) if outer else None
        assert isinstance(self.f_code, CodeType)


def place(*functions: tuple[str, str]) -> Place:
    return profile.place(cast("FrameType", Stack(*functions)))


@pytest.mark.parametrize(
    ("module", "stage"),
    [
        ("capture/formats/pcap", "read"),
        ("tcp/stream", "tcp"),
        ("dissect/splitter", "split"),
        ("protocols/pulsar/frame/decoder", "decode"),
        ("protocols/pulsar/entry/reader", "payloads"),
        ("protocols/pulsar/session/session", "session"),
        ("engine/connection", "session"),
        ("output/export/ndjson", "encode"),
        ("output/render/timeline", "render"),
        ("api", "other"),
    ],
)
def test_a_function_belongs_to_the_stage_of_its_module(module: str, stage: str) -> None:
    assert place((f"{PACKAGE}/{module}.py", "work")) == Place(stage, f"{module}.work")


def test_what_a_stage_calls_elsewhere_counts_for_it() -> None:
    ours, leaf = (f"{PACKAGE}/tcp/stream.py", "work"), (f"{PACKAGE}/model/text.py", "escape")
    assert place(("/usr/lib/python3/json/encoder.py", "encode"), leaf, ours).stage == "tcp"
    assert place(("/usr/lib/python3/json/encoder.py", "encode")).stage == "other"


def test_importing_is_the_start() -> None:
    ours = (f"{PACKAGE}/cli/__init__.py", "decode")
    assert place((f"{PACKAGE}/tcp/stream.py", "<module>"), ours).stage == "start"
    assert place(("<frozen importlib._bootstrap>", "_load"), ours).stage == "start"


@pytest.mark.parametrize("start", profile.STAGES)
def test_every_stage_is_that_of_a_module(start: str) -> None:
    assert any(f"{path.relative_to(PACKAGE).with_suffix('').as_posix()}/".startswith(f"{start}/") for path in SOURCES)


def test_the_table_shares_the_time() -> None:
    found = Counter({Place("tcp", "a"): 3, Place("tcp", "b"): 2, Place("read", "c"): 5})
    table = profile.markdown(found, 2, 1)
    assert "| read | 50.0% | 1.00 | `c` 50% |" in table
    assert "| tcp | 50.0% | 1.00 | `a` 30% |" in table
    assert "2.00 s of processor time, 10 samples." in table


@pytest.mark.parametrize("command", [("FILE",), ("messages", "FILE", "--format", "ndjson")])
def test_a_run_is_sampled(command: tuple[str, ...], tmp_path: Path) -> None:
    capture = tmp_path / "x.pcap"
    traffic.main(["batch", str(capture), "--megabytes", "0.5"])
    line = [sys.executable, "-m", "benchmarks.profile", "--functions", "1", *(str(capture) if part == "FILE" else part for part in command)]
    result = subprocess.run(line, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (result.returncode, result.stderr) == (0, "")
    assert "| start |" in result.stdout
    assert "{" not in result.stdout
