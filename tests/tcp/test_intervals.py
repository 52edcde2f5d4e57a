from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.tcp.intervals import Intervals

ranges = st.tuples(st.integers(-5, 60), st.integers(1, 12)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@given(st.lists(ranges, max_size=30), ranges)
def test_ranges_are_a_set_of_bytes(added: list[tuple[int, int]], asked: tuple[int, int]) -> None:
    intervals = Intervals()
    known: set[int] = set()
    for start, end in added:
        assert intervals.add(start, end) == len({*range(start, end)} - known)
        known |= {*range(start, end)}
    assert {byte for start, end in intervals.common(*asked) for byte in range(start, end)} == known & {*range(*asked)}


def test_of_too_many_ranges_the_lowest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsarscope.tcp.intervals.INTERVALS_MAX", 2)
    intervals = Intervals()
    for start in (0, 10, 20):
        intervals.add(start, start + 1)
    assert [*intervals.common(0, 100)] == [(10, 11), (20, 21)]
