from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pulsarscope.cli.arguments.application import app
from pulsarscope.model.errors import PulsarscopeError, UsageError
from tests.places import CAPTURES
from tests.scenarios.bad_inputs.cases import capture
from tests.scenarios.bad_inputs.text import hostile_packets

QUICKSTART = str(CAPTURES / "quickstart.pcapng")
NAMES = ("packet", "time", "latency", "send.sequence_id", "metadata.properties", "client.ip")


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["decode", *arguments], env={"COLUMNS": "100"})
    if isinstance(result.exception, PulsarscopeError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout_bytes.decode()


def columns(output_format: str | None, *options: str) -> str:
    return run(QUICKSTART, "--columns", ",".join(NAMES), *(["-f", output_format] if output_format else []), *options)


def test_the_formats_hold_the_same_values() -> None:
    lines = [json.loads(line) for line in columns("ndjson").splitlines()]
    assert json.loads(columns("json")) == lines
    rows = [*csv.DictReader(io.StringIO(columns("csv"), newline=""))]
    assert tuple(rows[0]) == NAMES
    assert [row["send.sequence_id"] for row in rows] == [str(line.get("send.sequence_id", "")) for line in lines]
    assert [row["latency"] for row in rows] == [str(line.get("latency", "")) for line in lines]
    plain = [json.loads(line) for line in run(QUICKSTART, "-f", "ndjson").splitlines()]
    assert [line.get("latency") for line in lines] == [row.get("latency_ns") for row in plain]
    assert [line["time"] for line in lines] == [row["time"] for row in plain]
    assert any("metadata.properties" in line for line in lines)


def test_text_has_durations_for_people() -> None:
    text = columns(None).splitlines()
    assert text[0].split() == [*NAMES]
    assert len(text) == 95
    assert re.search(r"\d (µs|ms)  ", columns(None))


def test_rows_of_several_kinds_name_their_kind() -> None:
    lines = run(QUICKSTART, "--records", "frame,exchange", "--columns", "command,request,server.port", "-f", "ndjson").splitlines()
    assert {json.loads(line)["record"] for line in lines} == {"frame", "exchange"}


@pytest.mark.slow
def test_processes_and_filters_change_nothing() -> None:
    assert columns("csv", "-j", "2") == columns("csv")
    assert columns("ndjson", "-Y", "send") == "".join(line for line in columns("ndjson").splitlines(True) if "send.seq" in line)


def test_an_empty_result_is_whole() -> None:
    assert columns("json", "-Y", "pong") == "[]\n"
    assert columns("csv", "-Y", "pong") == ",".join(NAMES) + "\r\n"


@pytest.mark.parametrize(
    ("names", "why"),
    [("packet,comand", "did you mean command"), ("send.sequenc_id", "unknown field"), ("packet,len(size)", "no length")],
)
def test_what_is_no_field_is_refused(names: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        run(QUICKSTART, "--columns", names)


def test_parquet_takes_columns_only(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="columns of the records only"):
        run(QUICKSTART, "--columns", "packet,latency", "-f", "parquet", "-o", str(tmp_path / "a.parquet"))
    assert not [*tmp_path.iterdir()]


def test_hostile_values_stay_inert(tmp_path: Path) -> None:
    path = str(capture(tmp_path, hostile_packets()))
    for output_format in ([], ["-f", "csv"], ["-f", "json"]):
        text = run(path, "--columns", "topic,metadata,fields.topic,len(topic)", *output_format)
        assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202e]", text)
