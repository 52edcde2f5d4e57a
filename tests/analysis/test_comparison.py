from __future__ import annotations

from typing import Any

from pulsarscope.analysis.comparison import ComparedRun, Comparison, change_percent
from pulsarscope.analysis.diagnosis import Diagnosis
from pulsarscope.analysis.statistics import Statistics
from tests.scenarios import rows


def examined(*some: Any) -> ComparedRun:
    side = ComparedRun(Statistics(), Diagnosis({}))
    for part in side:
        part.feed(some)
    return side


def family(request: str, count: int, latency: int, **values: Any) -> list[Any]:
    return [rows.exchange(request=request, latency_ns=latency, **values) for _ in range(count)]


def compared(before: list[Any], after: list[Any]) -> Comparison:
    return Comparison(examined(*before), examined(*after))


def test_a_run_compared_with_itself_has_not_changed() -> None:
    some = [*family("SEND", 200, 1000), rows.finding(), rows.send(), rows.connection()]
    same = compared(some, some)
    assert not any(same.verdict().values())
    assert same.names() == []
    assert all(record["before"] == record["after"] for record in same.totals())


def test_a_family_is_slower_or_faster_by_its_percentiles() -> None:
    before = [*family("SEND", 200, 1000), *family("LOOKUP", 200, 8000), *family("PING", 200, 50)]
    after = [*family("SEND", 200, 3000), *family("LOOKUP", 200, 2000), *family("PING", 200, 55)]
    comparison = compared(before, after)
    assert [record["request"] for record in comparison.verdict()["slower"]] == ["SEND"]
    assert [record["request"] for record in comparison.verdict()["faster"]] == ["LOOKUP"]
    (slower,) = comparison.verdict()["slower"]
    assert slower["p99_ns"] == {"before": 1000, "after": 3000, "change_percent": 200.0}


def test_too_few_exchanges_are_not_compared_and_the_tail_needs_more() -> None:
    assert compared(family("SEND", 19, 1000), family("SEND", 200, 9000)).verdict()["slower"] == []
    one_outlier = [*family("SEND", 49, 1000), *family("SEND", 1, 10**9)]
    assert compared(family("SEND", 50, 1000), one_outlier).verdict()["slower"] == []
    assert len(compared(family("SEND", 200, 1000), one_outlier * 4).verdict()["slower"]) == 1


def test_what_changed_most_comes_first() -> None:
    before = [*family("A", 50, 1000), *family("B", 50, 1000), *family("C", 50, 1000), *family("D", 1, 10)]
    after = [*family("A", 50, 1100), *family("B", 50, 5000), *family("C", 50, 500), *family("D", 1, 10**6), *family("E", 1, 5)]
    assert [record["request"] for record in compared(before, after).exchanges()] == ["E", "B", "C", "A", "D"]


def test_findings_are_compared_by_code_and_notes_make_nothing_worse() -> None:
    before = [rows.finding(code="a"), rows.finding(code="b", severity="warning"), rows.finding(code="c", severity="note")]
    after = [
        rows.finding(code="a"),
        rows.finding(code="a"),
        rows.finding(code="c", severity="note"),
        rows.finding(code="c", severity="note"),
    ]
    comparison = compared(before, after)
    counts = [(record["code"], record["before"], record["after"]) for record in comparison.findings()]
    assert counts == [("a", 1, 2), ("b", 1, 0), ("c", 1, 2)]
    assert [record["code"] for record in comparison.verdict()["worse"]] == ["a"]
    assert [record["code"] for record in comparison.verdict()["better"]] == ["b"]


def test_who_came_and_who_went_is_reported() -> None:
    comparison = compared([rows.send(topic="t1", producer_name="p1")], [rows.send(topic="t2", producer_name="p1")])
    result = [(record["change"], record["kind"], record["topic"], record["producer_name"]) for record in comparison.names()]
    assert result == [
        ("appeared", "topic", "t2", None),
        ("vanished", "topic", "t1", None),
        ("appeared", "producer", "t2", "p1"),
        ("vanished", "producer", "t1", "p1"),
    ]


def test_a_change_needs_something_to_compare_with() -> None:
    assert (change_percent(0, 5), change_percent(None, 5), change_percent(4, 5)) == (None, None, 25.0)
