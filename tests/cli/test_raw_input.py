"""Streams without packets are decoded like captures."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

import pulsarscope
from pulsarscope.cli import raw_input
from pulsarscope.cli.raw_input import capture_of
from pulsarscope.inputs.hex_dumps import Turn
from tests.scenarios.command_line import run
from tests.scenarios.commands import CONNECT, CONNECTED, created, producer, send

Captured = pytest.CaptureFixture[str]

CLIENT = CONNECT + producer() + send()
SERVER = CONNECTED + created()
COMMANDS = ["CONNECT", "CONNECTED", "PRODUCER", "SEND", "PRODUCER_SUCCESS"]


def commands(captured: str) -> list[str]:
    return [json.loads(line)["command"] for line in captured.splitlines()]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    for name, data in (("client.bin", CLIENT), ("server.bin", SERVER)):
        (tmp_path / name).write_bytes(data)
    return [str(tmp_path / "client.bin"), str(tmp_path / "server.bin")]


def test_two_streams_are_one_connection(files: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    assert run(monkeypatch, "decode", "--raw", *files, "-f", "ndjson") == 0
    assert commands(capsys.readouterr().out) == COMMANDS
    assert run(monkeypatch, "messages", "--raw", *files) == 0
    assert "persistent://public/default/t" in capsys.readouterr().out.replace(" t ", " persistent://public/default/t ")


def test_one_stream_is_enough_also_from_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(CLIENT)))
    assert run(monkeypatch, "decode", "--raw", "-", "-f", "ndjson") == 0
    assert commands(capsys.readouterr().out) == ["CONNECT", "PRODUCER", "SEND"]


def test_a_hex_dump_is_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    (tmp_path / "dump.txt").write_text(CLIENT.hex())
    assert run(monkeypatch, "decode", "--hexdump", str(tmp_path / "dump.txt"), "-f", "ndjson") == 0
    assert commands(capsys.readouterr().out) == ["CONNECT", "PRODUCER", "SEND"]


def test_a_long_stream_is_cut_into_packets() -> None:
    said = [Turn(True, CONNECT), Turn(False, CONNECTED), Turn(True, producer() + send(payload=b"x" * 500_000))]
    rows = list(pulsarscope.open(capture_of(said)).frames())
    assert [row.command for row in rows] == ["CONNECT", "CONNECTED", "PRODUCER", "SEND"]
    assert rows[-1].checksum is not None
    assert rows[-1].checksum.status == "good"


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (("--raw", "{0}", "{1}", "{0}"), 2, "give one or two files"),
        (("--raw", "--hexdump", "{0}"), 2, "give one"),
        (("--raw", "{0}x"), 3, "cannot be read"),
        (("--hexdump", "{0}"), 3, "not a hex dump"),
        (("--raw", "{2}"), 3, "is empty"),
    ],
)
def test_wrong_use_is_one_line(
    files: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Captured,
    arguments: tuple[str, ...],
    code: int,
    reason: str,
) -> None:
    (tmp_path / "empty").touch()
    assert run(monkeypatch, "decode", *(argument.format(*files, tmp_path / "empty") for argument in arguments)) == code
    err = capsys.readouterr().err
    assert reason in err
    assert err.count("\n") == 1


def test_a_stream_that_does_not_fit_into_memory_is_refused(files: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr(raw_input, "RAW_INPUT_MAX_BYTES", 10)
    assert run(monkeypatch, "decode", "--raw", *files) == 2
    assert "larger than" in capsys.readouterr().err
