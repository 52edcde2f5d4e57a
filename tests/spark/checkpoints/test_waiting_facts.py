"""Waiting facts of a stream: which slices of them a batch has evaluated, and in which files they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from pulsarscope.spark.checkpoints.waiting_facts import ANCHORS, BATCHES_MAX, SLICES, WaitingFacts

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND
DAY = 24 * 3_600 * SECOND


def batches(count: int, step: int, *, has_facts: Callable[[int], bool] = lambda _: True) -> Iterator[tuple[WaitingFacts, list[int]]]:
    """Yield the files after each batch of a stream, with the slices that were evaluated."""
    facts = WaitingFacts(2)
    for number in range(1, count + 1):
        newest = START + number * step
        facts = facts.with_batch(number, newest, has_facts=has_facts(number))
        if due := facts.due(newest):
            facts = facts.evaluated(due, number, 2, newest)
        yield facts, due


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [1, 5, 20, 60, 600, 3_000, 7_200])
def test_each_slice_is_evaluated_once_an_hour_however_often_batches_come(seconds: int) -> None:
    hours = 2 if seconds < 20 else 8
    made = [*batches(hours * 3_600 // seconds, seconds * SECOND)]
    counts = [len(due) for _, due in made]
    assert max(counts) <= min(SLICES, seconds * SLICES // 3_600 + 1)
    times = [sum(number in due for _, due in made) for number in range(SLICES)]
    assert max(times) - min(times) <= 1
    if 20 <= seconds <= 3_600:
        assert hours - 2 <= min(times) <= max(times) <= hours
    else:
        assert min(times) > 0


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [1, 5, 60, 600])
def test_the_files_of_a_stream_do_not_grow_in_number(seconds: int) -> None:
    made = [len(facts.names()) for facts, _ in batches(1_500, seconds * SECOND)]
    assert max(made) <= 2 * (BATCHES_MAX + SLICES) + 2 * SLICES + 1
    assert max(made[1_000:]) <= max(made[:1_000])


def test_all_slices_are_evaluated_behind_a_clock_that_was_wrong() -> None:
    facts = WaitingFacts(1).with_batch(1, START, has_facts=True)
    assert facts.due(START) == facts.due(START - SECOND) == []
    for newest in (START + 365 * DAY, START - 365 * DAY, None):
        assert facts.due(newest) == [*range(SLICES)]
    ahead = facts.evaluated(range(SLICES), 2, 1, START + 365 * DAY).with_batch(3, START, has_facts=True)
    behind = ahead.evaluated(ahead.due(START), 3, 1, START)
    assert (ahead.time, behind.time, behind.batches) == (START + 365 * DAY, START, [])


def test_nothing_is_evaluated_where_nothing_waits() -> None:
    assert not any(due for _, due in batches(100, 600 * SECOND, has_facts=lambda _: False))
    assert WaitingFacts(2).due(None) == []


def test_a_slice_comes_from_what_its_last_evaluation_left_and_the_batches_since() -> None:
    facts = WaitingFacts(2, [3, 4]).evaluated([7, 8], 5, 2, START).with_batch(6, START, has_facts=True)
    assert facts.of_slice(7) == ["000000005-left-000", "000000006-000", "000000006-001"]
    assert facts.of_slice(8) == ["000000005-left-001", "000000006-000", "000000006-001"]
    assert facts.of_slice(9) == [f"00000000{batch}-00{share}" for batch in (3, 4, 6) for share in range(2)]
    assert facts.of_slice(ANCHORS) == ["000000005-left-002", "000000006-000", "000000006-001"]
