"""Conversations in which a broker closes producers and consumers."""

from __future__ import annotations

from tests.scenarios.commands import TOPIC, close_producer, created, producer
from tests.scenarios.connections import connected, wait_until
from tests.scenarios.conversation import SECOND, Conversation


def stopping(topics: int) -> Conversation:
    talk = connected()
    for number in range(topics):
        talk.client(producer(number, request=number, topic=f"{TOPIC}-{number}")).server(created(request=number))
    return wait_until(talk, SECOND).server(*(close_producer(number) for number in range(topics))).close("server")
