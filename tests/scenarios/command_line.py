"""Runs of the command line, in this process or in a separate one."""

from __future__ import annotations

import gc
import io
import subprocess
import sys
import warnings
from typing import Any

import pytest

from pulsarscope import cli

COMMAND = [sys.executable, "-m", "pulsarscope"]


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The exit code of the command line, run in this process."""
    monkeypatch.setattr(sys, "argv", ["pulsarscope", *arguments])
    monkeypatch.setattr(gc, "collect", lambda: 0)  # it would traverse all objects of all tests
    with pytest.raises(SystemExit) as ended:
        cli.main()
    code = ended.value.code
    assert isinstance(code, int) or code is None
    return code or 0


def execute(*arguments: str, **values: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, timeout=60, check=False, **values)


def execute_here(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    """The same as `execute`, in this process."""
    threshold = gc.get_threshold()
    with pytest.MonkeyPatch.context() as patch, io.BytesIO() as out, io.BytesIO() as err:
        patch.setattr(warnings, "showwarning", warnings.showwarning)  # the command line sets it
        for name, written in (("stdout", out), ("stderr", err)):
            patch.setattr(sys, name, io.TextIOWrapper(written, encoding="utf-8", write_through=True))
        try:
            code = run(patch, *arguments)
        finally:
            gc.set_threshold(*threshold)
        sys.stdout.flush()
        return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())
