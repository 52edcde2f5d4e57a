from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from pulsarscope.model.records import FrameRow
from pulsarscope.output.export.arrow import arrow_schema

datasource = pytest.importorskip("pyspark.sql.datasource", reason="no pyspark: pip install -e '.[spark]'")
row_filters = pytest.importorskip("pulsarscope.spark.rows.row_filters")

TOPIC, FILE, EXTRA = ("topic",), ("file",), ("extra",)
ROWS = [
    FrameRow(file=number, topic=topic, command=command, direction="client", offset=0, size=1, status="ok")
    for number, (topic, command) in enumerate([("a/b", "SEND"), ("a/c", None), (None, "FLOW"), ("ä/b", "SEND")])
]


def selected(*filters: Any) -> list[int | None]:
    """Return the files of the rows that pass."""
    return [row.file for row in row_filters.RowFilters("frame", arrow_schema("frame"), filters).select(ROWS)]


@pytest.mark.parametrize(
    ("condition", "files"),
    [
        (datasource.EqualTo(TOPIC, "a/b"), [0]),
        (datasource.EqualTo(FILE, 2), [2]),
        (datasource.GreaterThan(FILE, 2), [3]),
        (datasource.GreaterThanOrEqual(FILE, 2), [2, 3]),
        (datasource.LessThan(FILE, 1), [0]),
        (datasource.LessThanOrEqual(FILE, 1), [0, 1]),
        (datasource.LessThan(TOPIC, "b"), [0, 1]),
        (datasource.In(TOPIC, ("a/b", "a/c")), [0, 1]),
        (datasource.In(TOPIC, ("a/b", None)), [0]),
        (datasource.IsNull(TOPIC), [2]),
        (datasource.IsNotNull(TOPIC), [0, 1, 3]),
        (datasource.EqualNullSafe(TOPIC, None), [2]),
        (datasource.EqualNullSafe(TOPIC, "a/c"), [1]),
        (datasource.StringStartsWith(TOPIC, "a/"), [0, 1]),
        (datasource.StringEndsWith(TOPIC, "/b"), [0, 3]),
        (datasource.StringContains(TOPIC, "/"), [0, 1, 3]),
        (datasource.Not(datasource.EqualTo(TOPIC, "a/b")), [1, 3]),
        (datasource.Not(datasource.In(TOPIC, ("a/b",))), [1, 3]),
        (datasource.Not(datasource.In(TOPIC, ("a/b", None))), []),
        (datasource.Not(datasource.IsNull(TOPIC)), [0, 1, 3]),
        (datasource.Not(datasource.EqualNullSafe(TOPIC, "a/b")), [1, 2, 3]),
        (datasource.Not(datasource.StringContains(TOPIC, "b")), [1]),
    ],
)
def test_rows_pass_as_in_sql(condition: Any, files: list[int]) -> None:
    assert selected(condition) == files


def test_all_of_them_hold() -> None:
    assert selected(datasource.EqualTo(("command",), "SEND"), datasource.GreaterThan(FILE, 0)) == [3]
    assert selected() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "condition",
    [
        datasource.EqualTo(("topic", "name"), "a/b"),
        datasource.EqualTo(("nothing",), "a/b"),
        datasource.EqualTo(FILE, True),
        datasource.EqualTo(FILE, 1.5),
        datasource.EqualTo(FILE, 1 << 64),
        datasource.EqualTo(FILE, None),
        datasource.EqualTo(TOPIC, 1),
        datasource.In(FILE, (1, "a")),
        datasource.EqualNullSafe(FILE, "a"),
        datasource.StringContains(FILE, "1"),
        datasource.Not(datasource.EqualTo(FILE, 1.5)),
    ],
)
def test_what_is_not_understood_is_left_to_spark(condition: Any) -> None:
    filters = row_filters.RowFilters("frame", arrow_schema("frame"), [condition])
    assert not filters
    assert filters.select(ROWS) is ROWS


def test_values_that_no_row_may_have() -> None:
    filters = row_filters.RowFilters("frame", arrow_schema("frame"), [datasource.GreaterThan(FILE, 1), datasource.EqualTo(TOPIC, "x")])
    assert filters.names == ("file", "topic")
    assert filters.passing("file", range(4), pa.int64()) == [False, False, True, True]
    assert filters.passing("source", ["a", None], pa.string()) == [True, True]
    assert filters.passing("file", [], pa.int64()) == []


def test_texts_of_which_a_row_has_one() -> None:
    schema = arrow_schema("connection")
    client, server = ("client",), ("server",)
    several = [datasource.In(client, ("a", "b", None)), datasource.In(client, ("b", "c")), datasource.StringContains(server, "x")]
    filters = row_filters.RowFilters("connection", schema, several)
    assert filters.one_of("client") == {"b"}
    assert filters.one_of("server") is None
    negated = [datasource.Not(datasource.EqualTo(client, "a"))]
    assert row_filters.RowFilters("connection", schema, negated).one_of("client") is None
