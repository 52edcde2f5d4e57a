from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.protocols.kafka07.frame import decode, decode_partial
from tests.scenarios.kafka07 import (
    fetch,
    fetch_response,
    later_request,
    message_set,
    multifetch,
    multifetch_response,
    multiproduce,
    offsets,
    offsets_response,
    produce,
    sized,
)

SET = message_set(b"hello", b"world")


@pytest.mark.parametrize(
    ("data", "command", "payload_offset"),
    [
        (produce("t", 0, SET), "PRODUCE", 17),
        (multiproduce(("t", 0, SET)), "MULTIPRODUCE", None),
        (fetch("t", 0, 5), "FETCH", None),
        (multifetch(("t", 0, 5, 9)), "MULTIFETCH", None),
        (offsets("t", 0, -1, 1), "OFFSETS", None),
        (fetch_response(SET), "RESPONSE", None),
        (fetch_response(SET[:20]), "RESPONSE", None),
        (fetch_response(), "RESPONSE", None),
        (multifetch_response(fetch_response(SET)), "RESPONSE", None),
        (offsets_response([3, 0]), "RESPONSE", None),
    ],
)
def test_requests_show_their_kind_and_responses_that_they_are_one(data: bytes, command: str, payload_offset: int | None) -> None:
    actual = decode(b"ab" + data + b"c", 2, 2 + len(data))
    assert (actual[0], actual[5], actual[6], actual[7]) == (command, payload_offset, "ok", None)


@pytest.mark.parametrize("data", [later_request(1, 4, 7, "console"), sized(b"\0\x09"), sized(b"\0\1" + b"\xff" * 20), sized(b"")])
def test_what_is_neither_is_malformed(data: bytes) -> None:
    actual = decode(data, 0, len(data))
    assert (actual[0], actual[6]) == (None, "malformed")
    assert [code for code, _ in actual[7] or ()] == ["frame-malformed"]


def test_a_cut_request_is_known_by_its_topic() -> None:
    data = produce("orders", 2, SET)
    actual = decode_partial(data, 0, len(data) - 3)
    assert (actual[0], actual[5], actual[6]) == ("PRODUCE", 22, "truncated")
    assert (actual[1] or {})["partition"] == 2
    for end in range(6):
        assert decode_partial(data, 0, end)[0] == "RESPONSE"
    assert decode_partial(fetch_response(SET), 0, 20)[:2] == ("RESPONSE", {"error": "NoError"})


@given(st.binary(max_size=120))
def test_no_bytes_raise(data: bytes) -> None:
    assert decode(data, 0, len(data))[6] in ("ok", "malformed")
    assert decode_partial(data, 0, len(data))[6] == "truncated"
