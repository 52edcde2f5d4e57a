"""Connections that are cut while idle."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from pulsarscope.dissect.contract.rules import Fact, ReportFinding
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.flow import SERVER
from pulsarscope.model.limits import DIAGNOSIS_NAMES_MAX
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import Thresholds, counted, in_seconds
from pulsarscope.protocols.pulsar.rules.evidence import frame_names

CODES = table(
    SESSION.warning(
        "idle-cut",
        "Connections die after the same time without traffic, again and again.",
        "A firewall, NAT or load balancer forgets idle connections: raise its timeout, or let clients send keep-alives more often.",
        ("reconnect-loop", "connection-closed-by-broker", "connection-closed-by-client", "connection-reset", "reset-between"),
        to_act="the network's operators",
    ),
)

THRESHOLDS = (
    in_seconds(
        "idle-cut-seconds",
        0.5,
        "Time without traffic before the end; a broker that ends a connection because of a command does so at once.",
        "idle-cut",
    ),
    counted(
        "idle-cut-connections", 3, "connections", "Connections that end after the same idle time; two may be chance.", "idle-cut", least=2
    ),
)

_ALIKE = 0.1
"""Idle times count as equal when they differ by no more than this share."""

_TOGETHER = 0.05
"""Ends count as simultaneous when this share of the idle time or less is between them."""


def _is_near(times: Sequence[int], time: int, distance: float) -> bool:
    """Return True if one of these times, in order, is at this distance from another or less."""
    at = bisect_left(times, time - distance)
    return at < len(times) and times[at] <= time + distance


def evaluate_idle_cuts(client: str, server: str, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report connections of a client to a server that were cut one after the other, each after the same idle time."""
    cut = [fact for fact in facts if fact.values["idle"] >= thresholds.ns("idle-cut-seconds") and fact.values["cut"]]
    if not cut:
        return
    from statistics import median  # noqa: PLC0415 - with fractions and random 2 ms of every diagnosis

    usual = median(fact.values["idle"] for fact in cut)
    alike: list[Fact] = []
    busy = [fact for fact in facts if fact.values["cut"] and 2 * fact.values["idle"] < usual <= 2 * fact.values["lifetime"]]
    busy_ends = sorted(fact.where.time for fact in busy)
    for fact in sorted(cut, key=lambda fact: fact.where.time):
        # Connections that end together have one cause, such as a stop of the broker, above all if one of them had traffic.
        if _is_near(busy_ends, fact.where.time, _TOGETHER * usual):
            continue
        if abs(fact.values["idle"] - usual) <= _ALIKE * usual and (not alike or fact.where.time - alike[-1].where.time >= usual / 2):
            alike.append(fact)
    if len(alike) < thresholds["idle-cut-connections"]:
        return
    first = alike[0]
    text = (
        f"{plural(len(alike), 'connection')} of {client} to {server} died after {duration(int(usual))} without traffic each time, one "
        "after the other."
    )
    evidence = {
        "frames": frame_names(fact.values["frame"] for fact in alike),
        "connections": [fact.where.connection for fact in alike[:DIAGNOSIS_NAMES_MAX]],
        "count": len(alike),
        "idle_ns": int(usual),
        "closed_by_broker": sum(fact.values["closed_by"] == SERVER for fact in alike),
    }
    report("idle-cut", first.where._replace(time=first.values["last"]), text, evidence)
