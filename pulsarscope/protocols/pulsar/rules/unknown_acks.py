"""Acknowledgements of messages that their consumer never got."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pulsarscope.dissect.rules import Fact, ReportFinding, RuleContext, Where
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.text import plural
from pulsarscope.protocols.pulsar.rules.consumers import ConsumerState
from pulsarscope.protocols.pulsar.rules.evidence import SAMPLES_MAX
from pulsarscope.protocols.pulsar.rules.message_ids import Position
from pulsarscope.protocols.pulsar.text.formatting import listing

CODES = table(
    SESSION.warning(
        "ack-unknown-id",
        "A consumer acknowledged a message that it never got.",
        "The broker takes it as it is: what has this id, now or later, counts as done and is not delivered. Look at how the application "
        "keeps message ids, and for which topic and subscription.",
    ),
)

NO_ID = (1 << 63) - 1
"""From here on a ledger or entry is none: that of the latest message, or a negative number."""

UNKNOWN = "unknown"
"""Kind of a fact of a topic: acknowledged ids outside of all that the connection delivered to the subscription."""


class Extent(msgspec.Struct):
    """Lowest and highest entry that a connection delivered to a subscription."""

    low: Position
    high: Position

    def spans(self, position: Position) -> bool:
        """Return True when the entry may have been delivered."""
        return self.low <= position <= self.high


class UnknownAcks(msgspec.Struct):
    """Acknowledged ids of a consumer outside of what it had got by then."""

    extent: Extent
    acks: list[tuple[Where, Position]] = msgspec.field(default_factory=list)

    def note(self, where: Where, position: Position, fields: Mapping[str, Any]) -> None:
        """Note an id that is not among the unacknowledged ones: most were acknowledged before."""
        if self.extent.spans(position) or len(self.acks) >= SAMPLES_MAX or "validation_error" in fields:
            return
        # A cumulative ACK within the first batch names the entry before it.
        is_earlier = fields.get("ack_type") == "Cumulative" and position < self.extent.low
        if not is_earlier and max(position) < NO_ID:
            self.acks.append((where, position))

    def emit(self, context: RuleContext, rule: str, consumer: ConsumerState, now: int) -> None:
        """Emit what was not delivered later either: a client that reconnects may acknowledge ahead of what comes again."""
        acks = [(where, position) for where, position in self.acks if not self.extent.spans(position)]
        if not acks or context.lost or consumer.topic is None or consumer.ready is None:
            return
        values = {
            **consumer.evidence,
            "title": consumer.title,
            "ids": [position for _, position in acks],
            "frames": [where.name for where, _ in acks],
            "times": [where.time for where, _ in acks],
            "low": self.extent.low,
            "high": self.extent.high,
        }
        context.emit_fact(rule, consumer.topic, acks[0][0]._replace(time=now), UNKNOWN, values)


def evaluate_unknown(topic: str, facts: Sequence[Fact], report: ReportFinding) -> None:
    """Report ids that no other connection delivered to the subscription before, as to the same client before it reconnected."""
    for unknown in facts:
        if unknown.what != UNKNOWN:
            continue
        values = unknown.values
        others = [
            tuple(fact.values["position"])
            for fact in facts
            if fact.what == "delivered"
            and fact.where.connection != unknown.where.connection
            and fact.values["subscription"] == values["subscription"]
        ]
        furthest = max(others, default=(-1, -1))
        acks = [each for each in zip(values["ids"], values["frames"], values["times"], strict=True) if tuple(each[0]) > furthest]
        if not acks:
            continue
        ids = listing([f"{ledger}:{entry}" for (ledger, entry), _, _ in acks])
        low, high = (f"{ledger}:{entry}" for ledger, entry in (values["low"], values["high"]))
        text = f"{values['title']} acknowledged {plural(len(acks), 'message')} that it never got: {ids}; it got {low} to {high}."
        evidence = {
            "frames": [frame for _, frame, _ in acks],
            "topic": topic,
            "subscription": values["subscription"],
            "consumer_id": values["consumer_id"],
            "consumer_name": values["consumer_name"],
            "message_ids": [list(position) for position, _, _ in acks],
            "delivered": [list(values["low"]), list(values["high"])],
        }
        report("ack-unknown-id", unknown.where._replace(time=acks[0][2]), text, evidence)
