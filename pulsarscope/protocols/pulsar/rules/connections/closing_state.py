"""The state of a connection for the findings about its end."""

from __future__ import annotations

from typing import NamedTuple

from pulsarscope.dissect.contract.rules import Where


class LastCommand(NamedTuple):
    """The latest frame of one side."""

    command: str
    where: Where


class Refusal(NamedTuple):
    """The latest error answer of the broker."""

    error: str | None
    frame: str
    time: int
