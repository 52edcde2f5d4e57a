"""Statistics of the last seconds: what is older is forgotten, and rates are those of the window."""

from __future__ import annotations

import pytest

from pulsarscope.analysis.recent_statistics import PARTS, WINDOW_NANOSECONDS, RecentStatistics
from pulsarscope.model.records import ExchangeRow, FrameRow

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND


def send(time: int) -> list[FrameRow | ExchangeRow]:
    frame = FrameRow(time=time, connection="0:1", direction="client", command="SEND", topic="t", num_messages=2, size=100, status="ok")
    exchange = ExchangeRow(time=time, connection="0:1", request="SEND", topic="t", latency_ns=5, status="ok")
    return [frame, exchange]


def test_rates_are_those_of_the_window() -> None:
    recent = RecentStatistics()
    for second in range(60):
        recent.feed(send(START), START + second * SECOND)
    now = START + 59 * SECOND
    statistics = recent.statistics(now)
    (topic,) = statistics.sections(["topics"])["topics"]
    assert statistics.span == WINDOW_NANOSECONDS
    assert topic["client_messages"] == 20
    assert topic["messages_per_second"] == 2.0
    assert topic["p50_ns"] == 5
    assert len(recent._parts) <= PARTS + 1


def test_what_is_older_than_the_window_is_forgotten() -> None:
    recent = RecentStatistics()
    recent.feed(send(START), START)
    assert recent.statistics(START + 2 * SECOND).total.messages == [2, 0]
    assert recent.statistics(START + 2 * SECOND).span == 2 * SECOND
    later = recent.statistics(START + 11 * SECOND)
    assert later.total.messages == [0, 0]
    assert later.sections(["topics"]) == {"topics": []}


def test_an_answer_counts_as_of_a_message_though_the_message_is_older() -> None:
    recent = RecentStatistics()
    frame, exchange = send(START)
    recent.feed([frame], START)
    recent.feed([exchange], START + WINDOW_NANOSECONDS // 2)
    assert recent.statistics(START + WINDOW_NANOSECONDS // 2).total.latencies.count == 1


def test_nothing_gives_nothing() -> None:
    assert RecentStatistics().statistics(START).total.messages == [0, 0]


@pytest.mark.parametrize("jump", [-86_400, -60, -2, 60, 86_400])
def test_a_clock_that_jumps_gives_no_odd_rates(jump: int) -> None:
    recent = RecentStatistics()
    for second in range(30):
        recent.feed(send(START), START + second * SECOND)
    for second in range(30, 60):
        now = START + (second + jump) * SECOND
        recent.feed(send(START), now)
        statistics = recent.statistics(now)
        assert 0 <= statistics.span <= WINDOW_NANOSECONDS
        assert 0 < statistics.total.messages[0] <= 22
        if second >= 45:
            assert statistics.sections(["topics"])["topics"][0]["messages_per_second"] == 2.0
