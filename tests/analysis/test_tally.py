from __future__ import annotations

from pulsarscope.analysis.tally import Tally, cut, per_second, shorten
from tests.scenarios import rows


def test_merging_adds_everything() -> None:
    item, other = Tally(), Tally()
    for tally in (item, other):
        tally.add_frames("client", 2, 3, 100)
        tally.add_frames("server", 1, 0, 40)
        tally.add_exchange(rows.exchange(latency_ns=500))
        tally.add_exchange(rows.exchange(status="unanswered", latency_ns=None))
        tally.add_exchange(rows.exchange(status="unrequested", latency_ns=None))
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
