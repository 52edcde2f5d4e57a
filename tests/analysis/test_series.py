from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.analysis import series
from pulsarscope.analysis.series import TimeSeries
from tests.scenarios import rows

TIMES = st.lists(st.integers(0, 10**13), min_size=1, max_size=60)


def test_an_interval_has_what_happened_in_it() -> None:
    made = TimeSeries(1000)
    for time in (5000, 5999, 6000, 9500):
        made.frame(rows.send(time=time, num_messages=2))
    made.frame(rows.receipt(time=6500))
    made.exchange(rows.exchange(time=5999, latency_ns=700, status="error"))
    first, second, third = made.records()
    assert [record["start"] for record in (first, second, third)] == [5000, 6000, 9000]
    assert (first["client_frames"], first["client_messages"], first["errors"], first["p99_ns"]) == (2, 4, 1, 700)
    assert (second["client_frames"], second["server_frames"], second["p99_ns"]) == (1, 1, None)


def test_a_row_before_the_first_has_an_interval_of_its_own() -> None:
    made = TimeSeries(1000)
    for time in (5000, 4999):
        made.frame(rows.send(time=time))
    assert [record["start"] for record in made.records()] == [4000, 5000]


@given(TIMES, st.integers(1, 10**9))
def test_neighbours_become_one_when_there_are_too_many_and_nothing_is_lost(times: list[int], interval: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(series, "STATISTICS_INTERVALS_MAX", 5)
        made = TimeSeries(interval)
        for time in times:
            made.frame(rows.send(time=time))
            made.exchange(rows.exchange(time=time, latency_ns=time))
    records = made.records()
    assert len(records) <= 5
    assert sum(record["client_frames"] for record in records) == sum(record["exchanges"] for record in records) == len(times)
    assert made.interval % interval == 0
    assert max(record["max_ns"] for record in records) == max(times)
    for record in records:
        inside = [time for time in times if record["start"] <= time < record["start"] + record["interval_ns"]]
        assert len(inside) == record["client_frames"]


@given(TIMES, st.integers(2, 20))
def test_intervals_are_widened_until_they_are_few_from_the_first_to_the_last(times: list[int], most: int) -> None:
    made = TimeSeries(1_000)
    for time in times:
        made.frame(rows.send(time=time))
    made.widen(most)
    starts = [record["start"] for record in made.records()]
    assert starts[-1] - starts[0] < most * made.interval
    assert sum(record["client_frames"] for record in made.records()) == len(times)
