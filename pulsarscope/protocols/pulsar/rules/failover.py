"""Failover subscriptions whose active consumer changes again and again, and messages that two of them get at a change.

Brokers tell each consumer whether it is the active one. A consumer that was active before and is so again came back: starts, and a
restart of each member, make few of these.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import ClassVar

from pulsarscope.dissect.rules import Fact, Handlers, KeyRule, ReportFinding, RuleContext, Where, where_of
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.records import FrameRow
from pulsarscope.model.text import plural
from pulsarscope.model.thresholds import SECONDS, Threshold, Thresholds
from pulsarscope.protocols.pulsar.rules.consumers import ConsumerRule, ConsumerState
from pulsarscope.protocols.pulsar.rules.evidence import frame_names
from pulsarscope.protocols.pulsar.rules.message_ids import Position
from pulsarscope.protocols.pulsar.text.formatting import duration, host, listing

CODES = table(
    SESSION.warning(
        "failover-flapping",
        "The active consumer of a failover subscription changes again and again.",
        "Find the member that comes and goes, or give it a lower priority; each change delivers unacknowledged messages twice.",
    ),
    SESSION.note(
        "delivered-to-both",
        "A consumer that became active got messages that the one before it still held.",
        "Both may process them: make processing idempotent, or acknowledge when a consumer is told that it is no longer active.",
    ),
)

THRESHOLDS = (
    Threshold(
        "failover-flapping-returns",
        3,
        "returns",
        "Of consumers that were active before; a restart of one member makes one.",
        ("failover-flapping",),
        1,
    ),
    Threshold(
        "failover-flapping-pause-seconds",
        60,
        SECONDS,
        "Longer between two changes: restarts by hand, or of a scheduler.",
        ("failover-flapping",),
    ),
)

FAILOVER, ACTIVE, STANDBY, RELEASED, TOOK = "failover", "active", "standby", "released", "took"

SUBSCRIPTION_IDLE_NS = 600_000_000_000
"""Time without facts after which a subscription is evaluated."""


class FailoverRule(ConsumerRule[ConsumerState]):
    """Source of the facts on the active consumers of one connection."""

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context, ConsumerState)

    def _change(self, row: FrameRow) -> None:
        consumer = self.find(row)
        if consumer is not None:
            emit_change(self.context, consumer, where_of(row), ACTIVE if (row.fields or {}).get("is_active") else STANDBY)

    frames: ClassVar[Handlers] = {**ConsumerRule.frames, "ACTIVE_CONSUMER_CHANGE": _change}


def emit_change(
    context: RuleContext, consumer: ConsumerState, where: Where, what: str, oldest: Position | None = None, newest: Position | None = None
) -> None:
    """Emit what became of a consumer at a change, with the entries that it held or got."""
    if consumer.topic is not None and consumer.kind == "Failover":
        values = {
            **consumer.evidence,
            "name": consumer.name or f"{host(context.client)} {consumer.number}",
            "oldest": oldest,
            "newest": newest,
        }
        context.emit_fact(FAILOVER, json.dumps([consumer.topic, consumer.subscription]), where, what, values)


def evaluate_failover(_: str, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report an active consumer that changes again and again, and messages delivered to two."""
    _evaluate_changes([fact for fact in facts if fact.what in (ACTIVE, STANDBY)], report, thresholds)
    _evaluate_deliveries(facts, report)


def _evaluate_changes(facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    changes: list[Fact] = []
    runs: list[list[Fact]] = [[]]
    """Changes that follow each other soon."""
    beside = False
    """Another member was told meanwhile that it is not the active one."""
    for fact in facts:
        is_same = bool(changes) and fact.values["name"] == changes[-1].values["name"]
        if fact.what == STANDBY:
            beside = beside or not is_same
            continue
        if is_same and not (beside and _identity(fact) != _identity(changes[-1])):
            continue  # the same consumer, or the only one
        beside = False
        if changes and fact.where.time - changes[-1].where.time > thresholds.ns("failover-flapping-pause-seconds"):
            runs.append([])
        changes.append(fact)
        runs[-1].append(fact)
    run = max(runs, key=len)
    names = list(dict.fromkeys(fact.values["name"] for fact in run))
    returns = len(run) - len(names)
    if returns < thresholds["failover-flapping-returns"]:
        return
    values, span = run[0].values, run[-1].where.time - run[0].where.time
    text = f"The active consumer of subscription {values['subscription']} on {values['topic']} changed {len(run) - 1} times in "
    text += f"{duration(span)}, between {listing(names)}."
    evidence = {
        "frames": frame_names(fact.where.name for fact in run),
        "topic": values["topic"],
        "subscription": values["subscription"],
        "consumers": names[:10],
        "changes": len(run) - 1,
        "returns": returns,
        "span_ns": span,
        **thresholds.evidence("failover-flapping-returns", "failover-flapping-pause-seconds"),
    }
    report("failover-flapping", run[0].where, text, evidence)


def _identity(fact: Fact) -> tuple[str, int]:
    return fact.where.connection, fact.values["consumer_id"]


def _evaluate_deliveries(facts: Sequence[Fact], report: ReportFinding) -> None:
    held: Fact | None = None
    both: list[tuple[Fact, Fact]] = []
    for fact in facts:
        if fact.what == RELEASED:
            held = fact
        elif fact.what == TOOK and held is not None and fact.values["name"] != held.values["name"]:
            if tuple(fact.values["oldest"]) <= tuple(held.values["newest"]):
                both.append((held, fact))
            held = None
    if both:
        before, after = both[0]
        values, (ledger, entry) = after.values, after.values["oldest"]
        text = f"{values['name']} of subscription {values['subscription']} on {values['topic']} became active and got {ledger}:{entry}, "
        text += f"which {before.values['name']} held and was not done with; this happened {plural(len(both), 'time')}."
        evidence = {
            "frames": frame_names(fact.where.name for pair in both for fact in pair),
            "topic": values["topic"],
            "subscription": values["subscription"],
            "consumers": [before.values["name"], values["name"]],
            "message_id": [ledger, entry],
            "count": len(both),
        }
        report("delivered-to-both", after.where, text, evidence)


KEYS = (KeyRule(FAILOVER, SUBSCRIPTION_IDLE_NS, evaluate_failover, early=True),)
