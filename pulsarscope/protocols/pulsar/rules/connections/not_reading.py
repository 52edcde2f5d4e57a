"""Clients that stop reading from their broker, as shown by their closed windows."""

from __future__ import annotations

from pulsarscope.dissect.contract.rules import RuleContext
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import in_seconds
from pulsarscope.protocols.pulsar.rules.evidence import closed_windows

CODES = table(
    SESSION.warning(
        "client-not-reading",
        "A client read nothing from its connection for seconds, though its broker had more for it.",
        "Clients read all the time, whatever their application does: its process stood still (stopped, swapped out, garbage collection, "
        "no processor time), or the application blocks a thread of the client, such as a listener or callback that waits.",
        (
            "broker-silent", "connection-closed-by-broker", "consumer-behind", "consumer-not-acking", "consumer-paused", "consumer-starved",
            "dispatch-limited", "keepalive-lost",
        ),
        to_act="the client's application",
    ),
)  # fmt: skip

THRESHOLDS = (
    in_seconds(
        "client-not-reading-seconds",
        2,
        "Time for which the client's receive window was closed in all; one that is busy opens it again within a fraction of a second.",
        "client-not-reading",
    ),
    in_seconds(
        "client-not-reading-close-seconds",
        0.2,
        "Average time of one close: a client that reads, but more slowly than the broker sends, closes its window very often and for less.",
        "client-not-reading",
    ),
)


def report_not_reading(context: RuleContext) -> None:
    """Report the client of an ended connection if its window was closed for a long time."""
    thresholds = context.thresholds
    for window in closed_windows(context, context.client):
        closed, count = window.evidence.get("closed_ns", 0), window.evidence.get("count", 1)
        shortest = max(thresholds.ns("client-not-reading-seconds"), count * thresholds.ns("client-not-reading-close-seconds"))
        if closed >= shortest:
            text = f"{context.client} read nothing for {duration(closed)} while its broker had more for it: its receive window was full "
            evidence = {"closed_ns": closed, "count": count, "act": "client"}
            context.report("client-not-reading", window.where, f"{text}{plural(count, 'time')}.", evidence)
