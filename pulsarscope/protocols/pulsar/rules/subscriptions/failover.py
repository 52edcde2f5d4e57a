"""Failover subscriptions whose active consumer changes repeatedly, and messages that two consumers get at such a change.

Brokers notify each consumer whether it is the active one. A consumer that becomes active again has come back; starts, and a restart of each
member, cause few such returns.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, NamedTuple

from pulsarscope.dissect.contract.rules import Fact, Handlers, KeyRule, ReportFinding, RuleContext, Where, where_of
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.records import FrameRow
from pulsarscope.model.text import duration
from pulsarscope.model.thresholds import Thresholds, counted, in_seconds
from pulsarscope.protocols.pulsar.message_ids import Position
from pulsarscope.protocols.pulsar.rules.evidence import SAMPLES_MAX, consumer_of, frame_names
from pulsarscope.protocols.pulsar.rules.subscriptions.consumers import ConsumerRule, ConsumerState
from pulsarscope.protocols.pulsar.text.formatting import host, listing

CODES = table(
    SESSION.warning(
        "failover-flapping",
        "The active consumer of a failover subscription changes again and again.",
        "Find the member that comes and goes, or give it a lower priority; each change delivers unacknowledged messages twice.",
        to_act="the consumer's application",
    ),
    SESSION.note(
        "delivered-to-both",
        "A consumer that became active got messages that the one before it still held.",
        "Both may process them: make processing idempotent, or acknowledge when a consumer is notified that it is no longer active.",
    ),
)

THRESHOLDS = (
    counted(
        "failover-flapping-returns",
        3,
        "returns",
        "Times that a consumer becomes active again; the restart of one member makes one.",
        "failover-flapping",
    ),
    in_seconds(
        "failover-flapping-pause-seconds",
        60,
        "Time between two changes; restarts by hand or by a scheduler are further apart.",
        "failover-flapping",
    ),
    in_seconds("failover-switch-seconds", 0.1, "Time within which a broker notifies all members of one change.", "failover-flapping"),
)

FAILOVER, JOIN, LEAVE, ACTIVE, STANDBY, RELEASED, TOOK = "failover", "join", "leave", "active", "standby", "released", "took"

SUBSCRIPTION_IDLE_NS = 600_000_000_000
"""Time without facts after which a subscription is evaluated."""


class FailoverRule(ConsumerRule[ConsumerState]):
    """The source of the facts on the active consumers of one connection."""

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context, ConsumerState)

    def opened(self, consumer: ConsumerState) -> None:
        """Emit that a consumer requests to be a member."""
        emit_change(self.context, consumer, self.context.last, JOIN)
        self._emit_beside(consumer, self.context.last, JOIN)

    def review(self, consumer: ConsumerState, now: int, *, ending: bool) -> None:  # noqa: ARG002 - the contract's
        """Emit that a consumer is no longer a member."""
        if ending and not self.open:
            emit_change(self.context, consumer, self.context.last, LEAVE)

    def _change(self, row: FrameRow) -> None:
        consumer = self.find(row)
        if consumer is not None:
            emit_change(self.context, consumer, where_of(row), ACTIVE if (row.fields or {}).get("is_active") else STANDBY)
        elif row.topic is not None and (row.fields or {}).get("is_active"):
            number = (row.fields or {}).get("consumer_id", -1)
            older = ConsumerState(number, row.topic, None, connection=self.context.connection, kind="Failover")
            self._emit_beside(older, where_of(row), ACTIVE)

    def _emit_beside(self, consumer: ConsumerState, where: Where, what: str) -> None:
        """Emit a change of, or beside, members from before the capture, whose topic and subscription are unknown."""
        if consumer.kind == "Failover":
            values = {**consumer.evidence, "name": _name(self.context, consumer)}
            self.context.emit_fact(FAILOVER, json.dumps([None, self.context.server]), where, what, values)

    frames: ClassVar[Handlers] = {**ConsumerRule.frames, "ACTIVE_CONSUMER_CHANGE": _change}


def _name(context: RuleContext, consumer: ConsumerState) -> str:
    return consumer.name or f"{consumer.number} of {host(context.client)}"


def emit_change(
    context: RuleContext, consumer: ConsumerState, where: Where, what: str, oldest: Position | None = None, newest: Position | None = None
) -> None:
    """Emit the state of a consumer after a change, with the entries that it held or got."""
    if consumer.topic is not None and consumer.kind == "Failover":
        values = {
            **consumer.evidence,
            "name": _name(context, consumer),
            "oldest": oldest,
            "newest": newest,
        }
        context.emit_fact(FAILOVER, json.dumps([consumer.topic, consumer.subscription]), where, what, values)


def evaluate_failover(key: str, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report an active consumer that changes again and again, and messages delivered to two."""
    if json.loads(key)[0] is None:
        for older in {consumer_of(fact): None for fact in facts if fact.what == ACTIVE}:
            _evaluate_changes([*_with_joins(older, facts)], report, thresholds)
        return
    _evaluate_changes([fact for fact in facts if fact.what in (JOIN, LEAVE, ACTIVE, STANDBY)], report, thresholds)
    _evaluate_deliveries(facts, report)


