"""Conversations with acknowledgements that are answered, refused, or too late."""

from __future__ import annotations

from tests.scenarios import Conversation
from tests.scenarios.commands import PING, ack, ack_response, close_consumer, delivery, flow
from tests.scenarios.connections import connected, subscribed
from tests.scenarios.conversation import SECOND


def unanswered() -> list[Conversation]:
    talk = subscribed(connected()).client(flow(10)).server(delivery(1), delivery(2))
    return [talk.client(ack(1, request_id=50)).client(ack(2, request_id=51)).wait(5 * SECOND).client(PING).close()]


def answered() -> list[Conversation]:
    """Two ACKs: one with its response, one that requests none."""
    talk = subscribed(connected()).client(flow(10)).server(delivery(1), delivery(2)).client(ack(1, request_id=50), ack(2))
    return [talk.server(ack_response(50)).wait(5 * SECOND).client(PING).close()]


def refused() -> list[Conversation]:
    talk = subscribed(connected()).client(flow(10)).server(delivery(1)).client(ack(1, request_id=50))
    return [talk.server(ack_response(50, error="PersistenceError", message="taken")).close()]


def behind_the_close() -> list[Conversation]:
    return [subscribed(connected()).client(flow(10)).server(delivery(1)).client(close_consumer()).client(ack(1)).close()]
