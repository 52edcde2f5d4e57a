"""Messages with a time of delivery: delivered at once, too early or too late.

Like the publish time, that time is by the producer's clock. The SEND shows the offset of that clock from the capture's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from pulsarscope.dissect.contract.rules import Fact, KeyRule, ReportFinding, RuleContext, where_of
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.records import FrameRow
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import Thresholds, in_seconds
from pulsarscope.model.units import MILLISECOND
from pulsarscope.protocols.pulsar.message_ids import position_of
from pulsarscope.protocols.pulsar.rules.evidence import frame_names
from pulsarscope.protocols.pulsar.rules.subscriptions.consumers import SHARED_TYPES, ConsumerState

CODES = table(
    SESSION.warning(
        "delay-ignored",
        "A message was delivered at once, though its producer asked for a later time.",
        "Only Shared and Key_Shared subscriptions delay; for these, look at delayedDeliveryEnabled of the broker and namespace.",
        to_act="the application, or the broker's operators",
    ),
    SESSION.warning(
        "delay-early",
        "A message was delivered well before the time that its producer asked for.",
        "Brokers may be a tick early, 1 s by default: look at delayedDeliveryTickTimeMillis, and at the clocks of producer and broker.",
        to_act="the broker's operators, or those of the producer's host",
    ),
    SESSION.warning(
        "delay-late",
        "A message was delivered long after the time that its producer asked for, to a consumer that had permits.",
        "Look at the broker's load and delayed delivery tracker, its tick, and at the clocks of producer and broker.",
        to_act="the broker's operators, or those of the producer's host",
    ),
)

THRESHOLDS = (
    in_seconds(
        "delay-early-seconds",
        1.2,
        "Time by which a delivery comes too early; the broker's tick and clocks kept by NTP explain less.",
        "delay-early",
        "delay-ignored",
    ),
    in_seconds(
        "delay-late-seconds",
        3,
        "Time by which a delivery comes too late; ticks, a full dispatcher and a read from disk explain less.",
        "delay-late",
    ),
    in_seconds(
        "delay-at-once-seconds",
        0.5,
        "Time from publication to delivery below which a message was not delayed at all, on any subscription type.",
        "delay-ignored",
    ),
)

DELAYS, SENT, DELIVERED = "delays", "sent", "delivered"

FACTS_MAX = 1_000
"""Most facts from one connection; this many show how a subscription works."""

TOPIC_IDLE_NS = 3_600_000_000_000
"""Time without facts after which a topic is evaluated: delays of an hour are common."""


def emit_sent(context: RuleContext, row: FrameRow) -> None:
    """Emit a SEND with a time of delivery."""
    metadata = row.metadata or {}
    if row.topic is not None and metadata.get("publish_time"):
        offset = row.time - int(metadata["publish_time"]) * MILLISECOND
        context.emit_fact(DELAYS, row.topic, where_of(row), SENT, {"producer": row.producer_name, "offset": offset})


def emit_delivered(context: RuleContext, consumer: ConsumerState, row: FrameRow, able: int) -> None:
    """Emit the first delivery of such a message; `able`: time since which the consumer has had permits."""
    metadata, fields = row.metadata or {}, row.fields or {}
    topic = consumer.topic or "non-persistent://"  # the broker does not store those
    if topic.startswith("non-persistent://") or not metadata.get("publish_time") or fields.get("redelivery_count"):
        return
    values = {
        **consumer.evidence,
        "title": consumer.title,
        "kind": consumer.kind,
        "able": able,
        "producer": metadata.get("producer_name"),
        "published": int(metadata["publish_time"]) * MILLISECOND,
        "due": int(metadata["deliver_at_time"]) * MILLISECOND,
        "id": position_of(fields.get("message_id")),
    }
    context.emit_fact(DELAYS, topic, where_of(row), DELIVERED, values)


def evaluate_delays(_: str, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report, for each subscription, deliveries that were not in time."""
    offsets: dict[str | None, int] = {}
    for fact in facts:
        if fact.what == SENT:
            offset, producer = fact.values["offset"], fact.values["producer"]
            offsets[producer] = min(offset, offsets.get(producer, offset))
    wrong: dict[tuple[str, str], list[tuple[int, Fact]]] = defaultdict(list)
    for fact in facts:
        if fact.what == DELIVERED:
            offset = offsets.get(fact.values["producer"], 0)
            code, error = _judge(fact, offset, thresholds)
            if code:
                wrong[code, fact.values["subscription"]].append((error, fact))
    for (code, _subscription), deliveries in wrong.items():
        _report(code, deliveries, offsets, report, thresholds)


def _judge(fact: Fact, offset: int, thresholds: Thresholds) -> tuple[str, int]:
    """Return the code of a delivery (empty for one in time), and how far it was from the requested time."""
    values, now = fact.values, fact.where.time
    due, waited = values["due"] + offset, now - values["published"] - offset
    if waited < 0:
        return "", 0  # the clocks differ, and no SEND shows by how much
    never = values["kind"] not in (None, *SHARED_TYPES)  # brokers never deliver to these early
    if due - now > thresholds.ns("delay-at-once-seconds" if never else "delay-early-seconds"):
        at_once = never or waited < thresholds.ns("delay-at-once-seconds")
        if values["kind"] is None and not at_once:
            return "", 0  # a consumer of unknown type, from before the capture
        return "delay-ignored" if at_once else "delay-early", due - now
    late = now - max(due, values["published"] + offset) > thresholds.ns("delay-late-seconds")
    return ("delay-late", now - due) if late and values["kind"] in SHARED_TYPES and 0 < values["able"] < due else ("", 0)


def _report(
    code: str, deliveries: Sequence[tuple[int, Fact]], offsets: Mapping[str | None, int], report: ReportFinding, thresholds: Thresholds
) -> None:
    error, worst = max(deliveries, key=lambda delivery: delivery[0])
    values: dict[str, Any] = worst.values
    ledger, entry = values["id"]
    delay = duration(values["due"] - values["published"])
    kind = f" ({values['kind']})" if values["kind"] else ""
    text = f"{values['title']}{kind} got {plural(len(deliveries), 'delayed message')} "
    text += f"{'too late' if code == 'delay-late' else 'too early'}: {ledger}:{entry}, to be delayed by {delay}, "
    text += f"{duration(error)} {'after' if code == 'delay-late' else 'before'} its time"
    behind = offsets.get(values["producer"], 0)
    wrong = -behind if code == "delay-late" else behind
    if values["kind"] in (None, *SHARED_TYPES) and wrong >= max(error // 2, thresholds.ns("clock-skew-seconds")):
        text += (
            f", which is by the producer's clock: that clock is {duration(wrong)} {'ahead of' if behind < 0 else 'behind'} the capture's"
        )
    text += "."
    evidence = {
        "frames": frame_names([worst.where.name, *(fact.where.name for _, fact in deliveries)]),
        "topic": values["topic"],
        "subscription": values["subscription"],
        "subscription_type": values["kind"],
        "consumer_name": values["consumer_name"],
        "message_id": [ledger, entry],
        "count": len(deliveries),
        "worst_ns": error,
        "producer_behind_ns": behind,
    }
    report(code, worst.where, text, evidence)


KEYS = (KeyRule(DELAYS, TOPIC_IDLE_NS, evaluate_delays),)