def _with_joins(older: tuple[str, int], facts: Iterable[Fact]) -> Iterator[Fact]:
    """Yield the joins, and each later activation of a member from before the capture: another member was active before it.

    A join may be on another topic; but without any join, the capture lacks the other member.
    """
    may_change = True
    for fact in facts:
        if fact.what == JOIN:
            may_change = True
            yield fact
        elif consumer_of(fact) == older and may_change:
            may_change = False
            yield fact


class ActiveChange(NamedTuple):
    """A consumer that became the active one."""

    name: str
    fact: Fact
    """Evidence: its notification, or that of the consumer that later took over from it."""


def _changes(facts: Sequence[Fact], switch_ns: int) -> list[ActiveChange]:
    """Return the changes of the active consumer, including those that the broker does not announce.

    A broker does not notify a consumer that is alone or only briefly active. But a consumer that is notified twice that it is active was on
    standby in between.
    """
    changes: list[ActiveChange] = []
    joined: dict[str, None] = {}
    """Members so far, the latest one last."""
    members: dict[str, tuple[str, int]] = {}
    """Members that have not left."""
    other: str | None = None
    """Another member, beside the active one."""
    latest: Fact | None = None
    for fact in facts:
        name = fact.values["name"]
        active = changes[-1] if changes else None
        if fact.what == JOIN:
            joined.pop(name, None)
            joined[name], members[name] = None, consumer_of(fact)
        elif fact.what == LEAVE:
            if members.get(name) == consumer_of(fact):
                del members[name]
        elif fact.what == STANDBY:
            other, latest = (name if active is None or name != active.name else _beside(name, members) or other), fact
        elif active is None or active.name != name:
            changes.append(ActiveChange(name, fact))
            other = latest.values["name"] if latest is not None and _is_within(latest, fact, switch_ns) else None
        elif consumer_of(active.fact) == consumer_of(fact):
            if _is_late_notification(active.fact, fact):
                changes[-1] = ActiveChange(name, fact)
            elif (beside := _beside(name, joined)) is not None and not _is_within(active.fact, fact, switch_ns):
                changes += [ActiveChange(beside, fact), ActiveChange(name, fact)]
        elif other is not None and other != name:
            changes += [ActiveChange(other, fact), ActiveChange(name, fact)]
            other = other if latest is not None and latest.values["name"] != name and _is_within(latest, fact, switch_ns) else None
    return changes


def _is_late_notification(before: Fact, after: Fact) -> bool:
    """Return True for a notification about a consumer that already got messages: brokers wait a second before they notify it."""
    return before.values.get("oldest") is not None and after.values.get("oldest") is None


def _beside(name: str, members: Iterable[str]) -> str | None:
    """Return the latest of the other members."""
    return next((member for member in reversed([*members]) if member != name), None)


def _is_within(before: Fact, after: Fact, time: int) -> bool:
    return after.where.time - before.where.time <= time


def _evaluate_changes(facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    runs: list[list[ActiveChange]] = [[]]
    """Changes that follow each other soon."""
    pause = thresholds.ns("failover-flapping-pause-seconds")
    for change in _changes(facts, thresholds.ns("failover-switch-seconds")):
        if runs[-1] and change.fact.where.time - runs[-1][-1].fact.where.time > pause:
            runs.append([])
        runs[-1].append(change)
    run = max(runs, key=len)
    names = list(dict.fromkeys(change.name for change in run))
    returns = len(run) - len(names)
    if returns < thresholds["failover-flapping-returns"] or _is_rolling_restart(facts, run):
        return
    first = run[0].fact
    values, span = first.values, run[-1].fact.where.time - first.where.time
    subscription = f"subscription {values['subscription']}" if values["subscription"] else "a subscription"
    text = f"The active consumer of {subscription} on {values['topic']} changed {len(run) - 1} times in "
    text += f"{duration(span)}, between consumers {listing(names)}."
    evidence = {
        "frames": frame_names(change.fact.where.name for change in run),
        "topic": values["topic"],
        "subscription": values["subscription"],
        "consumers": names[:SAMPLES_MAX],
        "changes": len(run) - 1,
        "returns": returns,
        "span_ns": span,
        **thresholds.evidence("failover-flapping-returns", "failover-flapping-pause-seconds"),
    }
    report("failover-flapping", first.where, text, evidence)


def _is_rolling_restart(facts: Sequence[Fact], run: Sequence[ActiveChange]) -> bool:
    """Return True when restarts explain the changes of a run, two for each, and no member restarted more than once."""
    began, ended = run[0].fact.where.time, run[-1].fact.where.time
    left: set[str] = set()
    restarts: Counter[str] = Counter()
    for fact in facts:
        name, time = fact.values["name"], fact.where.time
        if fact.what == LEAVE and time <= ended:
            left.add(name)
        elif fact.what == JOIN and name in left:
            left.remove(name)
            restarts[name] += time >= began
    return len(run) - 1 <= 2 * restarts.total() and max(restarts.values()) == 1


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
        text = f"Consumer {values['name']} of subscription {values['subscription']} on {values['topic']} became active and got "
        text += (
            f"{ledger}:{entry}, which {before.values['name']} still held{f'; this happened {len(both):,} times' if len(both) > 1 else ''}."
        )
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
