"""Every byte of the five requests. The hex is the specification; the encoder must write the same."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from pulsarscope.protocols.kafka07.cursor import ParseError
from pulsarscope.protocols.kafka07.requests import only_topic, parts_of, read_request
from tests.scenarios import kafka07
from tests.scenarios.kafka07 import message, message_set


class Case(NamedTuple):
    name: str
    hex: str
    """Bytes on the wire, in hex."""
    written: bytes
    """Bytes from the encoder."""
    command: str
    fields: dict[str, Any]
    sets: list[tuple[int, int]] = []  # noqa: RUF012 - never written to
    """Start and end of the message sets."""


CASES = [
    Case(
        "produce",
        "0000001e 0000 0001 74 00000003 00000011 0000000d 01 00 3610a686 68656c6c6f 2020",
        kafka07.produce("t", 3, kafka07.sized(b"\x01\x00\x36\x10\xa6\x86hello  ")),
        "PRODUCE",
        {"topic": "t", "partition": 3, "messages_size": 17},
        [(17, 34)],
    ),
    Case(
        "produce-to-any-partition",
        "0000000d 0000 0001 74 ffffffff 00000000",
        kafka07.produce("t", -1, b""),
        "PRODUCE",
        {"topic": "t", "partition": -1, "messages_size": 0},
        [(17, 17)],
    ),
    Case(
        "produce-to-no-topic",
        "0000000c 0000 ffff 00000000 00000000",
        kafka07.produce(None, 0, b""),
        "PRODUCE",
        {"topic": None, "partition": 0, "messages_size": 0},
        [(16, 16)],
    ),
    Case(
        "fetch",
        "0000001a 0001 0006 6f7264657273 00000002 0000000100000000 000493e0",
        kafka07.fetch("orders", 2, 1 << 32, 300_000),
        "FETCH",
        {"topic": "orders", "partition": 2, "offset": 1 << 32, "max_size": 300_000},
    ),
    Case(
        "multifetch",
        "0000002a 0002 0002 0001 61 00000000 0000000000000007 00000064 0001 62 00000001 0000000000000000 000000c8",
        kafka07.multifetch(("a", 0, 7, 100), ("b", 1, 0, 200)),
        "MULTIFETCH",
        {
            "fetches": [
                {"topic": "a", "partition": 0, "offset": 7, "max_size": 100},
                {"topic": "b", "partition": 1, "offset": 0, "max_size": 200},
            ]
        },
    ),
    Case("multifetch-of-nothing", "00000004 0002 0000", kafka07.multifetch(), "MULTIFETCH", {"fetches": []}),
    Case(
        "multiproduce",
        "00000027 0003 0002 0001 61 00000000 00000009 00000005 00 00000000 0001 62 00000001 00000004 deadbeef",
        kafka07.multiproduce(("a", 0, message(b"", magic=0)), ("b", 1, b"\xde\xad\xbe\xef")),
        "MULTIPRODUCE",
        {"produces": [{"topic": "a", "partition": 0, "messages_size": 9}, {"topic": "b", "partition": 1, "messages_size": 4}]},
        [(19, 28), (39, 43)],
    ),
    Case(
        "offsets-latest",
        "00000015 0004 0001 74 00000000 ffffffffffffffff 0000000a",
        kafka07.offsets("t", 0, -1, 10),
        "OFFSETS",
        {"topic": "t", "partition": 0, "time": -1, "max_offsets": 10},
    ),
    Case(
        "offsets-earliest",
        "00000015 0004 0001 74 00000000 fffffffffffffffe 00000001",
        kafka07.offsets("t", 0, -2, 1),
        "OFFSETS",
        {"topic": "t", "partition": 0, "time": -2, "max_offsets": 1},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_byte_of_a_request_is_read(case: Case) -> None:
    data = bytes.fromhex(case.hex)
    assert data == case.written
    actual = read_request(data, 0, len(data), [])
    assert actual is not None
    assert (actual.command, actual.fields, actual.end, actual.short) == (case.command, case.fields, len(data), False)
    assert [(item.start, item.end) for item in actual.sets] == case.sets
    moved = read_request(b"xyz" + data + b"more", 3, 3 + len(data), [])
    assert moved is not None
    assert (moved.fields, moved.end) == (case.fields, 3 + len(data))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_cut_request_is_read_as_far_as_it_goes(case: Case) -> None:
    data = bytes.fromhex(case.hex)
    assert read_request(data, 0, 5, []) is None
    for end in range(6, len(data)):
        actual = read_request(data, 0, end, [])
        assert actual is not None
        assert actual.short
        assert case.fields.keys() >= actual.fields.keys()


def test_a_set_knows_its_topic_and_partition() -> None:
    data = kafka07.multiproduce(("a", 0, message_set(b"x")), ("b", 5, message_set(b"y")))
    actual = read_request(data, 0, len(data), [])
    assert actual is not None
    assert [(item.topic, item.partition) for item in actual.sets] == [("a", 0), ("b", 5)]


@pytest.mark.parametrize(
    "data",
    [
        kafka07.request(3, b"\xff\xff"),
        kafka07.request(0, kafka07.place("t", 0) + b"\xff\xff\xff\xff"),
        kafka07.request(1, b"\x80\x00"),
    ],
    ids=["count", "messages", "topic"],
)
def test_negative_sizes_cannot_be(data: bytes) -> None:
    with pytest.raises(ParseError):
        read_request(data, 0, len(data), [])


@pytest.mark.parametrize("number", [-1, 5, 32_767])
def test_no_other_type_is_a_request(number: int) -> None:
    data = kafka07.request(number, bytes(20))
    assert read_request(data, 0, len(data), []) is None


def test_a_topic_that_is_not_utf8_is_escaped_and_said() -> None:
    notes: list[tuple[str, str]] = []
    data = kafka07.request(1, b"\x00\x01\xff" + bytes(16))
    actual = read_request(data, 0, len(data), notes)
    assert actual is not None
    assert actual.fields["topic"] == "\\xff"
    assert [code for code, _ in notes] == ["invalid-utf8"]


def test_parts_of_one_topic_have_a_topic() -> None:
    item, other = {"topic": "a", "partition": 0}, {"topic": "b"}
    assert parts_of("FETCH", item) == (item,)
    assert parts_of("MULTIFETCH", {"fetches": [item, other]}) == [item, other]
    assert parts_of("MULTIPRODUCE", {}) == ()
    assert only_topic([item, item]) == "a"
    assert only_topic([item, other]) is None
