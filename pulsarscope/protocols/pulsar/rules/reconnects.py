"""Clients that connect again and again in vain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pulsarscope.dissect.rules import Fact, KeyRule, ReportFinding
from pulsarscope.model.findings import WARNING, Code, table
from pulsarscope.model.limits import DIAGNOSIS_NAMES_MAX
from pulsarscope.protocols.pulsar.rules.phrases import frames, seconds

CODES = table(
    Code(
        "reconnect-loop",
        WARNING,
        "session",
        "A client connects again and again, and fails each time.",
        "The reason stands with each: the client will not get on until that is mended.",
    ),
)

RECONNECTS = "connections-of-client"

RECONNECTS_MIN = 5
"""So many failures in a row are a loop: a restart of the broker costs a client one or two."""

RECONNECT_NS = 60_000_000_000
"""Clients wait no longer between two attempts (maxBackoffInterval)."""

FORGET_NS = 600_000_000_000
"""Ten of the longest waits between attempts."""


def _evaluate_reconnects(key: str, facts: Sequence[Fact], report: ReportFinding) -> None:
    """Rows of connections that failed, one soon after the other."""
    client, _, server = key.partition("\n")
    run: list[Fact] = []
    healthy = 0
    for fact in sorted(facts, key=lambda fact: fact.values["start"]):
        if run and fact.values["start"] - run[-1].where.time > RECONNECT_NS:
            _report_loop(client, server, run, healthy, report)
            run, healthy = [], 0
        if fact.values["reason"] is None:
            healthy += 1 if run else 0
        else:
            run.append(fact)
    _report_loop(client, server, run, healthy, report)


def _report_loop(client: str, server: str, run: Sequence[Fact], healthy: int, report: ReportFinding) -> None:
    if len(run) < RECONNECTS_MIN or healthy >= len(run):
        return
    first, last = run[0], run[-1]
    reasons = Counter(fact.values["reason"] for fact in run)
    why = ", ".join(f"{reason} ({times:,})" for reason, times in reasons.most_common())
    span = last.where.time - first.values["start"]
    text = f"{client} connected to {server} {len(run):,} times in {seconds(span)} and failed each time: {why}."
    evidence = {
        "frames": frames(fact.values["frame"] for fact in run),
        "connections": [fact.where.connection for fact in run[:DIAGNOSIS_NAMES_MAX]],
        "count": len(run),
        "reasons": dict(reasons),
        "span_ns": span,
        "lived_max_ns": max(fact.values["lived"] for fact in run),
    }
    report("reconnect-loop", first.where._replace(time=first.values["last"]), text, evidence)


KEYS = (KeyRule(RECONNECTS, FORGET_NS, _evaluate_reconnects, early=True),)
