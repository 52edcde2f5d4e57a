"""Clients whose attempts to connect fail repeatedly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pulsarscope.dissect.contract.rules import Fact, KeyRule, ReportFinding
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.flow import SERVER
from pulsarscope.model.limits import DIAGNOSIS_NAMES_MAX
from pulsarscope.model.text import duration
from pulsarscope.model.thresholds import Thresholds, counted, in_seconds
from pulsarscope.protocols.pulsar.ports import TLS_PORT
from pulsarscope.protocols.pulsar.rules.connections.churn import RECONNECTS
from pulsarscope.protocols.pulsar.rules.connections.idle_cuts import evaluate_idle_cuts
from pulsarscope.protocols.pulsar.rules.connections.left_open import LEFT, PROXIED, evaluate_left_open
from pulsarscope.protocols.pulsar.rules.connections.regular_cuts import evaluate_regular_cuts
from pulsarscope.protocols.pulsar.rules.connections.short_lived import evaluate_churn
from pulsarscope.protocols.pulsar.rules.evidence import frame_names
from pulsarscope.protocols.pulsar.text.formatting import port

CODES = table(
    SESSION.warning(
        "reconnect-loop",
        "A client connects again and again, and fails each time, or more often than not.",
        "Look at what ends each connection. If CONNECT is the only command: a client without TLS on a TLS port, or without a token. If "
        "captures at both ends show a RST that the other end did not send: a middlebox.",
        ("connection-closed-by-broker", "connection-reset", "churn-undecided"),
        to_act="the application, or the broker's operators",
    ),
)

THRESHOLDS = (
    counted(
        "reconnect-loop-failures",
        5,
        "connections",
        "Connections that fail soon after each other, more than work meanwhile; the restart of a broker costs a client one or two.",
        "reconnect-loop",
    ),
    in_seconds("reconnect-loop-lifetime-seconds", 60, "Life of a connection that counts as successful.", "reconnect-loop"),
    in_seconds(
        "reconnect-loop-pause-seconds", 60, "Pause between two attempts: the client's longest backoff, by default.", "reconnect-loop"
    ),
)

FORGET_NS = 600_000_000_000
"""Time without facts after which a client is evaluated: ten of its longest waits."""


def _evaluate_reconnects(key: str, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report runs of connections that failed in quick succession, were hardly used or left open, or were cut while idle."""
    client, _, server = key.partition("\n")
    if not any(fact.what == PROXIED for fact in facts):
        evaluate_left_open(client, server, [fact for fact in facts if fact.what == LEFT], report, thresholds)
    facts = [fact for fact in facts if fact.what not in (LEFT, PROXIED)]
    made = {fact.where.connection for fact in evaluate_churn(client, server, facts, report, thresholds)}
    evaluate_idle_cuts(client, server, facts, report, thresholds)
    evaluate_regular_cuts(client, server, facts, report, thresholds)
    least, pause_ns = thresholds["reconnect-loop-failures"], thresholds.ns("reconnect-loop-pause-seconds")
    failures: list[Fact] = []
    successes: list[Fact] = []
    for fact in sorted(facts, key=lambda fact: fact.values["start"]):
        if failures and fact.values["start"] - failures[-1].where.time > pause_ns:
            if len(failures) >= least:
                _report_loop(client, server, failures, successes, report)
            failures, successes = [], []
        if fact.values["reason"] is not None and fact.where.connection not in made:  # otherwise it was useful, however it ended
            failures.append(fact)
        elif failures:
            successes.append(fact)
    if len(failures) >= least:
        _report_loop(client, server, failures, successes, report)


def _report_loop(client: str, server: str, failures: Sequence[Fact], successes: Sequence[Fact], report: ReportFinding) -> None:
    if len(successes) >= len(failures):
        return
    first, last = failures[0], failures[-1]
    worked = sum(fact.values["start"] < last.values["start"] for fact in successes)
    failed = f"{len(failures):,} times" if worked else "each time"
    reasons = Counter(fact.values["reason"] for fact in failures)
    reasons_text = ", ".join(f"{reason} ({times:,})" for reason, times in reasons.most_common())
    span = last.where.time - first.values["start"]
    text = f"{client} connected to {server} {len(failures) + worked:,} times in {duration(span)} and failed {failed}: {reasons_text}"
    text += f"{_silence_text(server, failures)}."
    evidence = {
        "frames": frame_names(fact.values["frame"] for fact in failures),
        "connections": [fact.where.connection for fact in failures[:DIAGNOSIS_NAMES_MAX]],
        "count": len(failures),
        "reasons": dict(reasons),
        "span_ns": span,
        "lived_max_ns": max(fact.values["lifetime"] for fact in failures),
    }
    report("reconnect-loop", first.where._replace(time=first.values["last"]), text, evidence)


def _silence_text(server: str, failures: Sequence[Fact]) -> str:
    """Return the likely reason why a broker closes each connection without any answer; "" if it does not."""
    if not all(fact.values["unheard"] and fact.values["closed_by"] == SERVER for fact in failures):
        return ""
    if all(fact.values["proxied"] for fact in failures):
        return ", each time without an answer to a PROXY protocol header, which brokers understand with haProxyProtocolEnabled=true only"
    if port(server) == TLS_PORT:
        return f", each time without an answer: at port {TLS_PORT} brokers expect TLS, and the client did not use it"
    return ", each time without an answer, like a load balancer without a broker behind it, or a broker that expects TLS at this port"


KEYS = (KeyRule(RECONNECTS, FORGET_NS, _evaluate_reconnects, early=True),)
