"""Runs of the command line, in this process and in one of its own."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from pulsarscope import cli

COMMAND = [sys.executable, "-m", "pulsarscope"]


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The exit code of the command line, run in this process."""
    monkeypatch.setattr(sys, "argv", ["pulsarscope", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    code = ended.value.code
    assert isinstance(code, int) or code is None
    return code or 0


def execute(*arguments: str, **values: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, timeout=60, check=False, **values)
