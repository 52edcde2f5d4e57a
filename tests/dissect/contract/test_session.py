"""What every session does: it pairs requests with answers."""

from __future__ import annotations

from collections.abc import Hashable

import pytest

from pulsarscope.dissect.contract.events import Event, Exchange
from pulsarscope.dissect.contract.frames import NOWHERE
from pulsarscope.dissect.contract.session import Session, SessionContext, SessionSettings
from tests.scenarios.rows import frame


@pytest.mark.parametrize(("key", "shown"), [(3, "3"), ("ADD 14:3", "ADD 14:3"), ((1, 2), "(1, 2)"), (None, None)])
def test_rows_show_the_key_of_a_request_and_of_an_answer_without_one(key: Hashable, shown: str | None) -> None:
    session = Session(SessionContext(NOWHERE, SessionSettings(frozenset())))
    events: list[Event] = []
    session.ask(frame(command="ASK", topic="a"), key, events)
    session.answer(answer := frame(command="ANSWER"), key, events)
    session.answer(frame(command="ANSWER"), key, events)
    paired, unrequested = events
    assert isinstance(paired, Exchange)
    assert paired.request is not None
    assert (paired.request.key, answer.topic) == (shown, "a")
    assert isinstance(unrequested, Exchange)
    assert (unrequested.request, unrequested.key) == (None, shown)


def test_one_key_for_all_pairs_them_in_their_order() -> None:
    session = Session(SessionContext(NOWHERE, SessionSettings(frozenset())))
    events: list[Event] = []
    for command in ("GET", "SET"):
        session.ask(frame(command=command), None, events)
    asked = [session.answer(frame(command="ANSWER"), None, events) for _ in range(3)]
    assert [request and request.command for request in asked] == ["GET", "SET", None]


def test_an_error_may_have_the_words_of_the_peer() -> None:
    session = Session(SessionContext(NOWHERE, SessionSettings(frozenset())))
    events: list[Event] = []
    session.ask(frame(command="GET"), None, events)
    session.answer(frame(command="ERROR"), None, events, error="MOVED", error_message="to 10.0.0.3")
    (exchange,) = events
    assert isinstance(exchange, Exchange)
    assert (exchange.error, exchange.error_message) == ("MOVED", "to 10.0.0.3")
