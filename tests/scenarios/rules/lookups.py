"""Brokers that a client asks for the owner of a topic."""

from __future__ import annotations

from tests.scenarios.connections import connected
from tests.scenarios.conversation import Conversation

ONE, TWO = ("10.0.0.2", 6650), ("10.0.0.3", 6650)


TO_ONE, TO_TWO = "pulsar://10.0.0.2:6650", "pulsar://10.0.0.3:6650"


def brokers() -> tuple[Conversation, Conversation]:
    return connected(server=ONE), connected(40001, server=TWO)
