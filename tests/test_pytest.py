"""The plugin for pytest: a block under capture, and tests that pass or fail by its findings."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import pulsarscope
from pulsarscope.model.errors import UsageError
from pulsarscope.pytest import Traffic, live
from tests.places import CAPTURES, ROOT
from tests.scenarios.loopback import free_port, needs_capturing, replay, said_in

HEALTHY, BROKEN = CAPTURES / "quickstart.pcapng", CAPTURES / "errors.pcap"

MODULE = """
pytest_plugins = ["pulsarscope.pytest"]

from pathlib import Path

from tests.scenarios.loopback import free_port, replay, said_in


def test_healthy(pulsarscope_live):
    port = free_port()
    with pulsarscope_live("lo", ports=[port]) as traffic:
        replay(said_in(Path({healthy!r})), port)
    traffic.assert_no_finding("warning")
    assert [frame.command for frame in traffic.capture.frames(filter="command == SUBSCRIBE")] == ["SUBSCRIBE"]


def test_broken(pulsarscope_live):
    port = free_port()
    with pulsarscope_live(ports=[port]) as traffic:
        replay(said_in(Path({broken!r})), port)
    traffic.assert_no_finding("warning")
"""


@pytest.mark.slow
@needs_capturing
def test_a_test_fails_with_the_findings_of_its_block(tmp_path: Path) -> None:
    test = tmp_path / "test_of_a_user.py"
    test.write_text(MODULE.format(healthy=str(HEALTHY), broken=str(BROKEN)))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(test)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert "1 failed, 1 passed" in result.stdout, result.stdout
    assert " findings in " in result.stdout
    assert re.search(r"^  (error|warning) [a-z-]+: \w", result.stdout, re.MULTILINE), result.stdout


@pytest.mark.slow
@needs_capturing
def test_everything_of_the_block_is_in_the_capture_also_when_it_raises(tmp_path: Path) -> None:
    port = free_port()
    connections = said_in(HEALTHY)

    def fail() -> None:
        replay(connections, port)
        raise ZeroDivisionError

    traffic = Traffic(tmp_path / "it.pcapng", [port])
    with pytest.raises(ZeroDivisionError), live(traffic.path, ports=[port]):
        fail()
    commands = [frame.command for frame in traffic.capture.frames()]
    assert commands == [frame.command for frame in pulsarscope.open(HEALTHY).frames()]
    assert [row.server for row in traffic.capture.connections()] == [f"127.0.0.1:{port}"]


@pytest.mark.slow
@needs_capturing
def test_findings_are_chosen_by_severity_and_code(tmp_path: Path) -> None:
    port = free_port()
    with live(tmp_path / "it.pcapng", ports=[port]) as traffic:
        replay(said_in(BROKEN), port)
    found = {row.severity for row in traffic.findings()}
    assert "error" in found or "warning" in found
    assert {row.severity for row in traffic.findings("warning")} <= {"error", "warning"}
    codes = {row.code for row in traffic.findings()}
    assert not traffic.findings(ignore=codes)
    traffic.assert_no_finding("note", ignore=codes)
    with pytest.raises(UsageError, match="choose error, warning, note"):
        traffic.findings("fatal")


@pytest.mark.slow
def test_a_capture_that_cannot_begin_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no capture began: .*nosuch0"), live(tmp_path / "it.pcapng", "nosuch0"):
        pytest.fail("the block runs without a capture")
