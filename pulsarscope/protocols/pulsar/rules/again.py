"""What consumers had acknowledged when the broker closed them: a subscription that gets it again was reset."""

from __future__ import annotations

from pulsarscope.dissect.rules import RuleContext, Where
from pulsarscope.model.bounded_tables import remember
from pulsarscope.model.flow import SERVER
from pulsarscope.protocols.pulsar.rules.consumers import CONSUMERS_MAX, ConsumerState
from pulsarscope.protocols.pulsar.rules.departures import AGAIN, TOPICS
from pulsarscope.protocols.pulsar.rules.message_ids import Position
from pulsarscope.protocols.pulsar.rules.unknown_acks import Extent


class ClosedConsumers:
    """Consumers of one connection that the broker closed."""

    __slots__ = ("_acknowledged",)

    def __init__(self) -> None:
        self._acknowledged: dict[tuple[str | None, str | None] | int, tuple[Position, Extent]] = {}
        """Position before which all was acknowledged, and what the consumer had got: by topic and subscription, or by the id of a consumer
        from before the capture, of which neither is known."""

    def note(self, consumer: ConsumerState, extent: Extent, oldest: Position | None) -> None:
        """Note a consumer that acknowledges; `oldest`: entry that it has not acknowledged."""
        if consumer.closed_by == SERVER and consumer.topic is not None:
            key = consumer.number if consumer.subscription is None else (consumer.topic, consumer.subscription)
            remember(self._acknowledged, key, (oldest or (extent.high[0], extent.high[1] + 1), extent), CONSUMERS_MAX)

    def compare(self, context: RuleContext, consumer: ConsumerState, position: Position, where: Where, *, is_first: bool) -> None:
        """Emit that a consumer gets again what its subscription had acknowledged.

        Of one from before the capture the first message may be one that it had left unacknowledged then.
        """
        name = consumer.topic, consumer.subscription
        key = name if name in self._acknowledged else consumer.number
        if key not in self._acknowledged or consumer.topic is None or not (is_first or key != name):
            return
        until, extent = self._acknowledged[key]
        if key != name and position < extent.low:
            return
        del self._acknowledged[key]
        if extent.low <= position < until:
            values = {"name": consumer.name, "client": context.client, "subscription": consumer.subscription, "position": position}
            context.emit_fact(TOPICS, consumer.topic, where, AGAIN, values)
