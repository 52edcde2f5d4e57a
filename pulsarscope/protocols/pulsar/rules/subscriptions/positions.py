"""Rules about the start of subscriptions, and about readers that get fewer messages than the broker announces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pulsarscope.dissect.contract.rules import Fact, ReportFinding, RuleContext, Where
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.text import duration
from pulsarscope.model.thresholds import Thresholds, in_seconds
from pulsarscope.protocols.pulsar.message_ids import Position
from pulsarscope.protocols.pulsar.rules.evidence import answers_lost, latest_seen
from pulsarscope.protocols.pulsar.rules.subscriptions.consumers import ConsumerState
from pulsarscope.protocols.pulsar.rules.subscriptions.resting import OLDER

CODES = table(
    SESSION.note(
        "published-before-subscription",
        "Messages were published before a subscription that begins at the latest one: it does not get them.",
        "Create the subscription first, or let it begin at the earliest message.",
    ),
    SESSION.warning(
        "reader-behind-last-id",
        "A reader waits for the message that the broker calls the last one, and does not get it.",
        "The last position holds a marker, a message of an aborted or open transaction, or a compacted message: a reader that waits "
        "for it waits forever. Newer brokers report the last message that can be read.",
        to_act="the broker's operators",
    ),
)

THRESHOLDS = (
    in_seconds(
        "reader-behind-seconds",
        1,
        "Time that a reader with permits waits; it gets what is there within milliseconds.",
        "reader-behind-last-id",
    ),
    in_seconds("published-before-seconds", 1, "Time without a delivery since the subscription began.", "published-before-subscription"),
)

BEGAN = "began"


def evaluate_beginnings(facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report subscriptions that began at the latest message, after other messages of their topic."""
    end = latest_seen(facts)
    known: dict[str, int] = {}
    for fact in facts:
        if fact.what in (BEGAN, "delivered"):
            subscription = fact.values["subscription"]
            begun = fact.values["begun"] if fact.what == BEGAN else fact.where.time
            known[subscription] = min(begun, known.get(subscription, begun))
    for fact in facts:
        if fact.what != BEGAN or fact.values["begun"] > known[fact.values["subscription"]]:
            continue
        values = fact.values
        before = [
            other
            for other in facts
            if other.what == "published" and other.where.time < values["begun"] and other.values["server"] == values["server"]
        ]
        first = values["first"]
        if any(other.what == OLDER and other.where.time < values["begun"] for other in facts):
            continue  # it may be the same subscription: the capture lacks the name
        if not before or (
            first is None and (fact.where.time if values["closed"] else end) - values["begun"] < thresholds.ns("published-before-seconds")
        ):
            continue
        oldest, newest = before[0], before[-1]
        if first is not None and tuple(first) <= tuple(newest.values["position"]):
            continue
        known[values["subscription"]] = -1
        (ledger, entry), until = oldest.values["position"], first or newest.values["position"]
        count = until[1] - entry + (first is None) if until[0] == ledger else len(before)
        span = duration(values["begun"] - oldest.where.time)
        text = f"Subscription {values['subscription']} on {values['topic']} began at the latest message: at least {count:,} published "
        text += f"since {span} before, from {ledger}:{entry} on, are not for it, unless it existed before."
        evidence = {
            "frames": [oldest.where.name, newest.where.name, fact.where.name],
            "topic": values["topic"],
            "subscription": values["subscription"],
            "consumer_name": values["consumer_name"],
            "count": count,
            "first": [ledger, entry],
        }
        report("published-before-subscription", fact.where._replace(time=values["begun"]), text, evidence)


def report_behind(
    context: RuleContext,
    consumer: ConsumerState,
    promised: Position,
    promised_at: Where,
    last: Position | None,
    last_at: Where | None,
    waited: int,
) -> None:
    """Report a reader that waited too long for a message that GET_LAST_MESSAGE_ID announced; its last message came at `last_at`."""
    since = min(promised_at.time, consumer.seen if last_at is None else last_at.time + 1)  # not messages that came with the last one
    if waited < context.thresholds.ns("reader-behind-seconds") or answers_lost(context, since):
        return  # too short, or the capture may lack the message
    what = "compacted away, a marker or an aborted message" if consumer.compacted else "a marker, an aborted message or something unknown"
    got = f"its last was {last[0]}:{last[1]}" if last else "it got none"
    text = f"{consumer.title} was told that the last message is {promised[0]}:{promised[1]}, but {got} and it waited {duration(waited)} "
    text += f"with permits: that position holds {what}"
    evidence: dict[str, Any] = {
        "frames": [promised_at.name],
        **consumer.evidence,
        "last_message_id": list(promised),
        "last_delivered": last and list(last),
        "waited_ns": waited,
    }
    context.report("reader-behind-last-id", promised_at, f"{text}.", evidence)
