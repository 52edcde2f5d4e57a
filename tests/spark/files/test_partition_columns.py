from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pulsarscope.model.errors import UsageError
from pulsarscope.model.row_lists import EntryMessages
from pulsarscope.spark.files.partition_columns import by_folder, check_sources, columns_of, partition_columns

DAY = 86_400 * 10**9


def row(time: int | None, source: str | None) -> Any:
    return SimpleNamespace(time=time, source=source)


@pytest.mark.parametrize(
    ("columns", "made", "folder"),
    [
        (("date", "source"), row(0, "host1"), "date=1970-01-01/source=host1/"),
        (("source", "date"), row(DAY - 1, "host1"), "source=host1/date=1970-01-01/"),
        (("date",), row(DAY, None), "date=1970-01-02/"),
        (("date",), row(-1, None), "date=1969-12-31/"),
        (("source",), row(0, "/captures/a b=c"), "source=%2Fcaptures%2Fa b%3Dc/"),
        (("source",), row(0, "é%"), "source=é%25/"),
        (("date", "source"), row(None, None), "date=__HIVE_DEFAULT_PARTITION__/source=__HIVE_DEFAULT_PARTITION__/"),
        (("source",), row(0, ""), "source=__HIVE_DEFAULT_PARTITION__/"),
        ((), row(0, "a"), ""),
    ],
)
def test_the_folder_of_a_row(columns: tuple[str, ...], made: Any, folder: str) -> None:
    assert by_folder([made], columns) == {folder: [made]}
    messages = EntryMessages(made, 3, {})
    assert by_folder([messages], columns) == {folder: [messages]}
    assert columns_of(f"frame/{folder}") == columns


def test_rows_stay_in_their_order() -> None:
    rows = [row(time, source) for time, source in ((1, "a"), (DAY, "a"), (0, "a"), (1, "b"))]
    assert [*by_folder(rows, ("date",)).values()] == [[rows[0], rows[2], rows[3]], [rows[1]]]


@pytest.mark.parametrize(("text", "columns"), [("", ()), ("date", ("date",)), ("source, date", ("source", "date"))])
def test_columns_are_named(text: str, columns: tuple[str, ...]) -> None:
    assert partition_columns(text) == columns


@pytest.mark.parametrize("text", ["day", "date,date", "date,", "topic"])
def test_others_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="give date or source, each once"):
        partition_columns(text)


@pytest.mark.parametrize(("long", "fits"), [("h" * 249, "h" * 248), ("/" * 83, "/" * 82), ("é" * 125, "é" * 124)])
def test_a_vantage_point_has_a_name_that_fits_a_folder(long: str, fits: str) -> None:
    check_sources([None, fits], ("date", "source"))
    check_sources([long], ("date",))
    for refused in (lambda: check_sources([fits, long], ("source",)), lambda: by_folder([row(0, long)], ("date", "source"))):
        with pytest.raises(UsageError, match="is too long for the name of a folder: give --source-by a regular expression"):
            refused()
