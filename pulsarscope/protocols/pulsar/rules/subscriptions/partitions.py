"""Partitions of one topic that behave differently from the others."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import msgspec

from pulsarscope.dissect.contract.rules import Fact, KeyRule, ReportFinding, RuleContext, Where
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import Thresholds, counted, in_seconds
from pulsarscope.protocols.pulsar.message_ids import Position
from pulsarscope.protocols.pulsar.rules.evidence import frame_names
from pulsarscope.protocols.pulsar.rules.subscriptions.consumers import ConsumerState

CODES = table(
    SESSION.warning(
        "partition-stuck",
        "A consumer with permits gets nothing from one partition, though messages are published to it and other partitions deliver.",
        "Look at the stats of that partition, at its bundle and broker, and unload it.",
        to_act="the broker's operators",
    ),
    SESSION.note(
        "partition-skew",
        "One partition of a topic gets most of the messages.",
        "Few keys, or one very busy key, do this; without keys, look at the routing mode of the producers.",
    ),
)

THRESHOLDS = (
    in_seconds(
        "partition-stuck-seconds", 2.5, "Time without a delivery from a partition after messages were published to it.", "partition-stuck"
    ),
    counted(
        "partition-stuck-entries",
        5,
        "entries",
        "Entries published to the stuck partition, and entries that its siblings deliver.",
        "partition-stuck",
    ),
    counted(
        "partition-skew-entries",
        100,
        "entries",
        "Entries published to all partitions; the batches of a producer go to one partition.",
        "partition-skew",
    ),
    counted(
        "partition-skew-share", 0.8, "of all", "Share of one partition among at least three that have producers.", "partition-skew", least=0
    ),
)

PARTITIONS, PUBLISHED, CONSUMED = "partitions", "published", "consumed"
SUFFIX = "-partition-"

TOPIC_IDLE_NS = 600_000_000_000
"""Time without facts after which a topic is evaluated."""

COURSE_MAX = 100
"""Most receipts kept for one partition."""

COURSE_EMIT_NS = 500_000_000
"""Minimum time between kept receipts at first; it doubles whenever there are too many."""


class PartitionReceipts(msgspec.Struct):
    """Receipts of one partition: the first, their number, and a sample over the whole time."""

    first: Where
    count: int = 0
    course: list[tuple[int, Position]] = msgspec.field(default_factory=list)
    """Times and entries of receipts."""
    every_ns: int = COURSE_EMIT_NS
    """Minimum time between the receipts of `course`."""

    def add(self, where: Where, position: Position) -> None:
        """Add a receipt."""
        self.count += 1
        if self.course and where.time - self.course[-1][0] < self.every_ns:
            return
        self.course.append((where.time, position))
        if len(self.course) > COURSE_MAX:
            del self.course[1::2]
            self.every_ns *= 2


def emit_consumed(context: RuleContext, consumer: ConsumerState, ready: Where, got: dict[str, Any]) -> None:
    """Emit the deliveries to a consumer of a partition."""
    base, suffix, _ = (consumer.topic or "").rpartition(SUFFIX)
    if suffix:
        values = {"topic": consumer.topic, "subscription": consumer.subscription, "kind": consumer.kind, "lost": context.lost}
        context.emit_fact(PARTITIONS, base, ready, CONSUMED, values | got)


def evaluate_partitions(key: str, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report partitions that got most messages, and partitions that deliver none."""
    published: Counter[str] = Counter()
    first: dict[str, Fact] = {}
    consumers: dict[str, list[Fact]] = defaultdict(list)
    for fact in facts:
        if fact.what == PUBLISHED:
            published[fact.values["topic"]] += fact.values["count"]
            first.setdefault(fact.values["topic"], fact)
        else:
            consumers[fact.values["subscription"]].append(fact)
    for group in consumers.values():
        published.update(dict.fromkeys((fact.values["topic"] for fact in group), 0))
    _evaluate_skew(key, published, first, report, thresholds)
    end = max(fact.values["seen"] for fact in facts)
    for subscription, group in consumers.items():
        delivered: Counter[str] = Counter()
        for fact in group:
            delivered[fact.values["topic"]] += fact.values["delivered"]
        for fact in group:
            topic, begin = fact.values["topic"], first.get(fact.values["topic"])
            if begin is None or delivered[topic] or fact.values["permits"] <= 0 or fact.values["lost"]:
                continue
            since = max(begin.where.time, fact.where.time, fact.values["active_at"])
            rest = (fact.values["seen"] if fact.values["closed"] else end) - since
            least = thresholds["partition-stuck-entries"]
            # The subscription may begin after messages that were published before it.
            enough = begin.where.time >= fact.where.time and published[topic] >= least and delivered.total() >= least
            if enough and rest >= thresholds.ns("partition-stuck-seconds"):
                text = f"{topic} delivered nothing to subscription {subscription} for {duration(rest)}, though {published[topic]:,} "
                text += f"entries were published to it and the other partitions delivered {delivered.total():,}."
                evidence = {
                    "frames": [begin.where.name, fact.where.name],
                    "topic": topic,
                    "subscription": subscription,
                    "published": published[topic],
                    "delivered_by_others": delivered.total(),
                    "rest_ns": rest,
                }
                report("partition-stuck", fact.where, text, evidence)
        _evaluate_stopped(subscription, group, facts, end, report, thresholds)


