"""Brokers that a client asks for the owner of a topic."""

from __future__ import annotations

from tests.scenarios.conversation import Conversation
from tests.scenarios.rules.recorded import dial

ONE, TWO = ("10.0.0.2", 6650), ("10.0.0.3", 6650)


TO_ONE, TO_TWO = "pulsar://10.0.0.2:6650", "pulsar://10.0.0.3:6650"


def brokers() -> tuple[Conversation, Conversation]:
    return dial(server=ONE), dial(40001, server=TWO)
