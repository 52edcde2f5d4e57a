from __future__ import annotations

import pytest

from pulsarscope.analysis.tally import ExchangeCounts, Tally, add_counts, add_exchange, cut, per_second, shorten


def test_merging_adds_everything() -> None:
    item, other = Tally(), Tally()
    for tally in (item, other):
        tally.add_frames("client", 2, 3, 100)
        tally.add_frames("server", 1, 0, 40)
        tally.add_exchange("ok", 500)
        tally.add_exchange("unanswered", None)
        tally.add_exchange("unrequested", None)
    item.merge(other)
    assert (item.frames, item.messages, item.sizes) == ([4, 2], [6, 0], [200, 80])
    assert (item.exchanges, item.unanswered, item.unrequested, item.latencies.count) == (4, 2, 2, 2)


def test_a_rate_needs_time_to_pass() -> None:
    assert per_second(3, 2_000_000_000) == 1.5
    assert per_second(3, 0) is None


def test_texts_lists_and_objects_are_kept_short() -> None:
    assert cut("x" * 2000) == "x" * 1024
    assert cut(None) is None
    hostile = {"a" * 5000: ["b" * 5000] * 5000, "n": 1} | {str(number): number for number in range(5000)}
    short = shorten(hostile)
    assert len(short) == len(short["a" * 1024]) == 100
    assert max(map(len, short["a" * 1024])) == 1024


def test_frames_of_one_key_are_counted_together() -> None:
    groups: dict[str, list[int]] = {}
    first = [1, 2, 3]
    for place, (key, counts) in enumerate((("a", first), ("b", [4, 5, 6]), ("a", [10, 20, 30]))):
        add_counts(groups, key, place, counts)
    assert groups == {"a": [0, 11, 22, 33], "b": [1, 4, 5, 6]}
    assert first == [1, 2, 3]


@pytest.mark.parametrize("values", [[5], [None], [5, None, 6]])
@pytest.mark.parametrize("status", ["ok", "error", "unanswered", "unrequested"])
def test_exchanges_counted_together_add_what_each_adds(status: str, values: list[int | None]) -> None:
    together, apart = Tally(), Tally()
    groups: dict[str, ExchangeCounts] = {}
    for place, value in enumerate(values):
        add_exchange(groups, "", place, value)
    assert groups[""].place == 0
    together.add_exchanges(status, groups[""].count, groups[""].latencies)
    for latency in values:
        apart.add_exchange(status, latency)
    assert together.counts() == apart.counts()
    assert together.unrequested == apart.unrequested
    assert together.latencies.percentiles() == apart.latencies.percentiles()
    assert together.latencies.count == apart.latencies.count
