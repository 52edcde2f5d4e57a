"""What is kept of a connection for the findings about its end."""

from __future__ import annotations

from typing import NamedTuple

from pulsarscope.dissect.contract.rules import Where


class LastCommand(NamedTuple):
    """Latest frame of one side."""

    command: str
    where: Where


class Refusal(NamedTuple):
    """Latest error that the broker answered."""

    error: str | None
    frame: str
    time: int
