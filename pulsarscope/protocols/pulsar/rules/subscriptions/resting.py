"""Consumers from before the capture that get no more messages, although their topic has newer ones.

Their permits are unknown. The rule still reports that a consumer stopped and, if it got everything until then, that it lacks permits.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pulsarscope.dissect.contract.rules import Fact, ReportFinding, RuleContext, Where, where_of
from pulsarscope.model.bounded_tables import remember
from pulsarscope.model.flow import SERVER
from pulsarscope.model.records import FrameRow
from pulsarscope.model.text import duration
from pulsarscope.model.thresholds import Thresholds
from pulsarscope.protocols.pulsar.message_ids import Position, batch_size, position_of
from pulsarscope.protocols.pulsar.rules.evidence import TYPICAL_ACKS, latest_seen, may_lack
from pulsarscope.protocols.pulsar.rules.subscriptions.advice import advise_on_flows
from pulsarscope.protocols.pulsar.rules.subscriptions.consumers import BACKLOG, CONSUMERS_MAX, ConsumerState
from pulsarscope.protocols.pulsar.text.formatting import host

RESTING, OLDER = "resting", "older"
"""Kinds of facts of a topic: where a consumer from before the capture stopped, and where its deliveries began."""


_STOPPED_PAUSES, _STOPPED_ENTRIES = 10, 20
"""A consumer has stopped after this many times its longest pause between deliveries, and this many entries published since the last one."""


class Consumption(msgspec.Struct):
    """A consumer's deliveries from all ledgers, and its FLOWs."""

    messages: int = 0
    singles: int = 0
    """Number of FLOWs of a single permit."""
    single: Where | None = None
    """The first FLOW of a single permit."""


class Unsubscribed(msgspec.Struct):
    """Deliveries of one ledger to a consumer whose SUBSCRIBE is not in the capture."""

    topic: str | None
    low: Position
    high: Position
    latest: Where
    totals: Consumption
    entries: int = 1
    pause: int = 0
    """Longest time between two deliveries, in nanoseconds."""
    permits: int = 0
    """Minimum number of its permits: those in the capture, as if it had none before."""

    def add(self, position: Position, where: Where, messages: int) -> None:
        """Add a delivery."""
        self.entries += self.low <= position
        self.permits = max(self.permits - messages, 0)
        self.pause = max(self.pause, where.time - self.latest.time)
        self.low, self.high, self.latest = min(self.low, position), max(self.high, position), where


def note_delivery(context: RuleContext, table: dict[int, Unsubscribed], row: FrameRow) -> None:
    """Note a message for a consumer that is unknown so far; emit the first one."""
    fields = row.fields or {}
    number, position, where = fields.get("consumer_id", -1), position_of(fields.get("message_id")), where_of(row)
    messages = batch_size(row)
    if (consumer := table.get(number)) is not None and consumer.high[0] == position[0]:
        consumer.add(position, where, messages)
    else:
        if row.topic is not None and (consumer is None or consumer.topic != row.topic):
            context.emit_fact(BACKLOG, row.topic, where, OLDER, {"consumer_id": number})
        consumer = Unsubscribed(row.topic, position, position, where, Consumption() if consumer is None else consumer.totals)
        remember(table, number, consumer, CONSUMERS_MAX)
    consumer.totals.messages += messages


def note_flow(table: dict[int, Unsubscribed], row: FrameRow) -> None:
    """Note permits for a consumer that is unknown so far."""
    fields = row.fields or {}
    if (consumer := table.get(fields.get("consumer_id", -1))) is not None:
        permits = fields.get("messagePermits", 0)
        consumer.permits += permits
        if permits == 1:
            consumer.totals.singles += 1
            consumer.totals.single = consumer.totals.single or where_of(row)


def older_consumer(context: RuleContext, row: FrameRow) -> ConsumerState:
    """Return the known state of the consumer of a frame whose SUBSCRIBE was before the capture."""
    return ConsumerState((row.fields or {}).get("consumer_id", -1), row.topic, connection=context.connection)


def emit_resting(context: RuleContext, table: dict[int, Unsubscribed], now: int, *, is_open: bool) -> None:
    """Emit where the consumers of a connection stopped."""
    for number, consumer in table.items():
        older, totals = ConsumerState(number, consumer.topic, connection=context.connection), consumer.totals
        advise_on_flows(context, older, totals.single, totals.singles, totals.messages, consumer.latest.time)
        if consumer.topic is None or consumer.entries < TYPICAL_ACKS or may_lack(context, consumer.latest.time, now, SERVER):
            continue
        values = {
            "consumer_id": number,
            "last": consumer.high,
            "entries": consumer.entries,
            "alone": consumer.entries >= consumer.high[1] - consumer.low[1] + 1,
            "frame": consumer.latest.name,
            "since": consumer.latest.time,
            "pause": consumer.pause,
            "permits": consumer.permits,
            "closed": not is_open,
            "server": host(context.server),
        }
        context.emit_fact(BACKLOG, consumer.topic, consumer.latest._replace(time=now), RESTING, values)


def evaluate_resting(topic: str, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report the consumers that stopped while more messages were published that no other consumer got."""
    resting = [fact for fact in facts if fact.what == RESTING]
    if not resting:
        return
    end = latest_seen(facts)
    for fact in resting:
        values = fact.values
        last, until = tuple(values["last"]), fact.where.time if values["closed"] else end
        patience = max(thresholds.ns("consumer-undecided-seconds"), round(thresholds["consumer-rhythm-factor"] * values["pause"]))
        published = (each for each in facts if each.what == "published" and each.values["server"] == values["server"])
        newer = (each for each in published if each.values["position"][0] == last[0] and each.values["position"][1] > last[1])
        due = [each for each in newer if each.where.time <= until]
        if not due or until - min(each.where.time for each in due) < patience:
            continue
        count = max(each.values["position"][1] for each in due) - last[1]
        others = (each for each in facts if each.what in ("delivered", RESTING) and each is not fact)
        is_shared = not values["alone"] and any(tuple(each.values.get("position") or each.values["last"]) > last for each in others)
        if is_shared or count < thresholds["consumer-not-acking-messages"]:
            continue
        rest = until - values["since"]
        who = f"Consumer {values['consumer_id']} of connection {fact.where.connection} on {topic}"
        text = f"{who} got {values['entries']:,} entries and nothing for the last {duration(rest)}, though the topic has at least "
        text += f"{count:,} more: it subscribed before the capture, "
        stopped = max(thresholds.ns("consumer-not-acking-first-seconds"), _STOPPED_PAUSES * values["pause"])
        is_certain = values["alone"] and rest >= stopped and count >= _STOPPED_ENTRIES and not values["permits"]
        text += "and has most likely used up its permits." if is_certain else "so that its permits are unknown."
        evidence = {
            "frames": [values["frame"]],
            "consumer_id": values["consumer_id"],
            "topic": topic,
            "delivered": values["entries"],
            "last_delivered": list(last),
            "published_behind": count,
            "rest_ns": rest,
            "longest_pause_ns": values["pause"],
            **thresholds.evidence(
                "consumer-not-acking-first-seconds" if is_certain else "consumer-undecided-seconds", "consumer-rhythm-factor"
            ),
        }
        report("consumer-starved" if is_certain else "consumer-undecided", fact.where._replace(time=values["since"]), text, evidence)
