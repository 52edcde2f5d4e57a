"""Messages that consumers had acknowledged, or not, when the broker closed them.

A subscription that gets the former again, or the latter never, was reset.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import msgspec

from pulsarscope.dissect.contract.rules import RuleContext, Where
from pulsarscope.model.bounded_tables import remember
from pulsarscope.model.flow import SERVER
from pulsarscope.protocols.pulsar.message_ids import Position
from pulsarscope.protocols.pulsar.rules.exchanges.departures import AGAIN, TOPICS, UNRETURNED
from pulsarscope.protocols.pulsar.rules.subscriptions.consumers import CONSUMERS_MAX, SHARED_TYPES, ConsumerState


class Received(msgspec.Struct):
    """The entries that a consumer got, and how far it had acknowledged them a while ago."""

    low: Position = (-1, -1)
    high: Position = (-1, -1)
    count: int = 0
    """Number of entries that came in order."""
    noted: Position = (-1, -1)
    """Entry before which it had acknowledged everything, at the latest note."""
    noted_at: int = 0
    settled: Position = (-1, -1)
    """The same, at the previous note."""

    def add(self, position: Position) -> None:
        """Add an entry."""
        if position > self.high:
            self.low = self.low if self.count else position
            self.high = position
            self.count += 1
        elif position < self.low:
            self.low = position

    def extend(self, first: Position, last: Position, count: int) -> None:
        """Add `count` entries whose positions are ascending and after all earlier ones."""
        self.low = self.low if self.count else first
        self.high = last
        self.count += count

    def note(self, unacknowledged: Collection[Position], now: int, patience: int) -> None:
        """On an ACK, note how far the consumer had acknowledged before it, unless that was noted a moment ago."""
        if now - self.noted_at >= patience:
            self.settled, self.noted, self.noted_at = self.noted, self._until(unacknowledged), now

    def settled_at(self, unacknowledged: Collection[Position], acknowledged_at: int, now: int, patience: int) -> Position:
        """Return the entry before which the consumer had acknowledged everything at least `patience` ns ago."""
        if now - acknowledged_at >= patience:
            return self._until(unacknowledged)
        return self.noted if now - self.noted_at >= patience else self.settled

    def _until(self, unacknowledged: Collection[Position]) -> Position:
        return min(unacknowledged, default=(self.high[0], self.high[1] + 1))

    @property
    def is_alone(self) -> bool:
        """True if no other entry lies between these, which another consumer may have got."""
        return self.low[0] == self.high[0] and self.count == self.high[1] - self.low[1] + 1


class ClosedConsumer(NamedTuple):
    """A consumer that the broker closed."""

    until: Position
    """Position before which everything was acknowledged."""
    received: Received
    held: tuple[Position, Position] | None
    """First and last entry that was not acknowledged."""
    size: int
    """Number of entries that were not acknowledged."""
    where: Where


class ClosedConsumers:
    """The consumers of one connection that the broker closed."""

    __slots__ = ("_closed",)

    def __init__(self) -> None:
        self._closed: dict[tuple[str | None, str | None] | int, ClosedConsumer] = {}
        """By topic and subscription, or by the id of a consumer from before the capture, for which neither is known."""

    def note(self, consumer: ConsumerState, received: Received, until: Position, held: Collection[Position], where: Where) -> None:
        """Note a consumer that has acknowledged everything before `until`, and nothing of `held`."""
        if consumer.closed_by == SERVER and consumer.topic is not None:
            key = consumer.number if consumer.subscription is None else (consumer.topic, consumer.subscription)
            ends = (min(held), max(held)) if held else None
            remember(self._closed, key, ClosedConsumer(until, received, ends, len(held), where), CONSUMERS_MAX)

    def compare(self, context: RuleContext, consumer: ConsumerState, position: Position, where: Where, *, is_first: bool) -> None:
        """Emit a fact when a consumer gets messages again that its subscription had acknowledged, or not those that it had not.

        The first message of a consumer from before the capture may be one that was left unacknowledged.
        """
        name = consumer.topic, consumer.subscription
        key = name if name in self._closed else consumer.number
        if key not in self._closed or consumer.topic is None or not (is_first or key != name):
            return
        closed = self._closed[key]
        received = closed.received
        if key != name and position < received.low:
            return
        del self._closed[key]
        if received.low <= position < closed.until and (received.is_alone or consumer.kind not in SHARED_TYPES):
            values = {"name": consumer.name, "client": context.client, "subscription": consumer.subscription, "position": position}
            context.emit_fact(TOPICS, consumer.topic, where, AGAIN, values)
        elif key == name:
            _compare_held(context, consumer, closed, position, where)


def _compare_held(context: RuleContext, consumer: ConsumerState, closed: ClosedConsumer, position: Position, where: Where) -> None:
    """Emit that a consumer goes on behind entries that it had not acknowledged: brokers begin with these.

    Another consumer may have got them: of an Exclusive subscription only while this one was away.
    """
    away = consumer.seen - closed.where.time
    is_alone = consumer.kind == "Exclusive" and consumer.persistent and not consumer.compacted and consumer.connection is None
    if not is_alone or closed.held is None or context.lost or away > context.thresholds.ns("messages-skipped-back-seconds"):
        return
    first, last = closed.held
    if position <= first:
        return
    ends = {"before": list(first), "after": list(position), "count": closed.size if position > last else None}
    values = {"name": consumer.name, "client": context.client, "title": consumer.title, "closed": closed.where.name, "away_ns": away}
    context.emit_fact(TOPICS, consumer.topic or "", where, UNRETURNED, values | {"evidence": consumer.evidence | ends})
