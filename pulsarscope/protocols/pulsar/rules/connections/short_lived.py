"""Connections of a client that are opened again and again, for hardly any work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from pulsarscope.dissect.contract.rules import Fact, ReportFinding, Where
from pulsarscope.model.flow import CLIENT
from pulsarscope.model.limits import DIAGNOSIS_NAMES_MAX
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import Thresholds
from pulsarscope.protocols.pulsar.rules.connections.churn import is_churn
from pulsarscope.protocols.pulsar.rules.connections.one_host import in_turn_on_purpose, of_one_host
from pulsarscope.protocols.pulsar.rules.connections.storms import Repetitions
from pulsarscope.protocols.pulsar.rules.evidence import SHORTEST_FRAME, frame_names
from pulsarscope.protocols.pulsar.topics import base_topic


def evaluate_churn(client: str, server: str, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> list[Fact]:
    """Report the connections of a client to a server that were opened far more often than they were used, and return their facts."""
    short = [
        fact
        for fact in facts
        if fact.values["closed_by"] == CLIENT
        and not (fact.values["refused"] or fact.values["torn"])
        and _most_frames(fact) <= thresholds["churn-frames"]
        and fact.values["lifetime"] < thresholds.ns("connection-churn-seconds")
    ]
    short.sort(key=lambda fact: fact.values["start"])
    notes: list[tuple[Where, str, dict[str, Any]]] = []

    def report_group(code: str, where: Where, text: str, evidence: dict[str, Any]) -> None:
        if code == "churn-undecided":
            notes.append((where, text, evidence))
        else:
            report(code, where, text, evidence)

    churn = [fact for group in _by_identity(short) for fact in _evaluate(client, server, group, report_group, thresholds)]
    for note in notes[:1]:  # one tells enough of all clients that may share the address
        report("churn-undecided", *note)
    return churn


def _by_identity(short: Sequence[Fact]) -> list[list[Fact]]:
    """Divide connections by what they serve if the same names come again: those with different names are then different clients."""
    names = Counter(fact.values["identity"] for fact in short)
    if None in names or 2 * len(names) > len(short):
        return [[*short]] if short else []
    return [[fact for fact in short if fact.values["identity"] == name] for name in names]


def _evaluate(client: str, server: str, short: list[Fact], report: ReportFinding, thresholds: Thresholds) -> list[Fact]:
    """Report short connections if they are too many, and return them if they are those of one client."""
    opened = Repetitions(short[0].where)
    for fact in short:
        opened.repeat(fact.where._replace(time=fact.values["start"]), thresholds["churn-rate"])
    first, last = short[0], short[-1]
    times = [(fact.values["start"], fact.values["start"] + fact.values["lifetime"]) for fact in short]
    in_turn = all(end <= start for (_, end), (start, _) in pairwise(times))
    topics = {fact.values["topic"] for fact in short}
    is_one = len(topics) == 1 and None not in topics
    begun = last.values["start"] - first.values["start"]
    are_many = is_churn(opened, len(short), begun, thresholds, in_turn=in_turn, slow=is_one)
    if not are_many and not (in_turn and is_one and _may_be_churn(short, thresholds)):
        return []
    served = Counter(base_topic(fact.values["topic"] or "") for fact in short)
    alike = max(served.values())  # those without a topic are alike, too
    decided = are_many and alike >= thresholds["churn-few-least"]
    decided = decided and (of_one_host([fact.values["port"] for fact in short]) or in_turn_on_purpose(times))
    span = last.where.time - first.values["start"]
    lived = max(fact.values["lifetime"] for fact in short)
    text = (
        f"{client} opened and closed {plural(len(short), 'connection')} to {server} in {duration(span)}; none lived longer than "
        f"{duration(lived)}, and on none did it send more than {plural(max(map(_most_frames, short)), 'frame')}"
    )
    if are_many and alike < thresholds["churn-few-least"]:
        text += f"; they served {len(served):,} topics, as different programs do"
    elif are_many and not decided:
        text += "; their ports are in no order, like those of several hosts behind one address"
    evidence = {
        "frames": frame_names(fact.values["frame"] for fact in short),
        "connections": [fact.where.connection for fact in short[:DIAGNOSIS_NAMES_MAX]],
        "count": len(short),
        "span_ns": span,
        "lived_max_ns": lived,
    }
    report("connection-churn" if decided else "churn-undecided", first.where._replace(time=first.values["last"]), f"{text}.", evidence)
    return short if decided else []


def _most_frames(fact: Fact) -> int:
    """Return the maximum number of frames that the client sent: some may be among the missing bytes."""
    frames: int = fact.values["client_frames"]
    return frames + -(-(fact.values["client_missing"] or 0) // SHORTEST_FRAME)


def _may_be_churn(short: Sequence[Fact], thresholds: Thresholds) -> bool:
    longest = thresholds.ns("churn-undecided-interval-seconds")
    starts = [fact.values["start"] for fact in short]
    few = thresholds["churn-undecided-least"] <= len(starts) < thresholds["churn-least"]  # many at that pace are scheduled jobs
    return few and all(after - before <= longest for before, after in pairwise(starts))
