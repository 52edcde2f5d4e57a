"""Acknowledgements of messages that the consumer never got."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from pulsarscope.dissect.contract.rules import Fact, ReportFinding, RuleContext, Where
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.text import plural
from pulsarscope.model.thresholds import Thresholds, in_seconds
from pulsarscope.protocols.pulsar.message_ids import Position, position_of
from pulsarscope.protocols.pulsar.rules.evidence import SAMPLES_MAX, add_sample, consumer_of, frame_names
from pulsarscope.protocols.pulsar.rules.subscriptions.consumers import ConsumerState
from pulsarscope.protocols.pulsar.rules.subscriptions.spans import SPANS
from pulsarscope.protocols.pulsar.text.formatting import host, listing

CODES = table(
    SESSION.warning(
        "ack-unknown-id",
        "A consumer acknowledged a message that it never got.",
        "The broker accepts it: a message with this id, now or later, counts as acknowledged and is not delivered. Look at how the "
        "application stores message ids, and for which topic and subscription.",
        to_act="the consumer's application",
    ),
)

NO_ID = (1 << 63) - 1
"""Ledgers or entries from here on are not real: they stand for the latest message, or are negative numbers."""

UNKNOWN = "unknown"
"""Kind of a fact of a topic: acknowledged ids outside everything that the connection delivered to the subscription."""


IDLE = "idle"
"""Kind of a fact of a topic: acknowledged ids of a consumer that got nothing."""

THRESHOLDS = (
    in_seconds(
        "ack-unknown-id-seconds",
        0.4,
        "Time without a message, although the consumer has permits, and time by which the ACK precedes the publication of "
        "earlier entries; brokers deliver messages from before the capture within milliseconds.",
        "ack-unknown-id",
    ),
)


class Extent(msgspec.Struct):
    """Lowest and highest entry that a connection delivered to a subscription."""

    low: Position
    high: Position

    def extend(self, first: Position, last: Position) -> None:
        """Add entries whose positions are ascending."""
        self.low, self.high = min(self.low, first), max(self.high, last)

    def spans(self, position: Position) -> bool:
        """Return True when the entry may have been delivered."""
        return self.low <= position <= self.high


class UnknownAcks(msgspec.Struct):
    """The acknowledged ids of a consumer outside the entries that it had got by then."""

    extent: Extent
    attached: bool = False
    """True when the capture lacks its SUBSCRIBE: it may have earlier messages."""
    acks: list[tuple[Where, Position]] = msgspec.field(default_factory=list)

    def note(self, where: Where, position: Position, fields: Mapping[str, Any]) -> None:
        """Note an id that is not among the unacknowledged ones; most such ids were acknowledged before."""
        if self.extent.spans(position) or len(self.acks) >= SAMPLES_MAX or "validation_error" in fields:
            return
        # A cumulative ACK within the first batch names the entry before it.
        is_earlier = fields.get("ack_type") == "Cumulative" and position < self.extent.low
        if not is_earlier and max(position) < NO_ID and not (self.attached and position < self.extent.low):
            self.acks.append((where, position))

    def emit(self, context: RuleContext, rule: str, consumer: ConsumerState, now: int) -> None:
        """Emit the ids that were not delivered later, either: a reconnecting client may acknowledge before the redelivery."""
        acks = [(where, position) for where, position in self.acks if not self.extent.spans(position)]
        if not acks or consumer.topic is None:
            return
        values = {
            **consumer.evidence,
            "title": consumer.title,
            "ids": [position for _, position in acks],
            "frames": [where.name for where, _ in acks],
            "times": [where.time for where, _ in acks],
            "unseen": context.lost or consumer.ready is None,
            "server": host(context.server),
            "low": self.extent.low,
            "high": self.extent.high,
        }
        context.emit_fact(rule, consumer.topic, acks[0][0]._replace(time=now), UNKNOWN, values)


class IdleAcks(msgspec.Struct):
    """The ACKs of a consumer that has got nothing."""

    flowed: int = 0
    """Time of its first FLOW in nanoseconds; 0: it has no permits."""
    acks: list[tuple[Where, Position]] = msgspec.field(default_factory=list)

    def note(self, where: Where, fields: Mapping[str, Any]) -> None:
        """Note an ACK."""
        if "validation_error" not in fields:
            for position in map(position_of, fields.get("message_id") or ()):
                if max(position) < NO_ID:
                    add_sample(self.acks, (where, position))

    def emit(self, context: RuleContext, rule: str, consumer: ConsumerState, now: int) -> None:
        """Emit the acknowledged ids."""
        if not self.acks or context.lost or consumer.topic is None or consumer.ready is None:
            return
        values = {
            **consumer.evidence,
            "title": consumer.title,
            "kind": consumer.kind,
            "ids": [position for _, position in self.acks],
            "frames": [where.name for where, _ in self.acks],
            "times": [where.time for where, _ in self.acks],
            "flowed": self.flowed,
            "server": host(context.server),
        }
        context.emit_fact(rule, consumer.topic, self.acks[0][0]._replace(time=now), IDLE, values)


def _evaluate_idle(topic: str, idle: Fact, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report ids that the consumer cannot have from an earlier connection.

    The broker would have redelivered them; or they are beyond the topic's last entry; or they were published within the capture and
    delivered to no consumer.
    """
    values = idle.values
    subscription, server = values["subscription"], values["server"]
    delivered = [fact for fact in facts if fact.what == "delivered" and fact.values["subscription"] == subscription]
    furthest = max((tuple(fact.values["position"]) for fact in delivered), default=(-1, -1))
    published = [tuple(fact.values["position"]) for fact in facts if fact.what == "published" and fact.values["server"] == server]
    known = []
    for ident, frame, time in zip(values["ids"], values["frames"], values["times"], strict=True):
        is_due = values["kind"] in ("Exclusive", "Shared") and values["flowed"] and not delivered
        waited = is_due and time - values["flowed"] >= thresholds.ns("ack-unknown-id-seconds")
        if tuple(ident) > furthest and (waited or (published and tuple(ident) >= min(published))):
            known.append((ident, frame, time))
    if not known:
        return
    ids = listing([f"{ledger}:{entry}" for (ledger, entry), _, _ in known])
    text = f"{values['title']} acknowledged {plural(len(known), 'message')} though it got none: {ids}."
    evidence = _evidence(topic, values, [frame for _, frame, _ in known], [ident for ident, _, _ in known], None)
    evidence |= thresholds.evidence("ack-unknown-id-seconds")
    report("ack-unknown-id", idle.where._replace(time=known[0][2]), text, evidence)


