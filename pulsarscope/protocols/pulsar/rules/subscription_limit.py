"""Is a subscription blocked because all its consumers together hold too much unacknowledged?

Its code is that of a consumer which does not acknowledge (`unacked.py`, where the facts come from).
"""

from __future__ import annotations

from collections.abc import Sequence

from pulsarscope.dissect.rules import Fact, KeyRule, ReportFinding
from pulsarscope.protocols.pulsar.rules.phrases import count, frames

SUBSCRIPTION_LIMIT = 200_000
"""maxUnackedMessagesPerSubscription of the broker by default: all consumers of one together."""

TELL_STEP = 10_000
"""How much a consumer holds is told across connections in steps: a twentieth of that limit."""

SUBSCRIPTION_IDLE_NS = 600_000_000_000
"""A subscription of which nothing is told for ten minutes is judged."""


def evaluate_held(_: str, facts: Sequence[Fact], report: ReportFinding) -> None:
    """See `pulsarscope.dissect.rules.KeyRule`: what all consumers of a subscription hold together."""
    held: dict[tuple[str, int], Fact] = {}
    for fact in facts:
        held[fact.where.connection, fact.values["consumer_id"]] = fact
        total = sum(one.values["messages"] for one in held.values())
        if total >= SUBSCRIPTION_LIMIT:
            worst = max(held.values(), key=lambda one: int(one.values["messages"]))
            topic, subscription = fact.values["topic"], fact.values["subscription"]
            text = f"{count(len(held), 'consumer')} of subscription {subscription} on {topic} have {total:,} messages unacknowledged"
            text += f", {worst.values['messages']:,} of them {worst.values['consumer_name']}"
            text += f": the default limit of {SUBSCRIPTION_LIMIT:,} is reached, the broker sends no more."
            evidence = {
                "frames": frames(one.where.name for one in held.values()),
                "topic": topic,
                "subscription": subscription,
                "unacknowledged": total,
                "limit": SUBSCRIPTION_LIMIT,
                "act": "client",
            }
            report("consumer-not-acking", fact.where, text, evidence)
            return


HELD = "unacked"
KEYS = (KeyRule(HELD, SUBSCRIPTION_IDLE_NS, evaluate_held, early=True),)
