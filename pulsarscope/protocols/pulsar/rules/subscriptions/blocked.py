"""Key_Shared consumers that joined and get nothing because another consumer still holds earlier messages.

To keep the order of a key, brokers send its entries to the joined consumer only after the earlier entries are acknowledged.
"""

from __future__ import annotations

from collections.abc import Sequence

from pulsarscope.dissect.contract.rules import Fact, ReportFinding
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.text import duration
from pulsarscope.model.thresholds import Thresholds, counted, in_seconds
from pulsarscope.protocols.pulsar.rules.evidence import latest_seen
from pulsarscope.protocols.pulsar.rules.subscriptions.stuck import HOLDING

CODES = table(
    SESSION.warning(
        "key-shared-blocked",
        "A consumer that joined a Key_Shared subscription gets nothing while another holds unacknowledged entries from before.",
        "Let the other consumer acknowledge or return its entries, or close it; a smaller receiver queue shortens this.",
        to_act="the consumer's application",
    ),
)

THRESHOLDS = (
    in_seconds(
        "key-shared-blocked-seconds",
        2.5,
        "Age of the unacknowledged entry; a consumer that works acknowledges sooner.",
        "key-shared-blocked",
    ),
    in_seconds("key-shared-delivery-seconds", 1, "Time without a delivery; brokers deliver within milliseconds.", "key-shared-blocked"),
    counted("key-shared-blocked-entries", 5, "entries", "Entries that no consumer gets; a few may be on their way.", "key-shared-blocked"),
)

SPAN_MAX = 20_000
"""Entries of a ledger that are examined."""

JOINED, SHARED = "joined", "shared"


def evaluate_blocked(topic: str, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report the joined consumers of a topic that got nothing, although there were entries that no consumer of their subscription got."""
    _evaluate_shares(topic, [fact for fact in facts if fact.what == SHARED], facts, report, thresholds)
    joined = [fact for fact in facts if fact.what == JOINED]
    if not joined:
        return
    end = latest_seen(facts)
    for fact in joined:
        values = fact.values
        same = [other for other in facts if other.values.get("subscription") == values["subscription"]]
        reached = max((tuple(other.values["position"]) for other in same if other.what == "delivered"), default=(-1, -1))
        due = [other for other in facts if other.what == "published" and tuple(other.values["position"]) > reached]
        holders = [other for other in same if other.what == HOLDING and other.values["since"] < values["since"]]
        if not due or not holders:
            continue
        until = fact.where.time if values["closed"] else end
        rest = until - max(values["since"], due[0].where.time)
        holder = min(holders, key=lambda other: (other.values["oldest"], other.where))
        held = until - holder.values["since"]
        if rest < thresholds.ns("key-shared-delivery-seconds") or held < thresholds.ns("key-shared-blocked-seconds"):
            continue
        if holder.values["closed"] and holder.where.time < until:
            continue
        ledger, entry = holder.values["oldest"]
        text = f"{values['title']} joined and got nothing for {duration(rest)}, though the topic has {due[-1].values['position'][0]}:"
        text += f"{due[-1].values['position'][1]}: {holder.values['title']} holds {ledger}:{entry} from before it joined."
        evidence = {
            "frames": [holder.where.name, fact.where.name],
            "topic": topic,
            "subscription": values["subscription"],
            "consumer_name": values["consumer_name"],
            "holder": holder.values["consumer_name"],
            "message_id": [ledger, entry],
            "unacknowledged": holder.values["unacknowledged"],
            "blocked_ns": rest,
        }
        report("key-shared-blocked", fact.where._replace(time=values["since"]), text, evidence)


def _evaluate_shares(topic: str, shares: Sequence[Fact], facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report the entries that no consumer of a subscription got after one joined: brokers hold back keys that another consumer has."""
    least = thresholds.ns("key-shared-blocked-seconds")
    groups: dict[str, list[Fact]] = {}
    for fact in shares:
        groups.setdefault(fact.values["subscription"], []).append(fact)
    delivery = thresholds.ns("key-shared-delivery-seconds")
    end = latest_seen(facts)
    for group in groups.values():
        published = [tuple(fact.values["position"]) for fact in facts if fact.what == "published" and fact.where.time <= end - delivery]
        joined = max(group, key=lambda fact: fact.values["begun"])
        holders = [fact for fact in group if fact.values["held"] and fact.values["since"] < min(joined.values["begun"], end - least)]
        holders = holders if joined.values["begun"] <= end - delivery else []
        holders = [fact for fact in holders if not fact.values["closed"] or fact.where.time >= end - delivery]
        if not holders or not published:
            continue
        holder = min(holders, key=lambda fact: fact.values["since"])
        got = {tuple(entry) for fact in group for entry in fact.values["entries"]}
        ledger, newest = max(published)
        mine = [entry for number, entry in map(tuple, joined.values["entries"]) if number == ledger]
        delivered = {entry for number, entry in got if number == ledger}
        # No entry before it joined may be missing; otherwise the capture lacks another consumer of the subscription.
        begin = min(delivered, default=0)
        before = [
            tuple(fact.values["position"]) for fact in facts if fact.what == "published" and fact.where.time <= joined.values["begun"]
        ]
        join = min(mine, default=max((entry for number, entry in before if number == ledger), default=begin))
        missing = [entry for entry in range(join, min(newest, join + SPAN_MAX) + 1) if entry not in delivered]
        earlier = sum(entry not in delivered for entry in range(max(begin, join - SPAN_MAX), join))
        if len(missing) < thresholds["key-shared-blocked-entries"] or 2 * earlier > len(missing):
            continue
        held = holder.values["held"]
        text = f"{holder.values['title']} holds {held[0]}:{held[1]} and {holder.values['unacknowledged'] - 1:,} more from before "
        text += f"{joined.values['consumer_name']} joined: since then {len(missing):,} entries from {ledger}:{missing[0]} went to none."
        evidence = {
            "frames": [holder.where.name, joined.where.name],
            "topic": topic,
            "subscription": holder.values["subscription"],
            "consumer_name": joined.values["consumer_name"],
            "holder": holder.values["consumer_name"],
            "message_id": held,
            "unacknowledged": holder.values["unacknowledged"],
            "held_back": len(missing),
        }
        report("key-shared-blocked", joined.where._replace(time=joined.values["begun"]), text, evidence)
