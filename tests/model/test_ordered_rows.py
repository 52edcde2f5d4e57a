"""Ordered rows at the start of a batch."""

from __future__ import annotations

from pulsarscope.model.ordered_rows import others, split
from pulsarscope.model.records import ExchangeRow, FindingRow, Row


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
