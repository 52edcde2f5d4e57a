"""The options of every command that reads captures."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import pulsarscope as ps
from pulsarscope.cli import app
from pulsarscope.cli.reading import Reading
from pulsarscope.errors import UsageError

READ_CAPTURES = ("decode", "messages", "stats", "diagnose", "compare", "extract", "follow")


@pytest.mark.parametrize("command", READ_CAPTURES)
def test_each_command_that_reads_captures_offers_all_of_them(command: str) -> None:
    told = CliRunner().invoke(app, [command, "--help"]).output
    assert {"--" + name.replace("_", "-") for name in Reading._fields} <= set(re.findall(r"--[a-z-]+", told))


def test_no_other_command_does() -> None:
    assert "--decode-as" not in CliRunner().invoke(app, ["fields", "--help"]).output


@pytest.mark.parametrize("command", ["decode", "stats"])
def test_they_reach_the_run(command: str, captures: Path) -> None:
    capture = str(captures / "quickstart.pcapng")
    told = CliRunner().invoke(app, [command, capture, "-d", "6650=nothing"])
    assert told.exception is not None
    assert "no dissector is named 'nothing'" in str(told.exception)


def test_the_library_takes_ports_as_the_command_line_does(captures: Path) -> None:
    capture = str(captures / "raw-not-pulsar.pcap")
    rows = list(ps.open(capture, ports=[6650]).frames())
    lines = CliRunner().invoke(app, ["decode", capture, "--port", "6650", "--format", "ndjson", "-q"]).stdout.splitlines()
    assert len(lines) == len(rows) > 0
    assert [json.loads(line)["offset"] for line in lines] == [row.offset for row in rows]
    assert len(list(ps.open(capture, decode_as={6650: "pulsar"}).frames())) == len(rows)


def test_key_logs_open_tls_for_the_command_line_and_the_library_alike(captures: Path) -> None:
    capture = str(captures / "go-tls13.pcap")
    key_logs = [str(captures / f"go-tls{version}.keylog") for version in ("12", "13")]
    rows = list(ps.open(capture, tls_keylog=key_logs).frames())
    assert len(rows) > 50
    assert rows == list(ps.open(capture, tls_keylog=key_logs[1]).frames())
    arguments = ["decode", capture, *(f"--tls-keylog={path}" for path in key_logs), "--format", "ndjson", "-q"]
    lines = CliRunner().invoke(app, arguments).stdout.splitlines()
    assert [json.loads(line)["command"] for line in lines] == [row.command for row in rows]


def test_the_environment_opens_nothing(captures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSLKEYLOGFILE", str(captures / "go-tls13.keylog"))
    assert list(ps.open(str(captures / "go-tls13.pcap")).frames()) == []


@pytest.mark.parametrize("command", READ_CAPTURES)
def test_a_key_log_that_cannot_be_read_is_one_line(command: str, captures: Path) -> None:
    files = [str(captures / "quickstart.pcapng")] * (2 if command == "compare" else 1)
    more = ["--topic", "t"] if command == "follow" else ["-o", "never.pcapng"] if command == "extract" else []
    told = CliRunner().invoke(app, [command, *files, *more, "--tls-keylog", "missing.log"])
    assert isinstance(told.exception, UsageError)
    assert str(told.exception) == "the TLS key log missing.log cannot be read: No such file or directory"
