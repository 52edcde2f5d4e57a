"""The tables of the screen."""

from __future__ import annotations

from typing import Any

import pytest

from pulsarscope.dissect.contract.capabilities import LiveFold, ReportTable
from pulsarscope.output.render.top_tables import COLUMNS, columns_with, course, identity, ordered, selected
from pulsarscope.protocols.pulsar.tables import TABLES

ROWS: list[dict[str, Any]] = [{"topic": "b", "sent": 1}, {"topic": "a", "sent": None}, {"topic": "C", "sent": 3}]


def test_numbers_are_sorted_from_the_largest_and_what_has_none_is_last() -> None:
    sent = next(each for each in COLUMNS["topics"] if each.key == "sent")
    assert [row["sent"] for row in ordered(ROWS, sent, reverse=False)] == [3, 1, None]
    assert [row["sent"] for row in ordered(ROWS, sent, reverse=True)] == [1, 3, None]


def test_names_are_sorted_from_a() -> None:
    topic = COLUMNS["topics"][0]
    assert [row["topic"] for row in ordered([{"topic": "b"}, {"topic": "a"}], topic, reverse=False)] == ["a", "b"]


@pytest.mark.parametrize(("pattern", "topics"), [("", ["b", "a", "C"]), ("c", ["C"]), ("x", [])])
def test_a_filter_looks_at_names_whatever_the_case(pattern: str, topics: list[str]) -> None:
    assert [row["topic"] for row in selected(COLUMNS["topics"], ROWS, pattern)] == topics


@pytest.mark.parametrize(("counts", "text"), [([], ""), ([0, 0], ""), ([0, 1, 1000], " ▁█"), ([8, 4], "█▄"), ([1], "█")])
def test_a_course_shows_the_least_count_and_no_higher_than_the_largest(counts: list[int], text: str) -> None:
    assert course(counts, unicode=True) == text
    assert course(counts, unicode=False).isascii()


@pytest.mark.parametrize("table", [table for table in TABLES if isinstance(table.make(), LiveFold)], ids=lambda table: table.name)
def test_a_row_of_a_table_is_known_by_the_names_that_it_begins_with(table: ReportTable) -> None:
    columns = columns_with([table])
    record = {column.key: number for number, column in enumerate(table.columns)} | {"connection": "0:1", "consumer_id": 2}
    assert identity(table.name, record, columns)
    assert [column.heading for column in columns[table.name]]
