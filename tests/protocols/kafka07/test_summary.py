from __future__ import annotations

from typing import Any

import pytest

from pulsarscope.model.records import FrameRow, MessageRow
from pulsarscope.protocols.kafka07.summary import explain, message_summary, summary
from tests.protocols.kafka07.cases import look, talk
from tests.scenarios.kafka07 import (
    GZIP,
    compressed,
    fetch,
    fetch_response,
    message_set,
    multifetch,
    multifetch_response,
    offsets,
    offsets_response,
    produce,
)

SET = message_set(b"hello", b"world")


def test_a_line_says_what_it_is_about() -> None:
    conversation = talk().client(produce("orders", -1, SET), produce("orders", 3, compressed(GZIP, SET)))
    conversation.client(fetch("orders", 3, 7, len(SET) + 9)).server(fetch_response(SET + SET[:9])).client(fetch("orders", 9, 7))
    conversation.server(fetch_response(error=3)).client(offsets("t", 0, -2, 5), offsets("t", 0, 1_700_000_000_000, 5))
    conversation.server(offsets_response([]), offsets_response([9, 8, 7, 6, 5, 4]))
    parts = [(f"t{number}", 0, number, 10) for number in range(5)]
    conversation.client(multifetch(*parts)).server(multifetch_response(fetch_response(SET), *[fetch_response(error=1)] * 4))
    seen = look(conversation.close())
    packed = len(compressed(GZIP, SET))
    assert [summary(row) for row in seen.frames] == [
        "orders-any  2 messages  30 B",
        f"orders-3  2 messages  {packed} B",
        "orders-3 at 7  up to 39 B",
        "orders-3 at 7  9 B of a cut message  2 messages  39 B",
        "orders-9 at 7  up to 300,000 B",
        "WrongPartition  orders-9 at 7  0 messages",
        "t-0  earliest  up to 5",
        "t-0  1700000000000  up to 5",
        "t  no offsets",
        "t  offsets 9, 8, 7, 6, 5 and 1 more",
        "5 parts  t0-0 at 0  up to 10 B; t1-0 at 1  up to 10 B; t2-0 at 2  up to 10 B; 2 more",
        "5 parts  t0-0 at 0; OffsetOutOfRange  t1-0 at 1; OffsetOutOfRange  t2-0 at 2; 2 more  2 messages  30 B",
    ]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "topic ?"),
        ({"topic": "t", "partition": 1, "payload_size": 1_000, "extra": {"offset": 7}}, "t-1 at 7  1,000 B"),
        ({"topic": "t", "partition": 1, "batch_index": 0, "batch_size": 2, "compression": "GZIP"}, "t-1  1 of 2  GZIP"),
    ],
)
def test_a_message_is_described_by_its_place(values: dict[str, Any], words: str) -> None:
    assert message_summary(MessageRow(**values)) == words


def test_values_that_are_none_are_explained() -> None:
    assert explain("time", -1) == "-1  latest"
    assert explain("time", -2) == "-2  earliest"
    assert explain("partition", -1) == "-1  the broker picks one"
    assert explain("partition", 0) is explain("time", 5) is explain("offset", -1) is None
    assert summary(FrameRow(command="RESPONSE", fields={"error": "NoError"})) == ""
