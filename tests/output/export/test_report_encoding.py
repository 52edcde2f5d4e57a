from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from pulsarscope.model.errors import UsageError
from pulsarscope.output.export.report_encoding import report_bytes
from tests.scenarios.odd_values import DISPLAYED

START = 1_777_629_600_123_456_789
TEXT = "2026-05-01T10:00:00.123456789Z"

TOTAL: dict[str, Any] = {"start": START, "count": 3, "rate": None}
TOPIC: dict[str, Any] = {"topic": "t", "histogram": [{"from_ns": 1, "count": 2}]}
SECTIONS = {"total": [TOTAL], "topics": [TOPIC, {"topic": None, "others": True}]}


def test_json_is_one_object_of_sections() -> None:
    made = json.loads(report_bytes(SECTIONS, "json"))
    assert made["total"] == {"start": TEXT, "count": 3, "rate": None}
    assert made["topics"] == SECTIONS["topics"]


def test_ndjson_is_an_object_a_line_and_leaves_out_what_is_absent() -> None:
    lines = [json.loads(line) for line in report_bytes(SECTIONS, "ndjson").splitlines()]
    assert lines == [
        {"section": "total", "start": TEXT, "count": 3},
        {"section": "topics", **TOPIC},
        {"section": "topics", "others": True},
    ]


def test_csv_holds_one_section() -> None:
    (first, others) = csv.DictReader(io.StringIO(report_bytes({"topics": SECTIONS["topics"]}, "csv").decode(), newline=""))
    assert first == {"topic": "t", "histogram": '[{"from_ns":1,"count":2}]', "others": ""}
    assert others == {"topic": "", "histogram": "", "others": "true"}
    with pytest.raises(UsageError, match="one section, not total, topics"):
        report_bytes(SECTIONS, "csv")


@pytest.mark.parametrize("character", DISPLAYED)
@pytest.mark.parametrize("output", ["json", "ndjson", "csv"])
def test_controls_are_escaped_without_loss(output: str, character: str) -> None:
    text = report_bytes({"topics": [{"topic": "t", "names": [f"ä{character}"]}]}, output).decode()
    assert character not in text
    if output == "csv":
        (record,) = csv.DictReader(io.StringIO(text, newline=""))
        assert json.loads(record["names"]) == [f"ä{character}"]
    else:
        made = json.loads(text)
        assert (made["topics"][0] if output == "json" else made)["names"] == [f"ä{character}"]


@pytest.mark.parametrize("text", ["=1+1", "\x1b[2J", "-x", "@SUM(A1)"])
def test_a_cell_neither_runs_nor_acts(text: str) -> None:
    cell = report_bytes({"topics": [{"topic": text}]}, "csv").decode().split("\r\n")[1]
    assert cell[0] in "'\\"
    assert "\x1b" not in cell


def test_times_in_samples_are_written_too() -> None:
    made = json.loads(report_bytes({"findings": [{"first": START, "samples": [{"time": START, "evidence": {"time": 5}}]}]}, "json"))
    assert made["findings"] == [{"first": TEXT, "samples": [{"time": TEXT, "evidence": {"time": 5}}]}]