def _evidence(
    topic: str, consumer: Mapping[str, Any], frames: list[str], ids: Iterable[Sequence[int]], delivered: list[list[int]] | None
) -> dict[str, Any]:
    """Return the evidence about a consumer that acknowledged ids with these frames; `delivered`: the lowest and the highest that it got."""
    return {
        "frames": frames,
        "topic": topic,
        "subscription": consumer["subscription"],
        "consumer_id": consumer["consumer_id"],
        "consumer_name": consumer["consumer_name"],
        "message_ids": list(map(list, ids)),
        "delivered": delivered,
    }


def _is_ahead(ident: Sequence[int], time: int, receipts: Sequence[Fact]) -> bool:
    """Return True if the topic had not reached the id by then: an entry before it, here or in an earlier ledger, was published later."""
    return any(fact.where.time > time and tuple(fact.values["position"]) < tuple(ident) for fact in receipts)


def _holder(position: Sequence[int], time: int, shares: Sequence[Fact]) -> Fact | None:
    """Return the first share whose consumer got an entry before a time, and was still open then."""
    for share in shares:
        has = any(span[0] == position[0] and span[1] <= position[1] <= span[2] and span[3][4] < time for span in share.values["spans"])
        if has and (not share.values["closed"] or share.where.time > time):
            return share
    return None


def _evaluate_foreign(topic: str, shares: Sequence[Fact], report: ReportFinding) -> None:
    """Report entries that a Shared or Key_Shared consumer acknowledged although another consumer, which is still open, has them."""
    for share in shares:
        if not share.values["foreign"] or share.values["undecided"]:
            continue
        values = share.values
        others = [
            other
            for other in shares
            if consumer_of(other) != consumer_of(share) and all(other.values[name] == values[name] for name in ("subscription", "server"))
        ]
        acks = [(position, Where(*place)) for position, place in values["foreign"]]
        known = [(*ack, holder) for ack in acks if (holder := _holder(ack[0], ack[1].time, others)) is not None]
        if not known:
            continue
        ids = listing([f"{ledger}:{entry}" for (ledger, entry), _, _ in known])
        text = f"{values['title']} acknowledged {plural(len(known), 'message')} that it never got: {ids}; consumer "
        text += f"{known[0][2].values['consumer_name']} of the same subscription did, and is still there."
        evidence = _evidence(
            topic, values, frame_names([where.name for _, where, _ in known]), [position for position, _, _ in known], None
        )
        report("ack-unknown-id", known[0][1], text, evidence)


def evaluate_unknown(topic: str, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report ids that no other connection delivered to the subscription earlier, such as to the same client before it reconnected."""
    _evaluate_foreign(topic, [fact for fact in facts if fact.what == SPANS], report)
    for unknown in facts:
        if unknown.what == IDLE:
            _evaluate_idle(topic, unknown, facts, report, thresholds)
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
        if values["unseen"]:  # it may have got any message that was published by then
            receipts = [fact for fact in facts if fact.what == "published" and fact.values["server"] == values["server"]]
            margin = thresholds.ns("ack-unknown-id-seconds")
            acks = [(ident, frame, time) for ident, frame, time in acks if _is_ahead(ident, time + margin, receipts)]
        if not acks:
            continue
        ids = listing([f"{ledger}:{entry}" for (ledger, entry), _, _ in acks])
        low, high = (f"{ledger}:{entry}" for ledger, entry in (values["low"], values["high"]))
        text = f"{values['title']} acknowledged {plural(len(acks), 'message')} that it never got: {ids}; it got {low} to {high}."
        delivered = [list(values["low"]), list(values["high"])]
        evidence = _evidence(topic, values, [frame for _, frame, _ in acks], [ident for ident, _, _ in acks], delivered)
        report("ack-unknown-id", unknown.where._replace(time=acks[0][2]), text, evidence)
