"""Consumers without permits, and readers among them that stopped when their users had seen enough.

A reader holds back nobody: its position is its own. Applications with a reader for each user stop them one by one; one that hangs, or its
client, stops all of them at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from pulsarscope.dissect.contract.rules import RuleContext, Where
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import counted, in_seconds
from pulsarscope.protocols.pulsar.rules.consumers.permit_state import PermitState
from pulsarscope.protocols.pulsar.rules.evidence import frame_names
from pulsarscope.protocols.pulsar.rules.subscriptions.consumers import CONSUMERS_MAX

THRESHOLDS = (
    counted(
        "consumer-starved-moments",
        3,
        "moments",
        "Separate moments at which readers stopped that show that they stop one by one, as their users leave.",
        "consumer-starved",
    ),
    in_seconds(
        "consumer-starved-apart-seconds",
        1,
        "Time between two of these moments; a client serves all its readers within a second.",
        "consumer-starved",
    ),
)


class EndedReader(NamedTuple):
    """A reader that ended without permits."""

    consumer: PermitState
    now: int
    """Time of its last review, in nanoseconds."""
    closed: bool
    """False when the capture ended before it."""


class Readers:
    """The readers of a connection that had no permits: how all of them stopped decides whether they are starved."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._ended: list[EndedReader] = []
        self._starved: list[tuple[Where, str, dict[str, Any]]] = []
        """Findings that wait for this decision."""

    def note(self, since: Where, text: str, evidence: dict[str, Any]) -> None:
        """Take the finding about a reader."""
        if len(self._starved) < CONSUMERS_MAX:
            self._starved.append((since, text, evidence))

    def add(self, reader: EndedReader) -> None:
        """Take a reader that ended without permits."""
        if len(self._ended) < CONSUMERS_MAX:
            self._ended.append(reader)

    def review(self, running: Sequence[PermitState]) -> None:
        """Report several readers that have all stopped at the same moment, as those of a client that hangs: no user leaves any more."""
        if self._starved and all(reader.reported for reader in running):
            stops = [_stopped_at(reader) for reader in (*(ended.consumer for ended in self._ended), *running)]
            if len(stops) > 1 and self._moments(stops) == 1:
                self._report()

    def without_users(self) -> Sequence[EndedReader]:
        """Report and return the readers, unless most of them did something last at a time of their own: the connection has ended."""
        moments = self._moments([reader.consumer.active_at for reader in self._ended])
        if moments >= self._context.thresholds["consumer-starved-moments"] and 2 * moments > len(self._ended):
            return ()
        self._report()
        return self._ended

    def _report(self) -> None:
        for found in self._starved:
            self._context.report("consumer-starved", *found)
        self._starved.clear()

    def _moments(self, stops: Sequence[int]) -> int:
        """Return the number of separate moments among these times."""
        apart = self._context.thresholds.ns("consumer-starved-apart-seconds")
        return 1 + sum(after - before >= apart for before, after in pairwise(sorted(stops)))


def _stopped_at(reader: PermitState) -> int:
    """Return the time when a reader got or did something last."""
    since = reader.exhausted or reader.ready
    return max(reader.active_at, 0 if since is None else since.time)


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
