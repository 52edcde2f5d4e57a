"""Every byte of the three responses, and responses to unknown requests."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from pulsarscope.protocols.kafka07.cursor import ParseError
from pulsarscope.protocols.kafka07.responses import errors_of, fits, read_response, shape
from tests.scenarios import kafka07
from tests.scenarios.kafka07 import fetch_response, message_set, multifetch_response, offsets_response

ASKED = [{"topic": "a", "partition": 0, "offset": 7, "max_size": 100}, {"topic": "b", "partition": 1, "offset": 0, "max_size": 9}]
SET = "0000000b 01 00 3610a686 68656c6c6f"


class Case(NamedTuple):
    name: str
    hex: str
    written: bytes
    command: str
    fields: dict[str, Any]
    sets: list[tuple[int, int]] = []  # noqa: RUF012 - never written to


CASES = [
    Case(
        "fetch",
        "00000011 0000" + SET,
        fetch_response(message_set(b"hello")),
        "FETCH_RESPONSE",
        {"error": "NoError", "messages_size": 15},
        [(6, 21)],
    ),
    Case("fetch-empty", "00000002 0000", fetch_response(), "FETCH_RESPONSE", {"error": "NoError", "messages_size": 0}, [(6, 6)]),
    *(
        Case(
            f"fetch-{name}",
            f"00000002 {code & 0xFFFF:04x}",
            fetch_response(error=code),
            "FETCH_RESPONSE",
            {"error": name, "messages_size": 0},
            [(6, 6)],
        )
        for code, name in [(-1, "Unknown"), (1, "OffsetOutOfRange"), (2, "InvalidMessage"), (3, "WrongPartition"), (4, "InvalidFetchSize")]
    ),
    Case(
        "multifetch",
        "0000001d 0000 00000011 0000" + SET + "00000002 0001",
        multifetch_response(fetch_response(message_set(b"hello")), fetch_response(error=1)),
        "MULTIFETCH_RESPONSE",
        {"error": "NoError", "parts": [{"error": "NoError", "messages_size": 15}, {"error": "OffsetOutOfRange", "messages_size": 0}]},
        [(12, 27), (33, 33)],
    ),
    Case(
        "offsets",
        "00000016 0000 00000002 0000000000003039 0000000000000000",
        offsets_response([12345, 0]),
        "OFFSETS_RESPONSE",
        {"error": "NoError", "offsets": [12345, 0]},
    ),
    Case("offsets-none", "00000006 0000 00000000", offsets_response([]), "OFFSETS_RESPONSE", {"error": "NoError", "offsets": []}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_byte_of_a_response_is_read(case: Case) -> None:
    data = bytes.fromhex(case.hex)
    assert data == case.written
    notes: list[tuple[str, str]] = []
    actual = read_response(case.command, data, 0, len(data), (), notes)
    assert (actual.command, actual.fields, actual.short, notes) == (case.command, case.fields, False, [])
    assert [(item.start, item.end) for item in actual.sets] == case.sets
    assert fits(case.command, data, 0, len(data))


def test_what_was_asked_says_where_the_messages_stand() -> None:
    data = CASES[7].written
    actual = read_response("MULTIFETCH_RESPONSE", data, 0, len(data), ASKED, [])
    assert [(item.topic, item.partition, item.offset, item.max_size) for item in actual.sets] == [("a", 0, 7, 100), ("b", 1, 0, 9)]


def test_another_number_of_parts_than_asked_is_said() -> None:
    notes: list[tuple[str, str]] = []
    data = multifetch_response(fetch_response())
    read_response("MULTIFETCH_RESPONSE", data, 0, len(data), ASKED, notes)
    assert notes == [("response-mismatch", "1 parts answer a request of 2")]


@pytest.mark.parametrize(
    ("command", "data"),
    [("MULTIFETCH_RESPONSE", kafka07.sized(bytes(6))), ("OFFSETS_RESPONSE", kafka07.sized(b"\0\0\xff\xff\xff\xff"))],
)
def test_sizes_that_cannot_be_are_refused(command: str, data: bytes) -> None:
    with pytest.raises(ParseError):
        read_response(command, data, 0, len(data), (), [])
    assert not fits(command, data, 0, len(data))


def test_an_error_without_a_name_and_bytes_too_many_are_said() -> None:
    notes: list[tuple[str, str]] = []
    data = kafka07.sized(b"\0\x09\0\0\0\0more")
    read_response("OFFSETS_RESPONSE", data, 0, len(data), (), notes)
    assert [code for code, _ in notes] == ["unknown-enum", "trailing-bytes"]


@pytest.mark.parametrize(
    ("data", "known"),
    [
        (fetch_response(message_set(b"hello")), "FETCH_RESPONSE"),
        (fetch_response(message_set(b"hello")[:9]), "FETCH_RESPONSE"),
        (fetch_response(error=1), "FETCH_RESPONSE"),
        (multifetch_response(fetch_response(message_set(b"hello"))), "MULTIFETCH_RESPONSE"),
        (offsets_response([12345, 0]), "OFFSETS_RESPONSE"),
        (fetch_response(), "RESPONSE"),
        (offsets_response([]), "RESPONSE"),
        (offsets_response([0, 12345]), None),
        (kafka07.sized(b"\0\x09"), None),
        (kafka07.sized(b"\0\0" + b"\xff" * 9), None),
    ],
)
def test_without_its_request_a_response_is_only_what_it_must_be(data: bytes, known: str | None) -> None:
    assert shape(data, 0, len(data)) == known


def test_errors_are_those_of_all_parts() -> None:
    assert errors_of({"error": "NoError"}) == []
    assert errors_of({"error": "WrongPartition"}) == ["WrongPartition"]
    assert errors_of({"error": "NoError", "parts": [{"error": "NoError"}, {"error": "Unknown"}, {}]}) == ["Unknown"]
