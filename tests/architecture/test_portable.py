"""POSIX-only names, which must be guarded; everything but live capture works without them."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.modules import SOURCES, name_of, tree_of
from tests.places import CAPTURES

MODULES = frozenset({"fcntl", "termios", "tty", "pty", "pwd", "grp", "resource", "syslog", "posix", "readline", "crypt"})
"""Modules that Windows lacks."""

_OS = """chown fchmod fchown fork forkpty getegid geteuid getgid getgroups getpgid getuid initgroups killpg lchown mkfifo mknod nice
openpty posix_fadvise posix_spawn pread preadv pwrite sched_getaffinity sched_setaffinity sendfile setegid seteuid setgid
setgroups setpgid setsid setuid splice statvfs sysconf uname wait wait3 wait4 O_NOFOLLOW O_NONBLOCK O_DIRECTORY O_CLOEXEC
WNOHANG"""
_SIGNAL = """SIGALRM SIGHUP SIGKILL SIGQUIT SIGSTOP SIGCONT SIGTSTP SIGUSR1 SIGUSR2 SIGWINCH SIGCHLD SIGPIPE ITIMER_REAL alarm pause
setitimer getitimer pthread_sigmask sigwait"""

ATTRIBUTES = {
    "os": frozenset(_OS.split()),
    "signal": frozenset(_SIGNAL.split()),
    "socket": frozenset({"AF_UNIX", "AF_PACKET", "SO_REUSEPORT"}),
    "time": frozenset({"tzset", "clock_gettime", "clock_gettime_ns"}),
}
"""Names that Windows lacks, or one of Linux and macOS."""

GUARDED = {
    "pulsarscope.cli.extcap_capture": "captures live",
    "pulsarscope.cli.commands.live": "captures live",
    "pulsarscope.cli.live_capture": "captures live",
    "pulsarscope.cli.screen": "the screen of live; termios is imported where it is",
    "pulsarscope.cli.commands.wireshark": "acts as another user behind sudo alone",
    "pulsarscope.engine.parallel.channel": "fcntl is imported within suppress",
    "pulsarscope.engine.parallel.driver": "sched_getaffinity is asked for with hasattr",
    "pulsarscope.engine.parallel.fork": "there is no fork where /proc does not tell that there is one thread",
    "pulsarscope.engine.stall_warnings": "setitimer is asked for with hasattr",
    "pulsarscope.model.users": "geteuid is asked for with hasattr, before pwd is imported",
}
"""Modules that may use these names, each with the reason why the rest works without them."""

ROOMS = ("pulsarscope.live.", "pulsarscope.spark.")
"""Rooms for Linux, and for clusters."""


def posix_only(tree: ast.AST) -> set[str]:
    """Return the POSIX-only names in a module."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name in MODULES}
        elif isinstance(node, ast.ImportFrom):
            names = {alias.name for alias in node.names}
            found |= ({node.module} & MODULES if node.module else set()) | (names & ATTRIBUTES.get(node.module or "", frozenset()))
        elif (
            isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in ATTRIBUTES.get(node.value.id, frozenset())
        ):
            found.add(f"{node.value.id}.{node.attr}")
    return found


@pytest.mark.parametrize("text", ["import fcntl", "from os import fork", "import os\nos.getuid()", "import signal\nsignal.SIGALRM"])
def test_the_lint_sees_what_it_is_for(text: str) -> None:
    assert posix_only(ast.parse(text))


@pytest.mark.slow
def test_only_guarded_modules_name_what_only_posix_has() -> None:
    named = {name_of(path): posix_only(tree_of(path)) for path in SOURCES}
    assert {module: names for module, names in named.items() if names and module not in GUARDED and not module.startswith(ROOMS)} == {}


KEPT = frozenset({"posix", "SIGKILL", "SIGPIPE", "WNOHANG", "O_CLOEXEC"})
"""What the interpreter's own modules cannot do here without these names."""

WITHOUT_POSIX = f"""
import asyncio, os, random, shutil, signal, socket, subprocess, sys, tempfile, time
for module in {sorted(MODULES - KEPT)}:
    sys.modules[module] = None
for module, names in { ({module: sorted(names - KEPT) for module, names in ATTRIBUTES.items()}) }.items():
    for name in names:
        if hasattr(sys.modules[module], name):
            delattr(sys.modules[module], name)
sys.argv[:] = ["pulsarscope", *sys.argv[1:]]
from pulsarscope.cli import main
main()
"""
"""The command line without these names."""

QUICKSTART, ERRORS = str(CAPTURES / "quickstart.pcapng"), str(CAPTURES / "errors.pcap")


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ("decode", QUICKSTART),
        ("decode", QUICKSTART, "-V", "--limit", "3"),
        ("decode", str(CAPTURES / "schemas-py-zst.pcap.zst"), "-f", "csv"),
        ("messages", QUICKSTART, "--export", "{folder}/payloads"),
        ("stats", QUICKSTART, "-f", "json"),
        ("diagnose", QUICKSTART, "-o", "{folder}/diagnosis.txt"),
        ("compare", QUICKSTART, ERRORS),
        ("follow", QUICKSTART, "--topic", "ng-t-421"),
        ("extract", QUICKSTART, "--redact", "-o", "{folder}/copy.pcapng"),
        ("findings", "idle-cut"),
        ("fields", "send"),
        ("help", "tutorial"),
        ("config", "--show"),
        ("wireshark", "--lua"),
        ("--help",),
        ("--version",),
    ],
    ids=lambda command: " ".join(part for part in command if not part.startswith("/")),
)
def test_commands_work_without_it(tmp_path: Path, command: tuple[str, ...]) -> None:
    arguments = [part.format(folder=tmp_path) for part in command]
    result = subprocess.run([sys.executable, "-c", WITHOUT_POSIX, *arguments], capture_output=True, text=True, check=False, timeout=120)
    assert result.returncode == 0, result.stderr
    assert "Traceback" not in result.stderr
