from __future__ import annotations

import pytest

from pulsarscope.model.bins import FINEST, Bins


def counted(most: int, times: list[int], keys: str = "a") -> Bins[str, list[int]]:
    bins = Bins[str, list[int]](most, list, list.extend)
    for number, time in enumerate(times):
        bins.of(time, keys[number % len(keys)]).append(time)
    return bins


def test_few_cells_keep_the_finest_bins() -> None:
    bins = counted(10, [0, 5, FINEST, 7 * FINEST])
    assert bins.width == FINEST
    assert bins.cells() == [(0, "a", [0, 5]), (FINEST, "a", [FINEST]), (7 * FINEST, "a", [7 * FINEST])]


@pytest.mark.parametrize("most", [4, 17, 100])
@pytest.mark.parametrize("step", [1, FINEST, 10**9])
def test_there_are_never_more_cells_than_the_bound_and_nothing_is_lost(most: int, step: int) -> None:
    times = [number * step for number in range(1_000)]
    bins = counted(most, times, "abc")
    assert len(bins.cells()) <= most
    assert sorted(time for _, _, cell in bins.cells() for time in cell) == times
    assert all(start <= min(cell) and max(cell) < start + bins.width for start, _, cell in bins.cells())


def test_later_cells_are_joined_to_earlier_ones_whatever_their_order_of_arrival() -> None:
    bins = counted(2, [9 * FINEST, 0, FINEST])
    assert bins.cells()[0][2] == [0, FINEST]


def test_bins_can_be_widened_to_a_number() -> None:
    bins = counted(1_000, [number * FINEST for number in range(100)])
    bins.widen(10)
    assert len(bins.cells()) <= 10
    Bins[str, list[int]](5, list, list.extend).widen(1)
