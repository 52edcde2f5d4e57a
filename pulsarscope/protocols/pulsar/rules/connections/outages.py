"""Times without a broker: connections to it failed, or it fell silent, between two that worked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

from pulsarscope.dissect.contract.rules import Fact, ReportFinding, Where
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.limits import DIAGNOSIS_NAMES_MAX
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import Thresholds
from pulsarscope.protocols.pulsar.rules.connections.unopened import kinds_of
from pulsarscope.protocols.pulsar.rules.exchanges.departures import WITHDRAWN
from pulsarscope.protocols.pulsar.rules.exchanges.requests import late_text

CLOSED, SILENT = "connection-closed-by-broker", "keepalive-lost"
"""Findings on the end of a connection."""

CODES = table(
    SESSION.warning(
        "broker-down",
        "A broker closed a connection in use, or gave up its topics and refused requests, and was not there for a while: connections to it "
        "failed until one worked.",
        "A crash or a restart looks like this; the logs of the broker and of its host tell them apart (an out-of-memory kill, a failed "
        "probe). Messages sent meanwhile waited in the client or were rejected.",
        (CLOSED, "connection-reset", "data-after-close", "request-failed", "request-unanswered", "send-unanswered", "slow-publish"),
        to_act="the broker's operators",
    ),
    SESSION.note(
        "broker-outage",
        "A client was without a broker for a while: connections to it failed, or it fell silent, between two that worked.",
        "A restart of the broker looks like this. Messages sent meanwhile waited in the client or were rejected.",
    ),
)


def _last_to_end(former: Fact, latter: Fact) -> Fact:
    return former if former.values["end"] > latter.values["end"] else latter


def evaluate_outages(
    client: str,
    server: str,
    failures: Sequence[Fact],
    spoken: Sequence[Fact],
    late: Sequence[Fact],
    cut: Mapping[str, Fact],
    report: ReportFinding,
    thresholds: Thresholds,
) -> list[Fact]:
    """Report the periods in which connections to a server failed; return the late requests that no period explains.

    A period begins with the end of the last connection that worked, or when that one fell silent, and ends with the next one. A broker
    that comes back answers the first requests late. `cut`: by connection, the finding on its end.
    """
    explained: set[Where] = set()
    back_ns = thresholds.ns("slow-exchange-back-seconds")
    last: list[Fact | None] = [None, *accumulate(spoken, _last_to_end)]
    for lost, back in zip(last, spoken, strict=False):
        since, until = 0 if lost is None else lost.values["end"], back.where.time
        between = [fact for fact in failures if since <= fact.where.time < until]
        slow = [fact for fact in late if fact.values["server"] == server and 0 <= fact.where.time - until < back_ns]
        end = None if lost is None else cut.get(lost.where.connection)
        is_silent = end is not None and end.values["code"] == SILENT and since <= until
        silent_at = end.where.time if end is not None and is_silent and slow else 0  # its host took connections all the time
        is_long = any(
            kinds_of([fact]) == ["unanswered"] and fact.values["end"] - fact.where.time >= thresholds.ns("connect-dropped-seconds")
            for fact in between
        )
        if not (between or silent_at) or (lost is None and not slow and not is_long):
            continue
        explained.update(fact.where for fact in slow)
        since = silent_at or since or between[0].where.time
        if silent_at:
            until = max(fact.where.time + int(fact.values["evidence"]["latency_ns"]) for fact in slow)
        is_withdrawn = end is not None and end.values["code"] == WITHDRAWN
        ended = "" if lost is None else f"connection {lost.where.connection} {'fell silent' if silent_at else 'ended'}"
        if is_withdrawn:
            ended += " after the broker had given up its topics and refused requests"
        failed = f"{plural(len(between), 'connection')} failed ({' or '.join(kinds_of(between))})" if between else ""
        text = f"Client {client} was without broker {server} for {duration(until - since)}: {', '.join(filter(None, (ended, failed)))}"
        text += f"{', and' if between else ' and'} connection {back.where.connection} worked"
        evidence = {
            "connections": [fact.where.connection for fact in (*filter(None, [lost]), *between, back)][:DIAGNOSIS_NAMES_MAX],
            "server": server,
            "count": len(between),
            "span_ns": until - since,
            **(thresholds.evidence("broker-down-closing-seconds") if is_withdrawn else {}),
            **(thresholds.evidence("connect-dropped-seconds") if is_long and lost is None else {}),
        }
        if slow:
            slowest = max(slow, key=lambda fact: int(fact.values["evidence"]["latency_ns"]))
            evidence["frames"] = slowest.values["evidence"]["frames"]
            text += f"; {late_text(slowest.values['title'], slowest.values['evidence']['latency_ns'])[:-1]}"
        where = between[0].where if between else back.where
        is_down = end is not None and (end.values["code"] == CLOSED or (is_withdrawn and bool(between)))
        is_down = is_down or (lost is not None and lost.values.get("broken", False) and "refused" in kinds_of(between))
        report("broker-down" if is_down else "broker-outage", where, f"{text}.", evidence)
    return [fact for fact in late if fact.where not in explained]
