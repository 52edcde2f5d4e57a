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
