"""Rows that stand together, or are made when they are taken."""

from __future__ import annotations

from pulsarscope.model.limits import ROWS_MAX
from pulsarscope.model.records import MessageRow, Row
from pulsarscope.model.row_lists import EntryMessages, RowList, count_rows


def rows_later(*, later: bool) -> tuple[RowList, list[int]]:
    """Batches 0 1 | 2 3 4 | 5 | 6, those between the bars made later; and the numbers of those made so far."""
    made: list[int] = []

    def make(number: int) -> Row:
        made.append(number)
        return Row(packet=number)

    rows = RowList(later=later)
    rows += [Row(packet=0), Row(packet=1)]
    rows.extend_later(map(make, (2, 3, 4)))
    rows.append(Row(packet=5))
    rows.extend_later(map(make, (6,)))
    return rows, made


def test_rows_of_a_list_are_made_when_they_are_taken() -> None:
    rows, made = rows_later(later=True)
    assert made == []
    pieces = rows.take(3)
    assert [row.packet for row in next(pieces)] == [0, 1, 2]
    assert made == [2]
    assert [[row.packet for row in piece] for piece in pieces] == [[3, 4], [5, 6]]
    assert (list(rows), rows.later) == ([], [])


def test_messages_of_entries_are_counted_one_by_one_and_handed_on_before_there_are_too_many() -> None:
    rows = RowList(later=True, together=True)
    rows.append(Row())
    for _ in range(5):
        rows.append_together(EntryMessages(MessageRow(), ROWS_MAX // 2, {}))
    assert count_rows(rows) == 1 + 5 * (ROWS_MAX // 2)
    assert [len(piece) for piece in rows.take(ROWS_MAX)] == [4, 2]


def test_or_at_once() -> None:
    rows, made = rows_later(later=False)
    assert (made, rows.later) == ([2, 3, 4, 6], [])
    assert [row.packet for row in rows] == list(range(7))
