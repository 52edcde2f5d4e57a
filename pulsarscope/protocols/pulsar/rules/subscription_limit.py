"""Subscriptions that are blocked because all their consumers together hold too many unacknowledged messages.

The finding has the code of a consumer that does not acknowledge (`unacked.py`, the source of the facts).
"""

from __future__ import annotations

from collections.abc import Sequence

from pulsarscope.dissect.rules import Fact, KeyRule, ReportFinding
from pulsarscope.protocols.pulsar.rules.evidence import frame_names
from pulsarscope.protocols.pulsar.text.formatting import quantity

SUBSCRIPTION_LIMIT = 200_000
"""maxUnackedMessagesPerSubscription of the broker by default, for all consumers of a subscription together."""

EMIT_STEP = 10_000
"""Change in a consumer's unacknowledged messages that makes a new fact: a twentieth of that limit."""

SUBSCRIPTION_IDLE_NS = 600_000_000_000
"""Time without facts after which a subscription is evaluated."""


def evaluate_unacked(_: str, facts: Sequence[Fact], report: ReportFinding) -> None:
    """Report a subscription when its consumers together reach the limit."""
    latest: dict[tuple[str, int], Fact] = {}
    for fact in facts:
        latest[fact.where.connection, fact.values["consumer_id"]] = fact
        total = sum(held.values["messages"] for held in latest.values())
        if total >= SUBSCRIPTION_LIMIT:
            worst = max(latest.values(), key=lambda held: int(held.values["messages"])).values
            topic, subscription = fact.values["topic"], fact.values["subscription"]
            text = f"{quantity(len(latest), 'consumer')} of subscription {subscription} on {topic} have {total:,} messages unacknowledged"
            text += f", {worst['messages']:,} of them {worst['consumer_name']}"
            text += f": the default limit of {SUBSCRIPTION_LIMIT:,} is reached, the broker sends no more."
            evidence = {
                "frames": frame_names(held.where.name for held in latest.values()),
                "topic": topic,
                "subscription": subscription,
                "unacknowledged": total,
                "limit": SUBSCRIPTION_LIMIT,
                "act": "client",
            }
            report("consumer-not-acking", fact.where, text, evidence)
            return


UNACKED = "unacked"
KEYS = (KeyRule(UNACKED, SUBSCRIPTION_IDLE_NS, evaluate_unacked, early=True),)
