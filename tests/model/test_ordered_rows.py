"""Ordered rows at the start of a batch."""

from __future__ import annotations

from pulsarscope.model.ordered_rows import in_parts, others, split
from pulsarscope.model.records import ExchangeRow, FindingRow, MessageRow, Row
from pulsarscope.model.row_lists import EntryMessages


class Ordered:
    def others(self) -> list[Row]:
        return [ExchangeRow(packet=1)]


def test_a_batch_without_ordered_rows_is_as_it_was() -> None:
    rows = [FindingRow(packet=2)]
    assert split(rows) == (None, rows)
    assert others(rows) == rows
    assert split([]) == (None, [])


def test_ordered_rows_stand_first_and_have_rows_of_their_own() -> None:
    ordered, finding = Ordered(), FindingRow(packet=2)
    assert split([ordered, finding]) == (ordered, [finding])
    assert others([ordered, finding]) == [ExchangeRow(packet=1), finding]


def test_many_rows_are_given_in_parts_that_count_the_messages_of_entries() -> None:
    single, few, many = MessageRow(packet=1), EntryMessages(MessageRow(packet=2), 2, {}), EntryMessages(MessageRow(packet=3), 9, {})
    assert [*in_parts([single] * 7, 3)] == [[single] * 3, [single] * 3, [single]]
    assert [*in_parts([few, single, few, single, many, single], 3)] == [[few, single], [few, single], [many], [single]]
    assert [*in_parts([single, few], 3)] == [[single, few]]
    assert [*in_parts([], 3)] == [[]]
