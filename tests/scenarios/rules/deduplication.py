"""Conversations of producers whose messages a broker drops as duplicates."""

from __future__ import annotations

from typing import Any

from tests.scenarios.commands import created, producer, receipt, send
from tests.scenarios.connections import connected
from tests.scenarios.conversation import SECOND, Conversation

MINUS_ONE = (1 << 64) - 1


def dropped(number: int) -> bytes:
    return receipt(1, number, MINUS_ONE, MINUS_ONE)


def producing(port: int = 40000, start: int = 0, stored: int = -1, **fields: Any) -> Conversation:
    """A connection whose packets 6 and 7 create the producer."""
    return connected(port, start=start).client(producer(**fields)).server(created(last_sequence_id=stored))


def sends(talk: Conversation, *numbers: int) -> Conversation:
    for number in numbers:
        talk.client(send(1, number)).server(receipt(1, number))
    return talk


def dropped_at_once() -> list[Conversation]:
    """Two messages of a producer that starts below what the broker has stored."""
    talk = producing(stored=10)
    for number in (5, 6):
        talk.client(send(1, number)).server(dropped(number))
    return [sends(talk, 11).close()]


def sent_again() -> list[Conversation]:
    """A producer that, after a reconnect, sends again what had no receipt."""
    first = sends(producing(), 0, 1).client(send(1, 2), send(1, 3)).reset()
    again = producing(40001, SECOND, stored=3, epoch=1)
    again.client(send(1, 2)).server(dropped(2)).client(send(1, 3)).server(dropped(3))
    return [first, sends(again, 4).close()]
