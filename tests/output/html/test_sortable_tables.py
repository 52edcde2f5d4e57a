from __future__ import annotations

from pulsarscope.dissect.contract.capabilities import ReportColumn
from pulsarscope.output.html.sortable_tables import Cell, table

COLUMNS = (
    ReportColumn("topic", "topic", "topic"),
    ReportColumn("sent", "sent"),
    ReportColumn("p50_ns", "p50", "duration"),
    ReportColumn("errors", "refused", spare=True),
)


def record(topic: str, sent: int, errors: int = 0) -> dict[str, object]:
    return {"topic": topic, "sent": sent, "p50_ns": None, "errors": errors}


def short(form: str, text: str) -> str:
    return text.removeprefix("persistent://") if form == "topic" else text


def test_a_cell_has_its_text_its_full_name_and_its_number() -> None:
    made = table("topics", "Topics", "", COLUMNS, [record("persistent://a", 1_000, 2)], 10, short)
    assert [column.heading for column in made.columns] == ["topic", "sent", "refused"]
    assert made.rows == [[Cell("a", "persistent://a", None), Cell("1,000", "", 1_000), Cell("2", "", 2)]]


def test_columns_that_say_nothing_are_left_out() -> None:
    made = table("topics", "Topics", "", COLUMNS, [record("a", 0)], 10, short)
    assert [column.heading for column in made.columns] == ["topic", "sent"]
    assert table("topics", "Topics", "", COLUMNS, [], 10, short).rows == []


def test_what_is_left_out_is_said() -> None:
    made = table("topics", "Topics", "", COLUMNS, [*(record(str(number), 1) for number in range(5)), {"others": True, "rows": 7}], 3, short)
    assert len(made.rows) == 3
    assert made.more == "2 more rows are left out (--limit); 7 did not fit into the table"
