"""The interface between Wireshark and its capture programs, and the capture that it gets."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from shutil import which

import pytest

import pulsarscope
from pulsarscope.capture import BlockReader
from pulsarscope.cli.extcap import main
from pulsarscope.cli.extcap_capture import commented, options_of_comments
from tests.scenarios.loopback import free_port, needs_capturing, replay, said_in

Captured = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--extcap-interfaces", "--extcap-version=4.0"], "interface {value=pulsarscope}{display=Apache Pulsar (pulsarscope live)}"),
        (["--extcap-dlts", "--extcap-interface=pulsarscope"], "dlt {number=1}{name=EN10MB}{display=Ethernet}"),
        (["--extcap-config", "--extcap-interface", "pulsarscope"], "value {arg=0}{value=any}{display=all interfaces}{default=true}"),
    ],
)
def test_questions_are_answered(capsys: Captured, arguments: list[str], line: str) -> None:
    assert main(arguments) == 0
    assert line in capsys.readouterr().out.splitlines()


def test_it_says_who_starts_it(capsys: Captured) -> None:
    assert main([]) == 2
    assert "Wireshark starts this program" in capsys.readouterr().err


@pytest.mark.parametrize("query", ["--extcap-dlts", "--extcap-config", "--capture"])
def test_another_interface_than_its_own_is_refused(capsys: Captured, query: str) -> None:
    assert main([query, "--extcap-interface", "nope\x1b", "--fifo", "x"]) == 2
    assert capsys.readouterr() == ("", "pulsarscope: unknown interface nope\\x1b: the only one is pulsarscope\n")


def test_an_unknown_interface_is_one_line(capsys: Captured, tmp_path: Path) -> None:
    assert main(["--capture", "--fifo", str(tmp_path / "x"), "--interface", "no-such"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("name", ["quickstart.pcapng", "raw-checksum.pcap", "go-tls13-dsb.pcapng"])
@pytest.mark.parametrize("read_bytes", [None, 3000])
def test_packets_carry_names_of_frames_and_findings(captures: Path, tmp_path: Path, name: str, read_bytes: int | None) -> None:
    feed = BlockReader(str(captures / name), records=True, read_bytes=read_bytes)
    copy = tmp_path / "copy.pcapng"
    copy.write_bytes(b"".join(commented(feed, options_of_comments())))
    expected = [(row.packet, row.sub, row.command) for row in pulsarscope.open(captures / name).frames()]
    assert [(row.packet, row.sub, row.command) for row in pulsarscope.open(copy).frames()] == expected
    content = copy.read_bytes()
    for packet, sub, command in expected:
        assert f"{packet}.{sub} {command}".encode() in content
    for finding in pulsarscope.open(captures / name).findings():
        assert f"{finding.severity} {finding.code}: ".encode() in content


@pytest.mark.slow
@needs_capturing
@pytest.mark.parametrize(
    "option",
    [
        "--any-port",
        pytest.param("--extcap-capture-filter", marks=pytest.mark.skipif(not which("tcpdump"), reason="tcpdump compiles filters")),
    ],
)
def test_a_capture_reaches_the_pipe_until_it_is_stopped(captures: Path, tmp_path: Path, option: str) -> None:
    port, fifo = free_port(), tmp_path / "fifo"
    os.mkfifo(fifo)
    pipe = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)  # so that nothing waits for a program that does not start
    command = [sys.executable, "-m", "pulsarscope.cli.extcap", "--capture", "--fifo", str(fifo), "--interface", "lo", option]
    if option != "--any-port":
        command.append(f"tcp port {port}")
    read = bytearray()

    def commands() -> list[str | None]:
        return [row.command for row in pulsarscope.open(bytes(read)).frames(filter=f"port == {port}")] if read else []

    with subprocess.Popen(command) as process:

        def read_until(done: Callable[[], bool]) -> None:
            while process.poll() is None and not done():
                time.sleep(0.05)
                with suppress(BlockingIOError):
                    read.extend(os.read(pipe, 1 << 20))

        try:
            read_until(lambda: bool(read))  # the file header is written once the capture has started
            replay(said_in(captures / "quickstart.pcapng")[:1], port)
            read_until(lambda: "SEND_RECEIPT" in commands())
        finally:
            process.send_signal(signal.SIGTERM)
        read_until(lambda: False)
        assert process.returncode == 0
    os.close(pipe)
    assert commands()[:2] == ["CONNECT", "CONNECTED"]
