"""Transactions that stay open: without an END_TXN when they time out, when their connection ends, or while their client does nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from pulsarscope.dissect.contract.rules import Fact, KeyRule, ReportFinding, Where
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.limits import DIAGNOSIS_NAMES_MAX
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import Thresholds, in_seconds
from pulsarscope.protocols.pulsar.rules.evidence import SAMPLES_MAX, frame_names, gap_note
from pulsarscope.protocols.pulsar.rules.exchanges.transactions import (
    FORGET_NS,
    ITEMS_MAX,
    OPEN,
    TRANSACTION,
    TransactionHistory,
    step_at,
)
from pulsarscope.protocols.pulsar.text.formatting import listing

CODES = table(
    SESSION.warning(
        "txn-open",
        "A transaction was neither committed nor aborted.",
        "Consumers wait behind it until its timeout aborts it: look for a client that died, forgot to end it, or works for "
        "longer than the timeout.",
        to_act="the application",
    ),
)

THRESHOLDS = (
    in_seconds(
        "txn-open-idle-seconds",
        3,
        "Time without a step of the transaction up to the end, and three times as long as any pause so far.",
        "txn-open",
    ),
)


class OpenTransaction(NamedTuple):
    """A transaction without an END_TXN, for the finding on all of one client."""

    begun: Where
    text: str
    """Sentence about it, which begins with "Transaction"."""
    evidence: dict[str, Any]


def _report_open(client: str, transactions: Sequence[OpenTransaction], report: ReportFinding) -> None:
    """Report the open transactions of one client: one in full, or the number of several and the first."""
    transactions = sorted(transactions, key=lambda transaction: transaction.begun.time)
    first = transactions[0]
    text, evidence, count = first.text, first.evidence, len(transactions)
    if count > 1:
        span = duration(transactions[-1].begun.time - first.begun.time)
        text = f"{count:,} transactions of client {client}, begun within {span}, stay open. The first: {text[0].lower()}{text[1:]}"
        evidence = evidence | {
            "frames": frame_names(transaction.begun.name for transaction in transactions),
            "connections": list(dict.fromkeys(transaction.begun.connection for transaction in transactions))[:DIAGNOSIS_NAMES_MAX],
            "transactions": [transaction.evidence["txn"] for transaction in transactions[:SAMPLES_MAX]],
        }
    report("txn-open", first.begun, text, evidence | {"count": count})


def _evaluate_open(_neighbours: str, facts: Sequence[Fact], report: ReportFinding, _thresholds: Thresholds) -> None:
    """Report neighbours without an end that the capture should have, together for each client and way of its end."""
    parts: dict[str, list[Fact]] = {}
    for fact in facts:
        parts.setdefault(fact.values["txn"], []).append(fact)
    clients: dict[tuple[str, str | None], list[OpenTransaction]] = {}
    for transaction, about in parts.items():
        unfinished = next((fact for fact in about if "begun" in fact.values), None)
        if unfinished is None or unfinished.values["unseen"] or any(fact.what == "ending" for fact in about):
            continue
        if (found := _open(transaction, unfinished, about)) is not None:
            clients.setdefault((unfinished.values["client"], unfinished.values["closed"]), []).append(found)
    for (client, _), transactions in clients.items():
        _report_open(client, transactions, report)


def _open(transaction: str, unfinished: Fact, parts: Sequence[Fact]) -> OpenTransaction | None:
    """Return a transaction without an END_TXN, or None if it has time left."""
    values = unfinished.values
    begun = Where(*values["begun"])
    age = values["until"] - begun.time
    overdue = bool(values["ttl"]) and age > values["ttl"]
    if not overdue and values["closed"] is None:
        return None  # The capture ended before the transaction timed out.
    limit = f", its timeout is {duration(values['ttl'])}" if values["ttl"] else ""
    if overdue:
        limit = f": its timeout of {duration(values['ttl'])}, which aborts it, had passed {duration(age - values['ttl'])} earlier"
    closed = f"the {values['closed']} closed the connection" if values["closed"] else "its connection is open"
    counts = Counter({"NEW_TXN": 1})
    for part in parts:
        counts.update(part.values["commands"])
    steps = [step_at(begun, {"command": "NEW_TXN"}), *(step for part in parts for step in part.values["steps"])]
    topics = list(dict.fromkeys(topic for part in parts for topic in part.values["topics"]))[:ITEMS_MAX]
    history = TransactionHistory(transaction, counts, steps, [], topics)
    text = (
        f"Transaction {transaction}{history.on_topics} has no END_TXN after {duration(age)}{limit}; {closed}; steps seen: "
        f"{history.summary}{gap_note(lost=values['lost'])}."
    )
    evidence = history.evidence([step["frame"] for step in steps])
    return OpenTransaction(begun, text, evidence | {"age_ns": age, "ttl_ns": values["ttl"], "closed_by": values["closed"]})


def evaluate_idle(client: str, facts: Sequence[Fact], end: int, report: ReportFinding, thresholds: Thresholds) -> None:
    """Report the transactions of a client (a host) that were idle, on open connections, when it was last seen, at `end`."""
    transactions: dict[str, list[Fact]] = {}
    for fact in facts:
        if fact.what == TRANSACTION:
            transactions.setdefault(fact.values["txn"], []).append(fact)
    idle: list[OpenTransaction] = []
    for transaction, parts in transactions.items():
        begin = next((part for part in parts if part.values.get("begun") is not None), None)
        if begin is None or begin.values["decided"] or any(part.values.get("unseen", True) for part in parts):
            continue
        if any(part.values["waiting"] for part in parts):
            continue  # its client waits for the broker
        values, begun = begin.values, Where(*begin.values["begun"])
        latest = max(part.values["latest"] for part in parts)
        rest, age = end - latest, end - begun.time
        usual = max(values["longest"], *(part.values["pause"] for part in parts))
        if rest < max(thresholds.ns("txn-open-idle-seconds"), 3 * usual) or 0 < values["ttl"] < age:
            continue
        topics = list(dict.fromkeys(topic for part in parts for topic in part.values["topics"]))
        count = sum(part.values["count"] for part in parts)
        on_topics = f" on {listing(topics)}" if topics else ""
        text = f"Transaction {transaction}{on_topics} has no END_TXN after {duration(age)}, and no step for the last {duration(rest)}: "
        text += f"its {plural(count, 'step')} stay without effect."
        frames = [begun.name, *(frame for part in parts for frame in part.values["frames"])]
        evidence = {"frames": frame_names(frames), "txn": transaction, "topic": next(iter(topics), None)}
        evidence |= {"age_ns": age, "rest_ns": rest, "ttl_ns": values["ttl"], "closed_by": None}
        idle.append(OpenTransaction(begun, text, evidence | thresholds.evidence("txn-open-idle-seconds")))
    if idle:
        _report_open(client, idle, report)


def _decides(fact: Fact) -> bool:
    return "begun" in fact.values


KEYS = (KeyRule(OPEN, FORGET_NS, _evaluate_open, decides=_decides),)
