"""Dropping of privileges."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scenarios.loopback import free_port, needs_capturing

PROGRAM = """
import os, sys
from pulsarscope.live.privileges import drop_privileges
drop_privileges()
status = open("/proc/self/status").read()
print([line.split()[1] for line in status.splitlines() if line.startswith(("CapEff", "CapPrm", "NoNewPrivs"))], os.getuid(), os.getgid())
"""

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux tells of capabilities in /proc")


def status(**environment: str) -> str:
    environment_without_sudo = {name: value for name, value in os.environ.items() if not name.startswith("SUDO_")}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, env={**environment_without_sudo, **environment}
    ).stdout.strip()


def test_no_capability_is_left() -> None:
    assert status().startswith("['0000000000000000', '0000000000000000', '1']")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_under_sudo_it_is_the_user_who_called_it() -> None:
    assert status(SUDO_UID="12345", SUDO_GID="23456").endswith(" 12345 23456")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_what_the_user_may_not_do_is_done_before() -> None:
    program = PROGRAM.replace("drop_privileges()", "drop_privileges(lambda: print(os.getuid(), end=' '))")
    environment = {**os.environ, "SUDO_UID": "12345", "SUDO_GID": "23456"}
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment).stdout
    assert said.startswith("0 ")
    assert said.strip().endswith(" 12345 23456")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_root_stays_root_without_its_powers() -> None:
    assert status(SUDO_UID="0", SUDO_GID="0").endswith(" 0 0")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_what_is_refused_does_not_save_the_rest() -> None:
    program = f"import os\ndef refuse(groups): raise PermissionError\nos.setgroups = refuse\n{PROGRAM}"
    environment = {**os.environ, "SUDO_UID": "12345", "SUDO_GID": "23456"}
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment).stdout
    assert said.strip().endswith(" 12345 23456")


@pytest.mark.slow
@needs_capturing
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("options", [("--jobs", "2"), ("--metrics", "127.0.0.1:0")], ids=" ".join)
def test_a_user_who_may_read_nothing_of_the_program_captures_all_the_same(options: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "pulsarscope", "live", "-i", "lo", "--port", str(free_port()), "--for", "1s", *options]
    environment = {**os.environ, "SUDO_UID": "12345", "SUDO_GID": "23456"}
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == 0, result.stderr
    assert "none dropped by the kernel" in result.stderr
