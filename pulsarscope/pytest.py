"""A plugin for pytest: tests that watch the traffic between their clients and brokers.

pytest_plugins = ["pulsarscope.pytest"]

def test_orders_are_acknowledged(pulsarscope_live):
    with pulsarscope_live("lo", ports=[6650]) as traffic:
        consume_orders()
    traffic.assert_no_finding("warning")
    assert not list(traffic.capture.frames(filter="command == ERROR"))
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

import pulsarscope
from pulsarscope.model.errors import UsageError
from pulsarscope.model.findings import SEVERITIES
from pulsarscope.model.records import FindingRow
from pulsarscope.model.text import escape

LISTENING = ": listening on "
"""Part of the line with which `pulsarscope live` announces that it captures."""

STOP_SECONDS = 60
"""Longest time to empty the kernel's buffer after the block, in seconds."""


class Traffic:
    """The traffic during a block. It can be read when the block has ended."""

    def __init__(self, path: Path, ports: Collection[int]) -> None:
        self.path = path
        """The capture file, pcapng; pytest removes its folder after some runs."""
        self._ports = ports

    @property
    def capture(self) -> pulsarscope.Capture:
        """The capture, which gives access to its rows."""
        return pulsarscope.open(self.path, ports=self._ports)

    def findings(self, severity: str = "note", *, ignore: Collection[str] = ()) -> list[FindingRow]:
        """Return the findings of a severity (error, warning, note) or worse, except those with codes in `ignore`.

        Raises UsageError for an unknown severity.
        """
        if severity not in SEVERITIES:
            raise UsageError(f"unknown severity {severity}: choose {', '.join(SEVERITIES)}")
        failing = SEVERITIES[: SEVERITIES.index(severity) + 1]
        return [row for row in self.capture.findings() if row.severity in failing and row.code not in ignore]

    def assert_no_finding(self, severity: str = "warning", *, ignore: Collection[str] = ()) -> None:
        """Fail the test and list all findings of a severity or worse, except those with codes in `ignore`."""
        __tracebackhide__ = True
        if found := self.findings(severity, ignore=ignore):
            lines = [f"  {row.severity} {row.code}: {escape(row.text)}" for row in found]
            pytest.fail("\n".join([f"{len(found)} findings in {self.path}", *lines]), pytrace=False)


@contextmanager
def live(path: Path, interface: str = "lo", *, ports: Collection[int] = (), options: Collection[str] = ()) -> Iterator[Traffic]:
    """Capture what happens during a block into a file.

    Args:
        path: file of the capture, pcapng.
        interface: interface to capture on, `any` for all.
        ports: server ports to capture and decode as Pulsar; by default the ports of the known protocols.
        options: further options of `pulsarscope live`.

    Raises:
        UsageError: the capture cannot begin: rights are missing, or the interface.
    """
    chosen = [word for port in ports for word in ("--port", str(port))]
    command = [sys.executable, "-m", "pulsarscope", "live", "-i", interface, "--capture-only", "-w", str(path), *chosen, *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, errors="replace")  # noqa: S603 - our own command
    try:
        said = []
        for line in process.stderr or ():
            said.append(line.strip())
            if LISTENING in line:
                break
        else:
            process.wait()
            raise UsageError("no capture began: " + (" ".join(said) or f"exit code {process.returncode}"))
        yield Traffic(path, ports)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


@pytest.fixture
def pulsarscope_live(tmp_path: Path) -> Callable[..., AbstractContextManager[Traffic]]:
    """Return a context manager that captures what happens during a block: (interface="lo", *, ports=(), options=())."""
    count = 0

    def capture(interface: str = "lo", *, ports: Collection[int] = (), options: Collection[str] = ()) -> AbstractContextManager[Traffic]:
        nonlocal count
        count += 1
        return live(tmp_path / f"traffic-{count}.pcapng", interface, ports=ports, options=options)

    return capture
