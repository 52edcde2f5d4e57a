"""What is kept of clients that may leave their broker."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from pulsarscope.model.limits import NAME_MAX_CHARACTERS
from pulsarscope.model.records import FrameRow
from pulsarscope.protocols.pulsar.rules.exchanges.departures import DepartureRule

LONG = "p" * (2 * NAME_MAX_CHARACTERS)


def frame(number: int, command: str, request: str | None = None, **fields: Any) -> FrameRow:
    """A frame of a client or broker about a topic."""
    direction = "server" if command == "PRODUCER_SUCCESS" else "client"
    place: dict[str, Any] = {"connection": "0:1", "file": 0, "packet": number, "sub": 1, "time": number}
    return FrameRow(**place, direction=direction, command=command, request=request, topic="t", fields=fields)


@pytest.mark.parametrize("by_broker", [False, True])
def test_the_name_of_a_producer_that_leaves_is_cut(by_broker: bool) -> None:
    context = Mock()
    rule = DepartureRule(context)
    asked, answered = ({}, {"producer_name": LONG}) if by_broker else ({"producer_name": LONG}, {})
    rule.frames["PRODUCER"](rule, frame(1, "PRODUCER", producer_id=1, **asked))
    rule.frames["PRODUCER_SUCCESS"](rule, frame(2, "PRODUCER_SUCCESS", "0:1.1", **answered))
    rule.frames["CLOSE_PRODUCER"](rule, frame(3, "CLOSE_PRODUCER", producer_id=1))
    told = repr(context.emit_fact.call_args)
    assert LONG[:NAME_MAX_CHARACTERS] not in told
    assert f"producer {LONG[: NAME_MAX_CHARACTERS - 1]}…" in told
