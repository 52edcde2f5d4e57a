from __future__ import annotations

import io
from typing import Any

import pytest

from pulsarscope.engine.parallel.channel import packed, received, send
from pulsarscope.model.records import FrameRow, RawFrame


@pytest.mark.parametrize("message", [None, b"", b"x" * 100_000, {"a": [1, -(1 << 63)]}, FrameRow(file=1, fields={"a": b"\x00"})])
def test_what_is_sent_is_received(message: Any) -> None:
    pipe = io.BytesIO()
    send(pipe, packed(message))
    send(pipe, packed("next"))
    pipe.seek(0)
    assert [*received(pipe)] == [message, "next"]


def test_rows_of_a_hex_view_travel() -> None:
    pipe = io.BytesIO()
    send(pipe, packed([RawFrame(b"\x00", [(0, 1, "totalSize", 0)])]))
    pipe.seek(0)
    assert [*received(pipe)] == [[RawFrame(b"\x00", [(0, 1, "totalSize", 0)])]]


def test_half_a_message_is_not_given() -> None:
    pipe = io.BytesIO()
    send(pipe, packed("whole"))
    for size in range(len(pipe.getvalue())):
        assert [*received(io.BytesIO(pipe.getvalue()[:size]))] == []
