"""Advice for consumers that cause unnecessary work for the broker and the network."""

from __future__ import annotations

from typing import Any

from pulsarscope.dissect.contract.rules import RuleContext, Where
from pulsarscope.model.findings import TUNING, table
from pulsarscope.model.text import duration
from pulsarscope.model.thresholds import counted
from pulsarscope.protocols.pulsar.rules.subscriptions.consumers import ConsumerState

CODES = table(
    TUNING.note(
        "receiver-queue-one",
        "A consumer asks for one message at a time.",
        "Each message costs a round trip to the broker: a larger receiver queue is faster, unless consumers must share long jobs evenly.",
    ),
    TUNING.note(
        "ack-each",
        "A consumer sends an ACK frame for each message, at a high rate.",
        "Clients group acknowledgements by time or number: switch that on, or acknowledge cumulatively.",
    ),
)

THRESHOLDS = (
    counted(
        "receiver-queue-one-flows", 10, "FLOWs", "FLOWs that grant one permit, for at least nine in ten messages.", "receiver-queue-one"
    ),
    counted("ack-each-acks", 50, "ACKs", "ACK frames, one for each of at least nine in ten entries.", "ack-each", least=2),
    counted("ack-each-rate", 50, "ACKs/s", "ACK frames in a second; fewer cost next to nothing.", "ack-each", least=0),
)


def advise_on_flows(context: RuleContext, consumer: ConsumerState, first: Where | None, flows: int, delivered: int, now: int) -> None:
    """Report a consumer that has sent `count` FLOWs of one permit since the first."""
    if first is None or flows < context.thresholds["receiver-queue-one-flows"] or 10 * flows < 9 * delivered:
        return
    text = f"{consumer.title} granted {flows:,} times a single permit in {duration(now - first.time)}, for {delivered:,} messages."
    evidence: dict[str, Any] = {"frames": [first.name], **consumer.evidence, "flows": flows, "delivered": delivered}
    context.report("receiver-queue-one", first, text, evidence)


def advise_on_acks(context: RuleContext, consumer: ConsumerState, first: Where | None, acks: int, deliveries: int, last: int) -> None:
    """Report a consumer that sent `count` ACKs between the first and `last`."""
    if first is None or acks < context.thresholds["ack-each-acks"] or 10 * acks < 9 * deliveries:
        return
    span = max(last - first.time, 1)
    rate = acks * 1_000_000_000 / span
    if rate >= context.thresholds["ack-each-rate"]:
        text = f"{consumer.title} sent {acks:,} ACKs for {deliveries:,} entries in {duration(span)}, {rate:,.0f} a second."
        evidence = {"frames": [first.name], **consumer.evidence, "acks": acks, "deliveries": deliveries, "rate": round(rate, 1)}
        context.report("ack-each", first, text, evidence)
