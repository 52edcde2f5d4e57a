"""Statements of replicators about the messages that they copy."""

from __future__ import annotations

from typing import Any

import pytest

from pulsarscope.protocols.pulsar.replication import is_replicator, source_position

PLACE = "__MSG_PROP_REPL_SOURCE_POSITION"


@pytest.mark.parametrize(
    ("name", "replicates"),
    [("pulsar.repl.east-->west", True), ("pulsar.repl.east", True), ("pulsar-repl", False), ("", False), (None, False)],
)
def test_replicators_are_known_by_their_names(name: str | None, replicates: bool) -> None:
    assert is_replicator(name) is replicates


@pytest.mark.parametrize(
    ("value", "position"),
    [("6:0", (6, 0)), ("9" * 19 + ":7", (int("9" * 19), 7)), ("6", None), ("6:", None), ("6:-1", None), ("6:0:0", None), (None, None)],
)
def test_a_position_is_a_ledger_and_an_entry(value: str | None, position: tuple[int, int] | None) -> None:
    said = [{"key": "n", "value": "1:1"}, {"key": PLACE, "value": value}]
    assert source_position({"replicated_from": "west", "properties": said}) == position


@pytest.mark.parametrize("metadata", [{}, {"properties": [{"key": PLACE, "value": "6:0"}]}, {"replicated_from": "west"}])
def test_messages_that_are_not_copied_have_none(metadata: dict[str, Any]) -> None:
    assert source_position(metadata) is None
