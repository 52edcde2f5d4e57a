"""Conversations in which a broker closes producers and consumers."""

from __future__ import annotations

from tests.scenarios.conversation import Conversation
from tests.scenarios.frames import command_frame
from tests.scenarios.rules.recorded import (
    SECOND,
    TOPIC,
    created,
    dial,
    producer,
    until,
)

BY_BROKER = (1 << 64) - 1


def close_producer(number: int = 1, **fields: str) -> bytes:
    return command_frame("CLOSE_PRODUCER", producer_id=number, request_id=BY_BROKER, **fields)


def stopping(topics: int) -> Conversation:
    talk = dial()
    for number in range(topics):
        talk.client(producer(number, request=number, topic=f"{TOPIC}-{number}")).server(created(request=number))
    return until(talk, SECOND).server(*(close_producer(number) for number in range(topics))).close("server")
