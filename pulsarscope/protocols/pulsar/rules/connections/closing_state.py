"""The state of a connection for the findings about its end."""

from __future__ import annotations

from collections.abc import Container
from typing import Any, NamedTuple

from pulsarscope.dissect.contract.rules import Where
from pulsarscope.protocols.pulsar.session.exchanges import REQUESTS

PURPOSES = frozenset({"SEND", *(name for name, request in REQUESTS.items() if request.is_purpose)})
"""Requests for which a client connects."""

PASSING = frozenset({"SEND", "SEND_RECEIPT", "MESSAGE", "ACK", "FLOW"})
"""Commands of the data path."""


class LastCommand(NamedTuple):
    """The latest frame of one side."""

    command: str
    where: Where


class Refusal(NamedTuple):
    """The latest error answer of the broker."""

    error: str | None
    frame: str
    time: int


def sends_again(frames: Any, abandoned: Container[tuple[str | None, str]]) -> bool:
    """Return True when SENDs in columns may include a repetition of an unanswered one; `abandoned`: topics and names of those."""
    sent = ((each.topic, f"{each.id}:{number}") for each in frames.producers for number in each.sequence_ids)
    return any(key in abandoned for key in sent)
