"""Consumers without permits, and readers among them that stopped when their users had seen enough.

A reader holds back nobody: its position is its own. Applications with a reader for each user stop them one by one; one that hangs, or its
client, stops all of them at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from pulsarscope.dissect.contract.rules import Where
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import SECONDS, Threshold, Thresholds
from pulsarscope.protocols.pulsar.rules.consumers.permit_state import PermitState
from pulsarscope.protocols.pulsar.rules.evidence import frame_names

THRESHOLDS = (
    Threshold(
        "consumer-starved-moments",
        3,
        "moments",
        "Separate moments at which readers stopped that show that they stop one by one, as their users leave.",
        ("consumer-starved",),
        1,
    ),
    Threshold(
        "consumer-starved-apart-seconds",
        1,
        SECONDS,
        "Time between two of these moments; a client serves all its readers within a second.",
        ("consumer-starved",),
    ),
)


class EndedReader(NamedTuple):
    """A reader that ended without permits."""

    consumer: PermitState
    now: int
    """Time of its last review, in nanoseconds."""
    closed: bool
    """False when the capture ended before it."""


def are_of_users(readers: Sequence[EndedReader], thresholds: Thresholds) -> bool:
    """Return True for readers of one connection most of which did something last at a time of their own."""
    stops = sorted(reader.consumer.active_at for reader in readers)
    apart = thresholds.ns("consumer-starved-apart-seconds")
    moments = 1 + sum(after - before >= apart for before, after in pairwise(stops))
    return moments >= thresholds["consumer-starved-moments"] and 2 * moments > len(stops)


def starvation(consumer: PermitState, since: Where, now: int, deciding: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return text and evidence of the finding about a consumer that has had no permits for some time; `deciding`: its thresholds."""
    starved = now - since.time
    if consumer.granted == 0:
        text = f"{consumer.title} granted no permits for {duration(starved)} after it subscribed: its client has to send FLOW"
    else:
        used = f"used up its {plural(consumer.granted, 'permit')} with {plural(consumer.delivered, 'message')}"
        text = f"{consumer.title} {used} and sent no further FLOW for {duration(starved)}"
    evidence = {
        "frames": frame_names([since.name]),
        **consumer.evidence,
        "permits": consumer.permits,
        "granted": consumer.granted,
        "delivered": consumer.delivered,
        "starved_ns": starved,
        "act": "client",
        **deciding,
    }
    return text, evidence
