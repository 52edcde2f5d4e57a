"""The screen of `live --top` in a terminal, operated like by a user."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from pulsarscope.cli.screen import keys_in

COMMAND = (sys.executable, "-m", "pulsarscope", "live", "--top", "-i")
DRILLED = 300
"""Number of packets of the capture of a stuck consumer, whose connection is then open."""

LEFT = "\x1b[?25h\x1b[?1049l"


class Terminal:
    """A terminal whose pictures are read as text."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.output = ""

    def resize(self, width: int, height: int) -> None:
        fcntl.ioctl(self._descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def type(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    @property
    def picture(self) -> str:
        """Return the latest whole picture without colours."""
        pictures = re.findall(r"\x1b\[\?2026h\x1b\[H(.*?)\x1b\[\?2026l", self.output, re.DOTALL)
        return re.sub(r"\x1b\[[0-9;]*[mK]", "", pictures[-1]).replace("\r", "") if pictures else ""

    def read(self, seconds: float = 0.05) -> bool:
        """Read the output of this time; return False at its end."""
        if select.select([self._descriptor], [], [], seconds)[0]:
            try:
                data = os.read(self._descriptor, 65_536)
            except OSError:  # a terminal ends in this way on Linux
                return False
            self.output += data.decode(errors="replace")
            return bool(data)
        return True

    def wait_for(self, pattern: str, *, raw: bool = False) -> str:
        """Return the first picture that matches, or all output."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if re.search(pattern, self.output if raw else self.picture, re.MULTILINE):
                return self.picture
            if not self.read():
                break
        raise AssertionError(f"{pattern!r} is not in\n{self.output[-3_000:] if raw else self.picture}")

    def is_as_before(self) -> bool:
        """Return whether typed text is shown, and comes line by line."""
        modes = int(termios.tcgetattr(self._descriptor)[3])
        return bool(modes & termios.ECHO and modes & termios.ICANON)


def head(capture: Path, packets: int) -> bytes:
    """Return the beginning of a pcap file."""
    data, at = capture.read_bytes(), 24
    for _ in range(packets):
        at += 16 + int(struct.unpack_from("<I", data, at + 8)[0])
    return data[:at]


def _becomes_leader() -> None:
    os.setsid()
    fcntl.ioctl(1, termios.TIOCSCTTY, 0)


@contextmanager
def in_terminal(*command: str, packets: bytes | None = None, width: int = 80) -> Iterator[tuple[Terminal, subprocess.Popen[bytes]]]:
    """Run a command in a terminal of its own; `packets` come from a pipe as standard input, which is otherwise the terminal, too."""
    ours, theirs = pty.openpty()
    terminal = Terminal(ours)
    terminal.resize(width, 24)
    source = theirs if packets is None else subprocess.PIPE
    environment = {**os.environ, "TERM": "xterm-256color", "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PS1": "ready$ "}
    with subprocess.Popen(command, stdin=source, stdout=theirs, stderr=theirs, preexec_fn=_becomes_leader, env=environment) as process:  # noqa: PLW1509 - no other thread runs
        os.close(theirs)
        try:
            if packets is not None:
                assert process.stdin is not None
                process.stdin.write(packets)
                process.stdin.flush()
            yield terminal, process
        finally:
            process.kill()
            if process.stdin is not None:
                with suppress(BrokenPipeError):
                    process.stdin.close()
    os.close(ours)


def ended(terminal: Terminal, process: subprocess.Popen[bytes]) -> str:
    """Return the text of the terminal after the last picture, once the process has ended."""
    terminal.wait_for(re.escape(LEFT), raw=True)
    end = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < end:
        terminal.read()
    while terminal.read(0.2) and select.select([terminal._descriptor], [], [], 0)[0]:
        pass
    return terminal.output.rsplit(LEFT, 1)[1]


@pytest.mark.slow
def test_keys_lead_through_the_views_and_q_leaves_a_summary(captures: Path) -> None:
    with in_terminal(*COMMAND, "-", packets=head(captures / "stuck-consumer.pcap", DRILLED)) as (terminal, process):
        terminal.wait_for(r"stuck-t-20 .* 6\d +7\d ")
        assert not terminal.is_as_before()
        terminal.type("3")
        terminal.wait_for(r"^  subscription +consumer +out/s +permits +unacked")
        terminal.type("/cons-st\r")
        shown = terminal.wait_for(r"filter /cons-st")
        assert "cons-ok" not in shown.split("Producers")[0]
        terminal.type("\r")
        assert re.search(r" server +MESSAGE +stuck-t-20 ", terminal.wait_for(r"connection #\d+, 10\.9\.0\.11:\d+ to 10\.9\.0\.1:6650"))
        terminal.type("\x1b")
        terminal.wait_for(r"^ .*\[3 consumers")
        terminal.type("?")
        terminal.wait_for(r"^Keys")
        terminal.type(" f")
        terminal.wait_for(r"^  .*findings *$")
        terminal.type("q")
        summary = ended(terminal, process)
        assert process.returncode == 0
        assert terminal.is_as_before()
    assert "cons-stuck" in summary
    assert re.search(r"stuck-t-20 .* 6\d +7\d\s", summary)


@pytest.mark.slow
def test_it_follows_the_size_of_the_terminal(captures: Path) -> None:
    with in_terminal(*COMMAND, "-", packets=head(captures / "stuck-consumer.pcap", DRILLED)) as (terminal, _):
        shown = terminal.wait_for(r"stuck-t-20 .* 6\d +7\d ")
        assert len(shown.split("\n")) == 24
        assert [line for line in shown.split("\n") if len(line) > 80] == []
        terminal.resize(200, 50)
        shown = terminal.wait_for(r"(?s)^Requests.*^  SEND ")
        assert len(shown.split("\n")) == 50
        terminal.resize(40, 10)
        terminal.wait_for(r"\A(.{0,60}\n){9}[^\n]*\Z")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_gives_the_terminal_back(number: signal.Signals, captures: Path) -> None:
    with in_terminal(*COMMAND, "-", packets=(captures / "errors.pcap").read_bytes()) as (terminal, process):
        terminal.wait_for(r"request-failed")
        process.send_signal(number)
        left = ended(terminal, process)
        assert "error producer-busy" in left
        assert "try: " in left
        assert process.returncode == 0
        assert terminal.is_as_before()


@pytest.mark.slow
def test_a_failure_gives_the_terminal_back(captures: Path) -> None:
    broken = "import pulsarscope.output.render.top as top\ntop.Top.picture = lambda *_: 1 / 0\nfrom pulsarscope.cli import main\nmain()"
    data = (captures / "errors.pcap").read_bytes()
    with in_terminal(sys.executable, "-c", broken, "live", "--top", "-i", "-", packets=data) as (terminal, process):
        left = ended(terminal, process)
        assert process.returncode == 6
        assert terminal.is_as_before()
    assert "internal error: ZeroDivisionError" in left


@pytest.mark.slow
def test_it_is_stopped_and_goes_on(captures: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with in_terminal("bash", "--norc", "-i") as (terminal, _):
        terminal.wait_for(r"ready\$ ", raw=True)
        terminal.type(f"{shlex.join(COMMAND)} {pipe}\n")
        with pipe.open("wb", buffering=0) as packets:
            packets.write((captures / "errors.pcap").read_bytes())
            terminal.wait_for(r"request-failed")
            terminal.type("\x1a")
            terminal.wait_for(r"Stopped[^$]*ready\$ ", raw=True)
            assert terminal.output.count(LEFT) == 1
            terminal.output = ""
            terminal.type("fg\n")
            terminal.wait_for(r"request-failed")
            terminal.type("q")
            terminal.wait_for(r"packets from .*ready\$ ".replace(".*", r"[^$]*"), raw=True)
        terminal.type("exit\n")


@pytest.mark.slow
def test_without_a_keyboard_it_says_how_it_ends(captures: Path) -> None:
    ours, theirs = pty.openpty()
    terminal = Terminal(ours)
    command = [*COMMAND, "-"]
    environment = {**os.environ, "TERM": "xterm"}
    # A separate session without a terminal: there is no /dev/tty.
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=theirs, stderr=theirs, start_new_session=True, env=environment) as process:
        os.close(theirs)
        assert process.stdin is not None
        process.stdin.write((captures / "errors.pcap").read_bytes())
        process.stdin.flush()
        terminal.wait_for(r"no keyboard: Ctrl-C ends it")
        process.stdin.close()
        assert "packets from standard input" in ended(terminal, process)
    os.close(ours)


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_terminal_that_cannot_show_it_is_one_line(term: str) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": term}
    done = subprocess.run([*COMMAND, "-"], stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, env=environment, check=False, timeout=30)
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 2
    assert b"--top needs a terminal that can move its cursor" in done.stderr
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("q", ["q"]),
        ("\x1b[A\x1b[B\x1bOC\x1b[D", ["up", "down", "right", "left"]),
        ("\x1b[5~\x1b[6~\x1b[H\x1b[4~", ["page-up", "page-down", "home", "end"]),
        ("\x1b[1;5A", ["up"]),
        ("\r\t\x7f\x15", ["enter", "tab", "backspace", "ctrl-u"]),
        ("\x1b", ["escape"]),
        ("\x1b\x1b", ["escape", "escape"]),
        ("ä中", ["ä", "中"]),
        ("\x1b[200~x\x1b[99z\x01", ["x"]),
        ("\x1b[", []),
    ],
)
def test_keys_have_names(text: str, keys: list[str]) -> None:
    assert list(keys_in(text)) == keys
