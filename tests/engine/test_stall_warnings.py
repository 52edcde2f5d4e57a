"""Calls that do not return: their names are reported once; calls that return are not reported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import CAPTURES
from tests.scenarios.command_line import COMMAND

DECODER = """
import re, time
class Decoder:
    topics = "*"
    def decode(self, payload, context):
        {body}
"""


def decode(tmp_path: Path, body: str, *options: str) -> list[str]:
    (tmp_path / "slow_decoder.py").write_text(DECODER.replace("{body}", body.replace("\\n", "\n")))
    information = tmp_path / "slow_decoder-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: slow-decoder\nVersion: 1\n")
    (information / "entry_points.txt").write_text("[pulsarscope.payload_decoders]\nslow = slow_decoder:Decoder\n")
    command = [*COMMAND, "messages", str(CAPTURES / "quickstart.pcapng"), "--limit", "1", "--format", "ndjson", *options]
    environment = {"PYTHONPATH": ":".join([str(tmp_path), *sys.path])}
    result = subprocess.run(command, capture_output=True, timeout=120, check=False, env=environment)
    assert result.returncode == 0
    assert result.stdout.count(b"\n") == 1
    return result.stderr.decode().splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_call_that_does_not_return_is_named_once(tmp_path: Path, jobs: str) -> None:
    lines = decode(
        tmp_path, "getattr(context, 'waited', None) or time.sleep(0 if hasattr(Decoder, 'done') else 7); Decoder.done = 1", "--jobs", jobs
    )
    (line,) = [line for line in lines if "has been running" in line]
    assert line.startswith("pulsarscope: slow_decoder.")
    assert "decode has been running for 5 s" in line


@pytest.mark.slow
def test_calls_that_return_are_not_reported(tmp_path: Path) -> None:
    assert not decode(tmp_path, "time.sleep(0.1)")
