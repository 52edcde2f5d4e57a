from __future__ import annotations

from itertools import pairwise
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.model.latency import Latencies, Octave

VALUES = st.lists(st.one_of(st.integers(0, 300), st.integers(0, 10**12), st.integers(0, 2**64)), min_size=1, max_size=200)


def exact(values: list[int], percent: float) -> int:
    return sorted(values)[max(ceil(len(values) * percent / 100), 1) - 1]


@given(VALUES, st.sampled_from([0, 1, 50, 90, 99, 99.9, 100]))
def test_a_percentile_is_within_one_percent_of_the_exact_one(values: list[int], percent: float) -> None:
    actual = Latencies(values).percentile(percent)
    assert actual is not None
    expected = exact(values, percent)
    assert abs(actual - expected) <= expected / 100
    assert min(values) <= actual <= max(values)


@given(VALUES, VALUES)
def test_merging_is_counting_together(some: list[int], more: list[int]) -> None:
    together = Latencies(some + more)
    merged = Latencies(some)
    merged.merge(Latencies(more))
    for percent in (50, 90, 99, 100):
        assert merged.percentile(percent) == together.percentile(percent)
    assert (merged.count, merged.smallest, merged.largest) == (together.count, together.smallest, together.largest)
    assert merged.octaves() == together.octaves()


@given(VALUES)
def test_octaves_hold_every_value_once(values: list[int]) -> None:
    octaves = Latencies(values).octaves()
    assert sum(octave.count for octave in octaves) == len(values)
    for octave in octaves:
        assert octave.count == sum(octave.from_ns <= value < octave.to_ns for value in values)
    assert all(before.to_ns == after.from_ns for before, after in pairwise(octaves))


def test_values_below_128_and_the_largest_are_exact() -> None:
    latencies = Latencies(range(100))
    assert [latencies.percentile(percent) for percent in (1, 50, 90, 99, 100)] == [0, 49, 89, 98, 99]
    assert Latencies([1_234_567]).percentile(99) == 1_234_567
    assert Latencies([1000, 1_234_567]).percentile(99) == 1_234_567


def test_nothing_has_no_percentile() -> None:
    empty = Latencies()
    empty.merge(Latencies())
    assert (empty.count, empty.percentile(50), empty.octaves()) == (0, None, [])


@pytest.mark.parametrize(("value", "octave"), [(0, Octave(0, 1, 1)), (1, Octave(1, 2, 1)), (1000, Octave(512, 1024, 1))])
def test_an_octave_runs_from_a_power_of_two_to_the_next(value: int, octave: Octave) -> None:
    assert Latencies([value]).octaves() == [octave]


def test_memory_does_not_grow_with_the_values() -> None:
    latencies = Latencies(range(0, 10**6, 7))
    latencies.merge(Latencies(2**64 - shift for shift in range(1000)))
    assert len(latencies._buckets) < 1_100
