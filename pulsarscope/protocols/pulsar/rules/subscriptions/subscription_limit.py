"""Subscriptions that are blocked because all their consumers together hold too many unacknowledged messages.

The finding has the code of a consumer that does not acknowledge (`unacked.py`, the source of the facts).
"""

from __future__ import annotations

from collections.abc import Sequence

from pulsarscope.dissect.contract.rules import Fact, KeyRule, ReportFinding
from pulsarscope.model.text import plural
from pulsarscope.model.thresholds import Thresholds, counted
from pulsarscope.protocols.pulsar.rules.evidence import consumer_of, frame_names

THRESHOLDS = (
    counted(
        "consumer-not-acking-subscription-limit",
        200_000,
        "messages",
        "Unacknowledged messages at which the broker stops a whole subscription: maxUnackedMessagesPerSubscription, by default.",
        "consumer-not-acking",
    ),
)

EMIT_STEP = 10_000
"""Change in a consumer's unacknowledged messages that causes a new fact: a twentieth of the default limit."""

SUBSCRIPTION_IDLE_NS = 600_000_000_000
"""Time without facts after which a subscription is evaluated."""


def evaluate_unacked(_: str, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report a subscription whose consumers together reach the limit."""
    latest: dict[tuple[str, int], Fact] = {}
    limit = thresholds["consumer-not-acking-subscription-limit"]
    for fact in facts:
        latest[consumer_of(fact)] = fact
        total = sum(held.values["messages"] for held in latest.values())
        if total >= limit:
            worst = max(latest.values(), key=lambda held: int(held.values["messages"])).values
            topic, subscription = fact.values["topic"], fact.values["subscription"]
            text = f"{plural(len(latest), 'consumer')} of subscription {subscription} on {topic} have {total:,} messages unacknowledged"
            text += f", {worst['messages']:,} of them {worst['consumer_name']}"
            text += f": the default limit of {limit:,} is reached, the broker sends no more."
            evidence = {
                "frames": frame_names(held.where.name for held in latest.values()),
                "topic": topic,
                "subscription": subscription,
                "unacknowledged": total,
                "limit": limit,
                "act": "client",
                **thresholds.evidence("consumer-not-acking-subscription-limit"),
            }
            report("consumer-not-acking", fact.where, text, evidence)
            return


UNACKED = "unacked"
KEYS = (KeyRule(UNACKED, SUBSCRIPTION_IDLE_NS, evaluate_unacked, early=True),)
