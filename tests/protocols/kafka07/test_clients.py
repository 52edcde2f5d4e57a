"""Third-party clients of Kafka 0.7, compared with their own reports of what they sent and received."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import pulsarscope as ps
from pulsarscope.cli.arguments.application import app
from pulsarscope.model.records import ExchangeRow, FrameRow, MessageRow
from tests.places import CAPTURES

NAMES = sorted(path.name for path in CAPTURES.glob("kafka07-*.pcap"))
ERRORS = {"WrongPartitionCode": "WrongPartition", "OffsetOutOfRangeError": "OffsetOutOfRange"}
"""Names of errors in the protocol, by their names in the clients."""


def truth_of(name: str) -> Any:
    return json.loads((CAPTURES / name).with_suffix(".truth.json").read_text())


def of_report(message: dict[str, Any], *columns: str) -> tuple[Any, ...]:
    return tuple(message[column] for column in ("topic", "partition", "size", "sha256", *columns))


def of_row(row: MessageRow) -> tuple[Any, ...]:
    return row.topic, row.partition, row.payload_size, row.payload_sha256


def offset_of(row: MessageRow) -> Any:
    return (row.extra or {})["offset"]


def test_there_are_recordings_of_four_clients() -> None:
    assert len(NAMES) == 4
    assert len({truth_of(name)["client"] for name in NAMES}) == 4


@pytest.mark.parametrize("name", NAMES)
def test_every_message_that_the_client_sent_or_got_is_found_and_no_other(name: str) -> None:
    truth, rows = truth_of(name), list(ps.open(str(CAPTURES / name)).messages())
    assert {row.status for row in rows} == {"ok"}
    produced = [row for row in rows if row.direction == "produce"]
    delivered = [row for row in rows if row.direction == "deliver"]
    assert Counter(map(of_row, produced)) == Counter(map(of_report, truth["produced"]))
    assert Counter(map(of_row, delivered)) == Counter(map(of_report, truth["consumed"]))
    if truth["client"] != "franz-kafka 0.7.5":  # it does not report it
        assert Counter((*of_row(row), offset_of(row)) for row in delivered) == Counter(
            of_report(item, "offset") for item in truth["consumed"]
        )


@pytest.mark.parametrize("name", [name for name in NAMES if truth_of(name)["events"]])
def test_every_request_is_what_the_client_asked_for_and_its_answer_what_the_client_got(name: str) -> None:
    rows = list(ps.open(str(CAPTURES / name)).records("frame", "exchange"))
    answers = {row.request: row for row in rows if isinstance(row, FrameRow) and row.request is not None}
    errors = {f"{row.file}:{row.packet}.{row.sub}": row.error for row in rows if isinstance(row, ExchangeRow)}
    requests = [row for row in rows if isinstance(row, FrameRow) and row.direction == "client"]
    events = truth_of(name)["events"]
    assert [row.command for row in requests] == [event["request"] for event in events]
    for row, event in zip(requests, events, strict=True):
        place = f"{row.file}:{row.packet}.{row.sub}"
        answer = answers.get(place)
        if row.command in ("PRODUCE", "MULTIPRODUCE"):
            assert (answer, row.num_messages) == (None, event["messages"])
            continue
        assert answer is not None
        for asked in {"topic", "partition", "offset", "max_size", "time"} & event.keys():
            assert (row.fields or {})[asked] == event[asked]
        assert errors[place] == (ERRORS.get(event["error"], event["error"]) if "error" in event else None)
        if "offsets" in event:
            assert (answer.fields or {})["offsets"] == event["offsets"]
        if "messages" in event:
            assert answer.num_messages == event["messages"]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_one_that_ends_early_is_written_and_checked_as_far_as_it_goes(name: str, tmp_path: Path) -> None:
    data, path = (CAPTURES / name).read_bytes(), tmp_path / name
    end, frames = 24, []
    while end < len(data):
        end += 16 + int.from_bytes(data[end + 8 : end + 12], "little")
        path.write_bytes(data[:end])
        result = CliRunner().invoke(app, ["decode", str(path), "--format", "ndjson", "--records", "all"])
        assert result.exit_code == 0, result.exception
        frames.append(result.stdout.count('"record":"frame"'))
    assert frames == sorted(frames)
    assert frames[-1] > len(frames) // 4
