"""Connections to brokers that fail at their start."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from pulsarscope.dissect.contract.rules import UNREAD, Fact, ReportFinding
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.flow import SERVER
from pulsarscope.model.limits import DIAGNOSIS_NAMES_MAX
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import Thresholds, counted, in_seconds
from pulsarscope.protocols.pulsar.ports import PLAIN_PORT, TLS_PORT
from pulsarscope.protocols.pulsar.text.formatting import listing, port

CODES = table(
    SESSION.warning(
        "listed-broker-dead",
        "A client keeps trying a broker that never answers, while other brokers answer it.",
        "Its service URL, or the name in it, leads to the address of a host that is gone or behind a firewall. Each attempt costs the "
        "client its connection timeout: remove the address, or bring the broker back.",
        ("never-opened",),
        to_act="the application, or the broker's operators",
    ),
    SESSION.warning(
        "connect-dropped",
        "A broker that answers other connections of a client left some without an answer, however often their SYN was sent again.",
        "A firewall or NAT drops them, or its table of connections is full; or the broker's host does, as its queues of new connections "
        "are full: see there nstat -az TcpExtListenOverflows TcpExtListenDrops. Each attempt costs the client its connection timeout.",
        ("never-opened",),
        to_act="the network's or the broker's operators",
    ),
)

THRESHOLDS = (
    counted("listed-broker-dead-tries", 3, "connections", "Connections to it without an answer to their SYNs.", "listed-broker-dead"),
    in_seconds(
        "listed-broker-dead-seconds",
        20,
        "Time over which a client begins them; one that has lost its broker tries it a few times, and then uses another one.",
        "listed-broker-dead",
    ),
    in_seconds(
        "connect-dropped-seconds",
        2,
        "Time for which a SYN is sent again without an answer: it is lost more than once.",
        "connect-dropped",
        "broker-outage",
    ),
)

BROKER_PORTS = frozenset({PLAIN_PORT, TLS_PORT})

_UNOPENED = ("refused", "unanswered")
"""Failures without a connection; all others show a server that is there."""


def failure_of(fact: Fact) -> str | None:
    """Return how a connection failed before the server sent anything; None when it did not fail."""
    values = fact.values
    if values["server_bytes"] or values["closed_by"] not in (None, SERVER):
        return None
    if values["closed"] == "open":
        return None if values["client_bytes"] else "unanswered"
    return "closed at once" if values["closed"] == "fin" else "reset" if values["client_bytes"] else "refused"


def kinds_of(failures: Iterable[Fact]) -> list[str]:
    """Return how connections failed, each way once."""
    return list(dict.fromkeys(failure_of(fact) or "" for fact in failures))


def without_unseen(failures: Iterable[Fact], connections: Iterable[Fact]) -> list[Fact]:
    """Return the failures of connections to a server, given all of them, without those that a capture of one direction may only feign."""
    heard = [(bool(fact.values["client_bytes"]), bool(fact.values["server_bytes"])) for fact in connections]
    is_one_sided = (True, True) not in heard and any(client != server for client, server in heard)
    return [fact for fact in failures if not (is_one_sided and failure_of(fact) == "unanswered")]


def evaluate_dropped(
    client: str, server: str, failures: Sequence[Fact], served: Sequence[Fact], report: ReportFinding, thresholds: Thresholds
) -> None:
    """Report connections without an answer to their SYNs while others to this server (`served`) worked, and before it answered one more.

    Those before the first, or between two, are a time without a broker, and after the last one nobody may be there any more.
    """
    last = max((fact.where.time for fact in served), default=0)
    least_ns = thresholds.ns("connect-dropped-seconds")
    dropped = []
    for fact in failures:
        begun, end = fact.where.time, fact.values["end"]
        before = [other for other in served if other.where.time <= begun]
        meanwhile = any(other.values["end"] > begun for other in before)
        if failure_of(fact) == "unanswered" and end - begun >= least_ns and begun < last and meanwhile:
            dropped.append(fact)
    if not dropped:
        return
    longest = max(fact.values["end"] - fact.where.time for fact in dropped)
    text = f"{server} never answered {plural(len(dropped), 'connection')} of client {client}, whose SYNs were sent again for up to "
    text += f"{duration(longest)}, and answered {plural(len(served), 'other')}."
    evidence = {
        "connections": [fact.where.connection for fact in dropped[:DIAGNOSIS_NAMES_MAX]],
        "server": server,
        "count": len(dropped),
        "answered": len(served),
        "longest_ns": longest,
        **thresholds.evidence("connect-dropped-seconds"),
    }
    report("connect-dropped", dropped[0].where, text, evidence)


def evaluate_unopened(
    client: str, server: str, failures: Sequence[Fact], spoken: Sequence[Fact], report: ReportFinding, thresholds: Thresholds
) -> None:
    """Report a broker to which a client opens no connection, although no broker sent it there: the address is from its configuration.

    Such a client may have a list of brokers: it is fine while another one answers at this port. A client of several clusters is not told
    apart from that.
    """
    number = port(server)
    if number not in BROKER_PORTS and not any(fact.what != UNREAD and fact.values["server"] == server for fact in spoken):
        return
    spoken = [fact for fact in spoken if port(fact.values["server"]) == number]
    if all(fact.values["server"] != server for fact in spoken):
        _evaluate_listed(client, server, failures, spoken, report, thresholds)
    until = max((_served_until(fact, server) for fact in spoken), default=0)
    tried = [fact for fact in failures if fact.what == UNREAD and fact.where.time >= until and failure_of(fact) in _UNOPENED]
    if not tried or (span := tried[-1].values["end"] - tried[0].where.time) < thresholds.ns("broker-unreachable-tries-seconds"):
        return
    kinds = kinds_of(tried)
    worked = any(fact.values["server"] == server for fact in spoken)
    attempts = f"{len(tried):,} connections within {duration(span)} were" if len(tried) > 1 else f"for {duration(span)}, a connection was"
    text = f"Client {client} does not reach broker {server}: {attempts} {' or '.join(kinds)}{', after it had worked' if worked else ''}."
    evidence = {
        "connections": [fact.where.connection for fact in tried[:DIAGNOSIS_NAMES_MAX]],
        "server": server,
        "count": len(tried),
        "failures": kinds,
        "span_ns": span,
        "worked_before": worked,
        **thresholds.evidence("broker-unreachable-tries-seconds"),
    }
    report("broker-unreachable", tried[0].where, text, evidence)


def _evaluate_listed(
    client: str, server: str, failures: Sequence[Fact], spoken: Sequence[Fact], report: ReportFinding, thresholds: Thresholds
) -> None:
    """Report a broker that never answers, and that a client tries again and again, though others answer it meanwhile (`spoken`)."""
    tried = [fact for fact in failures if fact.what == UNREAD and failure_of(fact) == "unanswered"]
    if len(tried) < thresholds["listed-broker-dead-tries"]:
        return
    first, last = tried[0].where.time, tried[-1].where.time
    meanwhile = [fact for fact in spoken if fact.where.time <= last and _served_until(fact, server) >= first]
    others = list(dict.fromkeys(fact.values["server"] for fact in meanwhile))
    if (span := last - first) < thresholds.ns("listed-broker-dead-seconds") or not others:
        return
    text = f"Client {client} opened {len(tried):,} connections to {server} within {duration(span)}, and none was answered; "
    text += f"it also uses {listing(others)}."
    evidence = {
        "connections": [fact.where.connection for fact in tried[:DIAGNOSIS_NAMES_MAX]],
        "server": server,
        "others": others[:DIAGNOSIS_NAMES_MAX],
        "count": len(tried),
        "span_ns": span,
        **thresholds.evidence("listed-broker-dead-tries", "listed-broker-dead-seconds"),
    }
    report("listed-broker-dead", tried[0].where, text, evidence)


def _served_until(fact: Fact, server: str) -> float:
    """Return the time until which a connection shows that the client needs no new one to this server, or got one."""
    values = fact.values
    if values["server"] == server:
        return fact.where.time
    return inf if values["closed"] == "open" else float(values["end"])
