"""Message ids and ack sets."""

from __future__ import annotations

from typing import Any

import pytest

from pulsarscope.protocols.pulsar.ack_sets import bitmap
from pulsarscope.protocols.pulsar.message_ids import entry_key, indexes_of, position_of, positions_of


def test_positions() -> None:
    assert position_of({"ledgerId": 7, "entryId": 3, "batch_index": 2}) == (7, 3)
    assert position_of({}) == position_of(None) == (-1, -1)
    assert positions_of([{"ledgerId": 7, "entryId": 3}, {}]) == [(7, 3), (-1, -1)]
    assert positions_of(None) == []


@pytest.mark.parametrize(
    ("message_id", "key"),
    [
        ({"ledgerId": 7, "entryId": 0}, "7:0"),
        ({"ledgerId": 7, "entryId": 3, "batch_index": 2}, "7:3"),
        ({"ledgerId": -1, "entryId": -1}, None),
        ({"ledgerId": 0, "entryId": 0}, None),
        (None, None),
        ([], None),
    ],
)
def test_only_stored_entries_have_a_key(message_id: Any, key: str | None) -> None:
    assert entry_key(message_id) == key


@pytest.mark.parametrize(
    ("words", "indexes"),
    [([0], []), ([0b1001], [0, 3]), ([0, 1], [64]), ([-(1 << 63)], [63]), ([-1], list(range(10)))],
)
def test_bits_of_an_ack_set(words: list[int], indexes: list[int]) -> None:
    assert indexes_of(bitmap(words), 10) == indexes
