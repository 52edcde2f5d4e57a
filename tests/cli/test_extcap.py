"""What Wireshark asks its capture programs, and the capture that it gets."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

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


@needs_capturing
def test_a_capture_reaches_the_pipe_until_it_is_stopped(captures: Path, tmp_path: Path) -> None:
    port, fifo = free_port(), tmp_path / "fifo"
    os.mkfifo(fifo)
    command = [sys.executable, "-m", "pulsarscope.cli.extcap", "--capture", "--fifo", str(fifo), "--interface", "lo"]
    with subprocess.Popen([*command, "--extcap-capture-filter", f"tcp port {port}"]) as process:
        read = bytearray()

        def drain() -> None:
            with fifo.open("rb", buffering=0) as pipe:
                while piece := pipe.read(1 << 16):
                    read.extend(piece)

        reader = threading.Thread(target=drain)
        reader.start()
        while not read:  # the head is written once the capture has started
            time.sleep(0.05)
        replay(said_in(captures / "quickstart.pcapng")[:1], port)
        while b"SEND_RECEIPT" not in read:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
        reader.join()
    commands = [row.command for row in pulsarscope.open(bytes(read)).frames()]
    assert commands[:2] == ["CONNECT", "CONNECTED"]
