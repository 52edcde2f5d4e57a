from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from pulsarscope.cli.commands.fields import NAME_WIDTH, FieldsRequest, catalogue, fields
from pulsarscope.model.errors import UsageError


def test_all_fields_are_listed_under_their_records(capsys: pytest.CaptureFixture[str]) -> None:
    fields(FieldsRequest())
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "frame, message, exchange, connection, finding, journey records"
    for name in ("size", "latency", "metadata.producer_name", "SEND.sequence_id", "finding.severity", "client.ip"):
        assert any(line.split()[:1] == [name] for line in lines), name


def test_one_field_is_shown_with_all_its_values_and_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    fields(FieldsRequest(prefix="compr"))
    out = capsys.readouterr().out
    assert "one of NONE, LZ4, ZLIB, ZSTD, SNAPPY" in out
    assert "as in: compression == NONE" in out


@pytest.mark.parametrize("width", [80, 120, 200])
def test_meanings_fit_the_terminal(width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    fields(FieldsRequest())
    whole = capsys.readouterr().out
    monkeypatch.setattr("pulsarscope.cli.commands.fields.is_terminal", lambda _: True)
    monkeypatch.setenv("COLUMNS", str(width))
    fields(FieldsRequest())
    shown = capsys.readouterr().out
    assert shown.split() == whole.split()
    too_wide = [line for line in shown.splitlines() if len(line) > width and len(line.split()[0]) <= NAME_WIDTH]
    assert too_wide == []


def test_programs_get_the_same_list_in_each_format(capsys: pytest.CaptureFixture[str]) -> None:
    fields(FieldsRequest(prefix="metadata", format="json"))
    objects = json.loads(capsys.readouterr().out)
    fields(FieldsRequest(prefix="metadata", format="ndjson"))
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == objects
    fields(FieldsRequest(prefix="metadata", format="csv"))
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["name"] for row in rows] == [entry["name"] for entry in objects]
    assert rows[0].keys() == objects[0].keys() == {"name", "records", "type", "text", "example", "values"}


def test_the_list_goes_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fields(FieldsRequest(prefix="topic", out=str(tmp_path / "fields.txt")))
    assert capsys.readouterr().out == ""
    assert "topic" in (tmp_path / "fields.txt").read_text()


def test_an_unknown_prefix_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match='no field begins with "xyz"'):
        fields(FieldsRequest(prefix="xyz"))


def test_the_catalogue_has_the_fields_of_every_dissector() -> None:
    assert "SEND" in catalogue().commands
    assert "sequence_id" in catalogue().tables["frame"]["metadata"].fields
