"""Ack sets as numbers."""

from __future__ import annotations

import pytest

from pulsarscope.protocols.pulsar.ack_sets import bitmap, is_left, left_of


@pytest.mark.parametrize(
    ("words", "messages", "left"),
    [([0b1011], 4, 3), ([0b1011], 2, 2), ([-1], 10, 10), ([0, 1], 128, 1), ([0, 1], 64, 0), ([], 5, 0), ([5], 1 << 31, 2), ([5], -1, 0)],
)
def test_messages_that_are_left_are_those_within_the_batch(words: list[int], messages: int, left: int) -> None:
    assert left_of(words, messages) == left
    assert left == sum(is_left(words, index) for index in range(min(messages, 1_000)))
    assert bitmap(words).bit_count() >= left
