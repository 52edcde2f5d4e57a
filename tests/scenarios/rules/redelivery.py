"""Conversations with repeated redeliveries."""

from __future__ import annotations

from tests.scenarios import Conversation
from tests.scenarios.commands import delivery, flow, redeliver
from tests.scenarios.connections import connected, subscribed
from tests.scenarios.conversation import SECOND


def repeated(times: int, pause: int = 30) -> Conversation:
    """A consumer that gets one message repeatedly, as after an ack timeout."""
    talk = subscribed(connected()).client(flow(1000)).server(delivery(1), delivery(2))
    for again in range(1, times + 1):
        talk.wait(pause * SECOND).client(redeliver(2)).server(delivery(2, again=again))
    return talk.close()
