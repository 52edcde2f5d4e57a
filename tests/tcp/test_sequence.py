from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.tcp.sequence import SEQUENCE_MASK, sequence_difference


@pytest.mark.parametrize(
    ("start", "end", "distance"),
    [
        (0, 0, 0),
        (0, 1, 1),
        (1, 0, -1),
        (0xFFFF_FFFF, 0, 1),
        (0, 0xFFFF_FFFF, -1),
        (0xFFFF_FFF0, 0x10, 0x20),
        (0, 0x7FFF_FFFF, 0x7FFF_FFFF),
        (0, 0x8000_0000, -0x8000_0000),
        (0x8000_0000, 0, -0x8000_0000),
    ],
)
def test_distance_is_signed_and_wraps(start: int, end: int, distance: int) -> None:
    assert sequence_difference(start, end) == distance


@given(st.integers(0, SEQUENCE_MASK), st.integers(-(1 << 31), (1 << 31) - 1))
def test_distance_undoes_addition(start: int, distance: int) -> None:
    assert sequence_difference(start, (start + distance) & SEQUENCE_MASK) == distance
