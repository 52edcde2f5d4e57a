from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.protocols.kafka07 import ranges as module
from pulsarscope.protocols.kafka07.ranges import ranges
from tests.scenarios.kafka07 import (
    fetch,
    fetch_response,
    message,
    message_set,
    multifetch,
    multifetch_response,
    multiproduce,
    offsets,
    offsets_response,
    produce,
)

SET = message_set(b"hello")
MESSAGE = ["message", "message length", "magic", "attributes", "CRC32", "payload"]


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (fetch("t", 0, 5), ["length", "type", "topic length", "topic", "partition", "offset", "max size"]),
        (offsets("t", 0, -1, 1), ["length", "type", "topic length", "topic", "partition", "time", "max offsets"]),
        (
            produce("t", 0, SET),
            ["length", "type", "topic length", "topic", "partition", "messages length", "message set", *MESSAGE],
        ),
        (
            multiproduce(("t", 0, message(b"x", magic=0))),
            ["length", "type", "count", "topic length", "topic", "partition", "messages length", "message set", *MESSAGE[:3], *MESSAGE[4:]],
        ),
        (multifetch(("t", 0, 5, 9)), ["length", "type", "count", "topic length", "topic", "partition", "offset", "max size"]),
        (fetch_response(SET + SET[:9]), ["length", "error", "message set", *MESSAGE, "cut message"]),
        (multifetch_response(fetch_response(SET)), ["length", "error", "part length", "error", "message set", *MESSAGE]),
        (offsets_response([5, 0]), ["length", "error", "count", "offset", "offset"]),
        (fetch_response(), ["length", "error"]),
    ],
)
def test_every_byte_has_a_name(data: bytes, names: list[str]) -> None:
    actual = ranges(data)
    assert [name for _, _, name, _ in actual] == names
    leaves = [(start, end) for start, end, name, _ in actual if name not in ("message set", "message")]
    assert [start for start, _ in leaves] == [0, *[end for _, end in leaves[:-1]]]
    assert leaves[-1][1] == len(data)


def test_a_frame_of_very_many_messages_is_named_only_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RANGES_MAX", 20)
    assert len(ranges(produce("t", 0, SET * 100))) < 30


@given(st.binary(max_size=120))
def test_no_bytes_raise(data: bytes) -> None:
    assert all(0 <= start < end <= len(data) for start, end, _, _ in ranges(data))
