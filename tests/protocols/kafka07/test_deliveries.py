"""Messages as rows: what was produced and delivered, and its place in the log, in every form."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from pulsarscope.dissect.contract.events import SingleMessage
from pulsarscope.engine.message_rows import MessageRows
from pulsarscope.model.records import FrameRow, MessageRow
from pulsarscope.model.row_lists import RowList
from pulsarscope.protocols.kafka07.deliveries import Deliveries
from pulsarscope.protocols.kafka07.requests import MessageSet
from tests.protocols.kafka07.cases import look, talk
from tests.scenarios.kafka07 import GZIP, SNAPPY, compressed, fetch, fetch_response, message, message_set, multiproduce, produce

SET = message_set(b"hello", b"world")


def give(messages: bytes, *, later: bool = False, columns: tuple[str, ...] | None = None) -> tuple[list[Any], RowList]:
    """The rows of a set, and their places."""
    deliveries = Deliveries(wanted=True)
    frame = FrameRow(None, 0, 4, 1, 10, "0:1", "kafka07", "server", 0, len(messages))
    deliveries.take(frame, messages, "deliver", [MessageSet(0, len(messages), "t", 1, 100)], [])
    events: list[Any] = []
    deliveries.report(events)
    out, rows = RowList(later=later), MessageRows(columns, None)
    for event in events:
        (rows.add if isinstance(event, SingleMessage) else rows.add_several)(event, out)
    return [row for part in out.take(1000) for row in part] if later else out, out


def test_each_message_is_a_row() -> None:
    seen = look(talk().client(produce("orders", 2, SET)).close())
    assert [(row.direction, row.topic, row.partition, row.payload_size, row.status) for row in seen.messages] == [
        ("produce", "orders", 2, 5, "ok"),
        ("produce", "orders", 2, 5, "ok"),
    ]
    assert seen.messages[0].payload_sha256 == sha256(b"hello").hexdigest()
    assert {(row.batch_index, row.compression, str(row.extra)) for row in seen.messages} == {(None, "NONE", "{'magic': 1}")}


def test_delivered_ones_have_their_offset_in_the_log() -> None:
    answer = fetch_response(SET + compressed(GZIP, SET) + message(b"x", magic=0))
    seen = look(talk().client(fetch("t", 0, 1000)).server(answer).close())
    packed = len(compressed(GZIP, SET))
    assert [(row.extra or {})["offset"] for row in seen.messages] == [1000, 1015, 1030, 1030, 1030 + packed]
    assert [(row.extra or {})["next_offset"] for row in seen.messages] == [1015, 1030, 1030, 1030 + packed, 1040 + packed]
    assert [(row.batch_index, row.batch_size, row.compression) for row in seen.messages][1:4] == [
        (None, None, "NONE"),
        (0, 2, "GZIP"),
        (1, 2, "GZIP"),
    ]


def test_parts_have_their_own_topics() -> None:
    seen = look(talk().client(multiproduce(("a", 0, SET), ("b", 5, SET))).close())
    assert [(row.topic, row.partition) for row in seen.messages] == [("a", 0), ("a", 0), ("b", 5), ("b", 5)]


@pytest.mark.parametrize(("form", "text"), [("text", "h\\xff"), ("hex", "68ff"), ("base64", "aP8=")])
def test_payloads_come_in_the_form_asked_for(form: str, text: str) -> None:
    (row,) = look(talk().client(produce("t", 0, message(b"h\xff"))).close(), payload=form).messages
    assert row.payload == text


def test_what_cannot_be_opened_is_a_row_and_a_finding() -> None:
    seen = look(talk().client(produce("t", 0, message(b"junk", attributes=SNAPPY))).close())
    assert [(row.status, row.compression, row.payload_size) for row in seen.messages] == [("undecodable", "SNAPPY", None)]
    assert seen.codes == {"decompress-failed"}
    assert seen.frames[0].findings is None  # it concerns the payload


def test_only_the_columns_asked_for_are_made() -> None:
    rows, _ = give(SET, columns=("topic", "payload_size"))
    assert [(row.kind, row.topic, row.payload_size) for row in rows] == [("message", "t", 5)] * 2
    assert not isinstance(rows[0], MessageRow)


@pytest.mark.parametrize("later", [False, True])
def test_very_many_messages_are_made_when_they_are_taken(later: bool) -> None:
    rows, out = give(message(b"", magic=0) * 5_000, later=later)
    assert len(rows) == 5_000
    assert rows[-1].extra == {"magic": 0, "offset": 100 + 4_999 * 9, "next_offset": 100 + 5_000 * 9}
    assert not out or not later