def _evaluate_stopped(
    subscription: str, group: Sequence[Fact], facts: Sequence[Fact], end: int, report: ReportFinding, thresholds: Thresholds
) -> None:
    """Report the partitions that delivered at first and then stopped, while others went on."""
    latest: dict[str, tuple[Where, Fact]] = {}
    for fact in group:
        topic, at = fact.values["topic"], fact.values["last_at"]
        if at is not None and (topic not in latest or latest[topic][0].time < Where(*at).time):
            latest[topic] = Where(*at), fact
    patience, least = thresholds.ns("partition-stuck-seconds"), thresholds["partition-stuck-entries"]
    for topic, (where, fact) in latest.items():
        last = fact.values["last"]
        members = [other.values for other in group if other.values["topic"] == topic and not other.values["standby"]]
        if not members or any(member["permits"] <= 0 or member["lost"] or member["kind"] == "Key_Shared" for member in members):
            continue
        until = max(member["seen"] if member["closed"] else end for member in members)
        due = [
            position[1]
            for other in facts
            if other.what == PUBLISHED and other.values["topic"] == topic
            for time, position in other.values["course"]
            if position[0] == last[0] and time <= until - patience
        ]
        behind = max(due, default=last[1]) - last[1]
        since = max(where.time, *(member["active_at"] for member in members))
        served = [other.name for name, (other, _) in latest.items() if name != topic and other.time >= since + patience]
        if behind < least or until - since < patience or not served:
            continue
        rest = duration(until - since)
        text = f"{topic} delivered nothing to subscription {subscription} for the last {rest}, though {behind:,} entries or more were "
        text += f"published to it since, and {plural(len(served), 'other partition')} delivered meanwhile."
        evidence = {
            "frames": frame_names([where.name, *served]),
            "topic": topic,
            "subscription": subscription,
            "published": behind,
            "last_delivered": list(last),
            "rest_ns": until - since,
            **thresholds.evidence("partition-stuck-seconds", "partition-stuck-entries"),
        }
        report("partition-stuck", where, text, evidence)


def _evaluate_skew(key: str, published: Counter[str], first: dict[str, Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    total = published.total()
    if len(published) < 3 or total < thresholds["partition-skew-entries"]:
        return
    (topic, most), *_ = published.most_common(1)
    if most >= thresholds["partition-skew-share"] * total:
        text = f"{topic} got {most:,} of the {total:,} entries that were published to {len(published)} partitions of {key}."
        evidence = {
            "frames": frame_names([first[topic].where.name]),
            "topic": key,
            "partition": topic,
            "published": dict(published.most_common(10)),
            "count": total,
        }
        report("partition-skew", first[topic].where, text, evidence)


KEYS = (KeyRule(PARTITIONS, TOPIC_IDLE_NS, evaluate_partitions),)
