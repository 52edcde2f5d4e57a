"""Consumers whose messages arrive later and later although they have permits: the path to them carries less than is published.

The age of a message is the time to its delivery in the capture from the time at which the broker stored it, if the broker adds that, else
from its publish time. If a producer sends later and later, or waits for its receipts, all consumers get its messages late; these are other
findings (`sends/ages.py`, `sends/publishing.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pulsarscope.dissect.contract.rules import Fact, KeyRule, ReportFinding, RuleContext
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.records import ConnectionRow
from pulsarscope.model.text import duration
from pulsarscope.model.thresholds import Thresholds
from pulsarscope.protocols.pulsar.rules.evidence import closed_windows
from pulsarscope.protocols.pulsar.rules.sends.ages import AGES, SENT_LATE, STORED_LATE, AgeMark
from pulsarscope.protocols.pulsar.rules.sends.ages import THRESHOLDS as AGE_THRESHOLDS

CODES = table(
    SESSION.warning(
        "delivery-behind",
        "A consumer's messages come later and later, although it has permits for them.",
        "The path carries less than is published: look at the bandwidth between broker and consumer (a slow or shaped link, a small TCP "
        "window over a long way), then at the broker's reads and at the producers, whose messages may be late before they are sent.",
        ("ack-unanswered", "backlog-growing", "consumer-behind", "data-after-close", "request-unanswered", "slow-exchange", "slow-publish"),
        to_act="the network's operators, or the broker's operators",
    ),
)

TOPIC_IDLE_NS = 600_000_000_000
"""Time without facts after which a topic is evaluated."""

LATE = "late"


class Late(NamedTuple):
    """A consumer whose messages arrive later and later."""

    title: str
    topic: str
    evidence: dict[str, Any]
    """Evidence that identifies it."""
    first: AgeMark
    last: AgeMark
    deliveries: int
    stored: bool
    """True when their age is counted from the time at which the broker stored them."""


def emit_late(context: RuleContext, consumers: Sequence[Late], row: ConnectionRow) -> None:
    """Emit such consumers of an ending connection, unless its client had closed its window: it then reads too slowly."""
    if not consumers or closed_windows(context, context.client):
        return
    rate = row.server_bytes * 1e9 / max(row.end - row.start, 1)
    for title, topic, evidence, first, last, deliveries, stored in consumers:
        values = {
            "title": title,
            **evidence,
            "frame": first.where.name,
            "deliveries": deliveries,
            "growth_ns": last.age - first.age,
            "span_ns": last.where.time - first.where.time,
            "bytes_per_second": round(rate),
            "stored": stored,
        }
        context.emit_fact(AGES, topic, last.where, LATE, values)


def evaluate_late(topic: str, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report the consumers whose messages arrive later and later, unless a producer sends later and later."""
    if any(fact.what == SENT_LATE for fact in facts):
        return
    for fact in facts:
        values = fact.values
        if fact.what != LATE or (not values["stored"] and any(_is_stored_late(other, fact) for other in facts)):
            continue
        text = f"{values['title']} gets its messages later and later: within {duration(values['span_ns'])} their age grew by "
        text += f"{duration(values['growth_ns'])}, although it has permits, while its connection carried "
        text += f"{8 * values['bytes_per_second'] / 1000:,.0f} kbit/s."
        named = ("consumer_id", "consumer_name", "subscription", "deliveries", "growth_ns", "span_ns", "bytes_per_second")
        evidence = {
            "frames": [values["frame"], fact.where.name],
            "topic": topic,
            **{name: values[name] for name in named},
            **thresholds.evidence(*(threshold.name for threshold in AGE_THRESHOLDS)),
        }
        report("delivery-behind", fact.where, text, evidence)


def _is_stored_late(stored: Fact, late: Fact) -> bool:
    """Return True for the fact that messages waited for their broker while those of a consumer got older, for at least half as long.

    The wait is on another connection: on the same one, receipts wait behind the deliveries.
    """
    if stored.what != STORED_LATE or stored.where.connection == late.where.connection:
        return False
    latency, grown_from, grown_until = stored.values["latency"], late.where.time - late.values["span_ns"], late.where.time
    is_then = stored.where.time < grown_until and stored.where.time + latency > grown_from
    return is_then and 2 * latency >= late.values["growth_ns"]


KEYS = (KeyRule(AGES, TOPIC_IDLE_NS, evaluate_late),)
