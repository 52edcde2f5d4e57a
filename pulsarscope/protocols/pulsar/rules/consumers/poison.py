"""Messages that every consumer gets and leaves unacknowledged.

A client that cannot process a message often crashes or leaves, and the next one gets the same message first. Each consumer that ends like
this is a fact under topic and subscription, with the oldest entry that it left. A client that processes messages before it leaves has a
different oldest entry each time.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pulsarscope.dissect.contract.rules import Fact, KeyRule, ReportFinding, RuleContext
from pulsarscope.model.flow import SERVER
from pulsarscope.model.limits import DIAGNOSIS_NAMES_MAX
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import Thresholds, counted
from pulsarscope.protocols.pulsar.rules.consumers.held import UnackedState
from pulsarscope.protocols.pulsar.rules.evidence import SAMPLES_MAX, frame_names
from pulsarscope.protocols.pulsar.text.formatting import host, listing

THRESHOLDS = (
    counted(
        "redelivery-storm-lives",
        4,
        "consumers",
        "Consumers in a row that leave the same entry unacknowledged; a rolling restart costs one or two.",
        "redelivery-storm",
        least=2,
    ),
    counted(
        "redelivery-storm-passed-over",
        3,
        "consumers",
        "Consumers that leave the same entry unacknowledged, of which all but the first acknowledge what is behind it.",
        "redelivery-storm",
        least=2,
    ),
    counted(
        "consumer-undecided-lives",
        3,
        "consumers",
        "Consumers of one host that leave the same entry unacknowledged and acknowledge nothing else.",
        "consumer-undecided",
        least=2,
    ),
)

POISON = "left-unacknowledged"

SUBSCRIPTION_IDLE_NS = 600_000_000_000
"""Time without facts after which a subscription is evaluated: ten of a client's longest waits before it reconnects."""


def emit_left_entry(context: RuleContext, consumer: UnackedState, now: int, ended: str | None) -> None:
    """Emit the oldest entry that a consumer leaves unacknowledged, unless the broker closed it: after a SEEK, or for an unload.

    `ended`: how the connection ended, once it has.
    """
    if consumer.subscription is None or consumer.closed_by == SERVER:
        return
    position, oldest = next(iter(consumer.entries.items()))
    values = {
        "oldest": position,
        "unacknowledged": consumer.messages,
        "acks": consumer.acks,
        "passed_over": consumer.later > 0,
        "client": host(context.client),
        "ended": now,
        "closed": ended,
    }
    context.emit_fact(POISON, json.dumps([consumer.topic, consumer.subscription]), oldest.where, "left", values)


def evaluate_poison(key: str, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report the entry that most consumers of a subscription got and left unacknowledged."""
    topic, subscription = json.loads(key)
    lives: dict[tuple[int, int], list[Fact]] = {}
    for fact in facts:
        lives.setdefault(tuple(fact.values["oldest"]), []).append(fact)
    (ledger, entry), left = max(lives.items(), key=lambda item: len(item[1]))
    clients = list(dict.fromkeys(fact.values["client"] for fact in left))
    idle = len(clients) == 1 and not any(fact.values["acks"] for fact in left)
    passed_over = sum(fact.values["passed_over"] for fact in left)
    enough = len(left) >= thresholds["redelivery-storm-lives"]
    enough |= len(left) >= thresholds["redelivery-storm-passed-over"] and passed_over >= len(left) - 1
    if not enough and not (idle and len(left) >= thresholds["consumer-undecided-lives"]):
        return
    first, last = left[0], left[-1]
    span = last.values["ended"] - first.where.time
    connections = list(dict.fromkeys(fact.where.connection for fact in left))
    ends = {fact.values["closed"] for fact in left}
    how = " or ".join(sorted(end.upper() for end in ends if end)) or "CLOSE_CONSUMER"
    text = (
        f"{plural(len(left), 'consumer')} of subscription {subscription} on {topic} got {ledger}:{entry} in {duration(span)} on "
        f"{plural(len(connections), 'connection')} of {listing(clients)}, and each left by {how} without acknowledging it."
    )
    evidence = {
        "frames": frame_names(fact.where.name for fact in left),
        "topic": topic,
        "subscription": subscription,
        "clients": clients[:SAMPLES_MAX],
        "message_id": [ledger, entry],
        "count": len(left),
        "connections": connections[:DIAGNOSIS_NAMES_MAX],
        "most_unacknowledged": max(fact.values["unacknowledged"] for fact in left),
        "span_ns": span,
        "act": "client",
        "passed_over": passed_over,
        **thresholds.evidence(*("redelivery-storm-lives", "redelivery-storm-passed-over") if enough else ("consumer-undecided-lives",)),
    }
    if not enough:
        report("consumer-undecided", last.where, text, evidence)
        return
    report("redelivery-storm", last.where, text, evidence)
    _report_loops(left, evidence, report, thresholds)


def _report_loops(left: Sequence[Fact], evidence: dict[str, Any], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report the clients that came repeatedly for this entry and closed properly. Clients that sent a RST are reported with all resets."""
    attempts: dict[str, dict[str, Fact]] = {}
    for fact in left:
        if fact.values["closed"] != "rst":
            attempts.setdefault(fact.values["client"], {})[fact.where.connection] = fact
    for client, connections in attempts.items():
        if len(connections) >= thresholds["reconnect-loop-failures"]:
            facts = [*connections.values()]
            ledger, entry = evidence["message_id"]
            span = facts[-1].values["ended"] - facts[0].where.time
            text = (
                f"{client} connected {len(facts):,} times in {duration(span)} and left each time after it got {ledger}:{entry} of "
                f"{evidence['topic']}, which it never acknowledged."
            )
            details = {
                **evidence,
                "frames": frame_names(fact.where.name for fact in facts),
                "connections": [*connections][:DIAGNOSIS_NAMES_MAX],
                "count": len(facts),
                "span_ns": span,
                **thresholds.evidence("reconnect-loop-failures"),
            }
            report("reconnect-loop", facts[0].where, text, details)


KEYS = (KeyRule(POISON, SUBSCRIPTION_IDLE_NS, evaluate_poison, early=True),)
