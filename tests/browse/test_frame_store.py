"""Frames come back as they were added, however they were grouped."""

from __future__ import annotations

from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.browse.frame_store import FrameStore
from pulsarscope.model.limits import BROWSED_FRAMES_PER_CHUNK
from pulsarscope.model.records import FrameRow


def frame(number: int) -> FrameRow:
    return FrameRow(
        file=0, packet=number, sub=1, time=number, connection="0:1", direction="client", offset=0, size=9, command="PING", status="ok"
    )


@given(st.lists(st.integers(0, 700), max_size=6), st.integers(0, 4_000))
def test_any_frame_is_found_at_its_position(sizes: list[int], wanted: int) -> None:
    store = FrameStore(BytesIO())
    rows = [frame(number) for number in range(sum(sizes))]
    at = 0
    for size in sizes:
        store.add(rows[at : at + size])
        at += size
    assert len(store) == len(rows)
    assert [row for number in range(store.chunks) for row in store.chunk(number)] == rows
    if wanted < len(rows):
        assert store[wanted] == rows[wanted]
    else:
        with pytest.raises(IndexError):
            store[wanted]


def test_memory_holds_less_than_a_chunk_of_rows() -> None:
    store = FrameStore(BytesIO())
    for number in range(10 * BROWSED_FRAMES_PER_CHUNK + 3):
        store.add([frame(number)])
    assert len(store._tail) == 3
    assert not store._cache
