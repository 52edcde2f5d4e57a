"""The frames that carried one message of a log."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import pulsarscope as ps
from pulsarscope.cli.arguments.application import app
from pulsarscope.engine.local import run
from pulsarscope.engine.options import Options
from pulsarscope.filter import FollowFilter
from pulsarscope.model.errors import UsageError
from pulsarscope.model.records import FrameRow, MessageRow
from pulsarscope.protocols import make_dissectors
from pulsarscope.protocols.kafka07.follow import FOLLOW_KINDS
from tests.places import CAPTURES

SYNC = CAPTURES / "kafka07-broker" / "sync.pcap.zst"


def rows_of(path: Path) -> list[Any]:
    """Return the frames of a capture, each before its messages."""
    options = Options(records=frozenset({FrameRow.kind, MessageRow.kind}), dissectors=make_dissectors)
    return [row for batch in run([str(path)], options) for row in batch.rows]


def offset_of(row: MessageRow) -> int:
    """Return the offset of a delivered message."""
    assert row.extra is not None
    return int(row.extra["offset"])


def followed(name: str, rows: Sequence[Any], size: int) -> list[FrameRow]:
    """Return the followed frames, in order, when rows come in batches of a size."""
    row_filter = FollowFilter("message", name, make_dissectors())
    assert row_filter.learn is not None
    batches = [rows[start : start + size] for start in range(0, len(rows), size)]
    for batch in batches:
        row_filter.learn(batch)
    passed = [row for batch in batches for row in row_filter.select(batch, {})]
    assert all(isinstance(row, FrameRow) for row in passed)
    return sorted(passed, key=lambda row: (row.packet, row.sub))


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_each_delivered_message_comes_with_what_asked_for_it_and_what_produced_it(size: int) -> None:
    """Compared with the digests that the clients report for the offsets that they read."""
    rows = rows_of(SYNC)
    truth = [json.loads(line) for line in (SYNC.parent / "sync.truth.jsonl").read_text().splitlines()]
    produced = {(one["topic"], one["partition"], one["sha256"]) for one in truth if one["kind"] == "produced"}
    frames = {(row.packet, row.sub): row for row in rows if isinstance(row, FrameRow)}
    contents: defaultdict[tuple[Any, Any, int], set[tuple[Any, ...]]] = defaultdict(set)
    carriers: defaultdict[tuple[Any, Any, int], set[Any]] = defaultdict(set)
    producers: defaultdict[tuple[Any, ...], set[Any]] = defaultdict(set)
    for row in rows:
        if isinstance(row, MessageRow):
            content = row.topic, row.partition, row.payload_sha256, row.compression, row.batch_index
            if row.direction == "produce":
                producers[content].add((row.packet, row.sub))
            else:
                contents[row.topic, row.partition, offset_of(row)].add(content)
                carriers[row.topic, row.partition, offset_of(row)].add((row.packet, row.sub))
    assert len(contents) > 30
    for topic, partition, offset in list(contents)[:: 1 if size == 100_000 else 9]:
        passed = followed(f"{topic}-{partition}@{offset}", rows, size)
        here = contents[topic, partition, offset]
        assert {content[:3] for content in here} <= produced
        responses = {(row.packet, row.sub) for row in passed if row.direction == "server"}
        assert responses == carriers[topic, partition, offset]
        requests = {row.request for row in passed if row.direction == "server"}
        assert {f"0:{row.packet}.{row.sub}" for row in passed if row.command in ("FETCH", "MULTIFETCH")} == requests
        sources = {(row.packet, row.sub) for row in passed if row.command in ("PRODUCE", "MULTIPRODUCE")}
        assert sources
        assert sources == {place for content in here for place in producers[content] if frames[place].time <= passed[-1].time}


def test_what_was_produced_alike_afterwards_or_elsewhere_is_not_it() -> None:
    def message(direction: str, time: int, partition: int = 0, source: str | None = None, **columns: Any) -> MessageRow:
        extra = {"magic": 1} | ({"offset": 0, "next_offset": 30} if direction == "deliver" else {})
        given: dict[str, Any] = {"payload_sha256": "aa", "payload_size": 3, "compression": "NONE"} | columns
        return MessageRow(direction=direction, topic="t", partition=partition, time=time, source=source, extra=extra, **given)

    made: Any = FOLLOW_KINDS["message"]("t-0@0")
    made.learn(message("deliver", 20))
    made.learn(message("deliver", 30))
    assert made.carries(message("produce", 10))
    assert made.carries(message("produce", 40, source="another clock"))
    assert made.carries(message("deliver", 30))
    assert not made.carries(message("produce", 21))
    assert not made.carries(message("produce", 10, partition=1))
    assert not made.carries(message("produce", 10, payload_sha256="ab"))
    assert not made.carries(message("produce", 10, payload_size=4))
    assert not made.carries(message("produce", 10, compression="GZIP"))
    assert not made.carries(message("produce", 10, batch_index=0, batch_size=2))


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("orders-0@1", ": the nearest offsets delivered are 0 and 33"),
        ("orders-0@99999999", ": the nearest offset delivered is "),
        ("order-0@0", ": messages were delivered of clicks-0, clicks-1, orders-0, orders-1, orders-2"),
    ],
)
def test_of_a_message_that_is_not_there_it_says_what_is(name: str, sentence: str) -> None:
    result = CliRunner().invoke(app, ["follow", str(SYNC), "--message", name])
    assert result.exit_code == 0
    assert f"there is no message {name}{sentence}" in result.stderr


def test_without_a_delivery_it_says_so() -> None:
    result = CliRunner().invoke(app, ["follow", str(CAPTURES / "quickstart.pcapng"), "--message", "orders-0@0"])
    assert "there is no message orders-0@0: no message of Kafka 0.7 was delivered" in result.stderr


@pytest.mark.parametrize("name", ["orders-0", "orders@5", "orders-x@5", "orders-0@-1", "@", "orders-0@1x"])
def test_another_form_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=r"is not a place in a log: give TOPIC-PARTITION@OFFSET"):
        FOLLOW_KINDS["message"](name)


def test_a_pipe_is_read_twice_and_a_filter_joins_in() -> None:
    raw = (CAPTURES / "kafka07-brod.pcap").read_bytes()
    offset = next(offset_of(row) for row in ps.open(str(CAPTURES / "kafka07-brod.pcap")).messages() if row.direction == "deliver")
    arguments = ["follow", "-", "--message", f"orders-0@{offset}", "--format", "ndjson", "-Y", "command != FETCH"]
    result = CliRunner().invoke(app, arguments, input=raw)
    assert result.exit_code == 0, result.stderr
    commands = [json.loads(line)["command"] for line in result.stdout.splitlines()]
    assert commands
    assert set(commands) <= {"PRODUCE", "FETCH_RESPONSE"}
    assert {"PRODUCE", "FETCH_RESPONSE"} <= set(commands)
