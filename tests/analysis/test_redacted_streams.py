"""Redacted streams give the bytes that were added, and zeros elsewhere, in bounded memory."""

from __future__ import annotations

from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.analysis import redacted_streams
from pulsarscope.analysis.redacted_streams import RedactedStreams

FRAMES = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 5), st.binary(min_size=1, max_size=30)), max_size=30)


@pytest.fixture(autouse=True, scope="module")
def small_bounds() -> None:
    redacted_streams.REDACTED_BUFFERS_MAX_BYTES = 60  # type: ignore[attr-defined]
    redacted_streams.REDACTED_CHUNK_BYTES = 20  # type: ignore[attr-defined]
    redacted_streams.REDACTED_CHUNKS_CACHED = 2  # type: ignore[attr-defined]


@given(FRAMES, st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 200), st.integers(0, 80)), max_size=10))
def test_any_range_holds_the_frames_in_it(frames: list[tuple[str, int, bytes]], asked: list[tuple[str, int, int]]) -> None:
    streams = RedactedStreams(BytesIO())
    whole = {name: bytearray(2_000) for name in "abc"}
    ends = dict.fromkeys("ab", 0)
    for name, gap, data in frames:
        start = ends[name] + gap
        ends[name] = start + len(data)
        whole[name][start : ends[name]] = data
        streams.add(name, "sender", start, data)
    for name, start, size in asked:
        assert streams.read(name, "sender", start, start + size) == whole[name][start : start + size]
