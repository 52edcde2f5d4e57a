"""Key_Shared consumers that joined and get nothing, because another one still holds what was delivered before.

To keep the order of a key, brokers give the joined consumer nothing of it until the earlier entries are acknowledged.
"""

from __future__ import annotations

from collections.abc import Sequence

from pulsarscope.dissect.rules import Fact, ReportFinding
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.thresholds import SECONDS, Threshold, Thresholds
from pulsarscope.protocols.pulsar.rules.stuck import HOLDING
from pulsarscope.protocols.pulsar.text.formatting import duration

CODES = table(
    SESSION.warning(
        "key-shared-blocked",
        "A consumer that joined a Key_Shared subscription gets nothing while another holds unacknowledged entries from before.",
        "Let the other consumer acknowledge or return its entries, or close it; a smaller receiver queue shortens this.",
    ),
)

THRESHOLDS = (
    Threshold("key-shared-blocked-seconds", 2.5, SECONDS, "Consumers that work acknowledge within this time.", ("key-shared-blocked",)),
)

JOINED = "joined"


def evaluate_blocked(topic: str, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report the joined consumers of a topic that got nothing of what its subscription did not get either."""
    joined = [fact for fact in facts if fact.what == JOINED]
    if not joined:
        return
    end = max(fact.values.get("seen", fact.where.time) for fact in facts)
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
        if rest < thresholds.ns("key-shared-blocked-seconds") or (holder.values["closed"] and holder.where.time < until):
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
