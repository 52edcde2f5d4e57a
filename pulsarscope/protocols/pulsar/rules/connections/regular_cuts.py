"""Connections in use that are cut after the same time, or the same number of bytes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import pairwise

from pulsarscope.dissect.contract.rules import Fact, ReportFinding
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.flow import SERVER
from pulsarscope.model.limits import DIAGNOSIS_NAMES_MAX
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import Thresholds, counted, in_seconds
from pulsarscope.protocols.pulsar.rules.evidence import frame_names

CODES = table(
    SESSION.warning(
        "regular-cut",
        "Connections in use are cut after the same time, or the same number of bytes, again and again.",
        "Someone limits the life of a connection: see the proxies, load balancers and firewalls between the two, and what runs on a timer. "
        "A broker that restarts is away for longer.",
        (
            "reconnect-loop",
            "connection-closed-by-broker",
            "connection-closed-by-client",
            "connection-reset",
            "frame-truncated",
            "reset-between",
        ),
        to_act="the network's operators, or the broker's operators",
    ),
)

THRESHOLDS = (
    counted(
        "regular-cut-connections",
        4,
        "connections",
        "Connections, one after the other, that end alike; three may be chance.",
        "regular-cut",
        least=2,
    ),
    in_seconds("regular-cut-seconds", 1, "Life of such a connection; what a broker refuses ends sooner.", "regular-cut"),
    counted(
        "regular-cut-bytes",
        20_000,
        "bytes",
        "Bytes of one direction after which such a connection ends; a few are alike.",
        "regular-cut",
        least=0,
    ),
    in_seconds(
        "regular-cut-back-seconds", 2, "Time until the client is connected again; the restart of a broker takes longer.", "regular-cut"
    ),
)

_ALIKE = 0.05
"""Values count as equal when they differ from the usual one by no more than this share."""

_MOST = 0.75
"""Share of the connections in use that must end alike; others may end by chance in between."""


_LIVES = 3
"""Lives of connections, one after the other, that must end alike: a server that goes out of service ends those of several clients once."""


def evaluate_regular_cuts(client: str, server: str, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report connections of a client to a server that were cut one after the other, each after the same time or number of bytes."""
    least, shortest = thresholds["regular-cut-connections"], thresholds.ns("regular-cut-seconds")
    in_use_ns, back_ns = thresholds.ns("idle-cut-seconds"), thresholds.ns("regular-cut-back-seconds")
    cut = [
        fact
        for fact in sorted(facts, key=lambda fact: fact.where.time)
        if fact.values["cut"] and fact.values["closed_by"] == SERVER and fact.values["course"][0] == "syn" and not fact.values["unheard"]
        if fact.values["course"][1]  # else the capture lacks the client's direction, in which its FIN may have come first
    ]
    if len(cut) < least:
        return
    starts = [fact.values["start"] for fact in facts if not fact.values["unheard"]]
    if _returned(sorted(starts), [fact.where.time for fact in cut[:-1]], back_ns) < _MOST * (len(cut) - 1):
        return
    cut = [fact for fact in cut if fact.where.time - fact.values["course"][3] < in_use_ns and fact.values["lifetime"] >= shortest]
    bytes_min = thresholds["regular-cut-bytes"]
    measures = (
        _alike(cut, lambda fact: fact.values["lifetime"], shortest, least, shortest),
        _alike(cut, lambda fact: fact.values["course"][2], bytes_min, least, shortest),
        _alike(cut, lambda fact: fact.values["course"][1], bytes_min, least, shortest),
    )
    kind = max(range(len(measures)), key=lambda index: (len(measures[index]), -index))  # an even rate makes all alike
    if not (same := measures[kind]):
        return
    values = [fact.values["course"][3 - kind] if kind else fact.values["lifetime"] for fact in same]
    usual = sorted(values)[len(values) // 2]
    after = f"about {usual:,} bytes from the {'broker' if kind == 1 else 'client'}" if kind else duration(usual)
    deciding = "regular-cut-bytes" if kind else "regular-cut-seconds"
    first = same[0]
    text = f"{plural(len(same), 'connection')} of {client} to {server} were cut while in use, one after the other, each after {after}."
    evidence = {
        "frames": frame_names(fact.values["frame"] for fact in same),
        "connections": [fact.where.connection for fact in cut[:DIAGNOSIS_NAMES_MAX]],
        "count": len(same),
        "usual": usual,
        "values": values[:DIAGNOSIS_NAMES_MAX],
        **thresholds.evidence("regular-cut-connections", deciding, "regular-cut-back-seconds"),
    }
    report("regular-cut", first.where._replace(time=first.values["last"]), text, evidence)


def _returned(starts: Sequence[int], ends: Sequence[int], back_ns: int) -> int:
    """Return how many of these ends a start follows soon; `starts` are in order."""
    following = ((end, bisect_left(starts, end)) for end in ends)
    return sum(at < len(starts) and starts[at] - end <= back_ns for end, at in following)


def _alike(cut: Sequence[Fact], value_of: Callable[[Fact], int], smallest: float, least: float, apart_ns: int) -> list[Fact]:
    """Return the connections that have about the usual value, if most do, and enough of them were cut at times of their own."""
    if len(cut) < least or (usual := sorted(map(value_of, cut))[len(cut) // 2]) < smallest:
        return []
    same = [fact for fact in cut if abs(value_of(fact) - usual) <= _ALIKE * usual]
    # Connections that end together have one cause, such as a stop of the broker.
    moments = 1 + sum(later.where.time - earlier.where.time >= apart_ns for earlier, later in pairwise(same))
    lives = until = 0
    for fact in sorted(same, key=lambda fact: fact.values["start"]):
        if fact.values["start"] >= until:
            lives, until = lives + 1, fact.where.time
    return same if moments >= least and lives >= min(least, _LIVES) and len(same) >= _MOST * len(cut) else []
