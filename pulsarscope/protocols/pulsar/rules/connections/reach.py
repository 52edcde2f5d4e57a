"""Addresses that brokers advertise to clients: unusable ones, and those at which nobody answers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from ipaddress import IPv4Network
from typing import ClassVar

from pulsarscope.dissect.contract.rules import ConnectionRule, Fact, Handlers, KeyRule, ReportFinding, RuleContext, Where, where_of
from pulsarscope.model.bounded_tables import remember
from pulsarscope.model.findings import RESET_BETWEEN, SESSION, table
from pulsarscope.model.flow import CLIENT, SERVER
from pulsarscope.model.limits import DIAGNOSIS_NAMES_MAX
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import Thresholds, counted, in_seconds
from pulsarscope.protocols.pulsar.rules.connections.addresses import advertised_addresses, is_loopback, literal_of, may_be
from pulsarscope.protocols.pulsar.rules.connections.handshakes import evaluate_handshakes
from pulsarscope.protocols.pulsar.rules.connections.outages import SILENT, evaluate_outages
from pulsarscope.protocols.pulsar.rules.connections.silence import report_still_silent
from pulsarscope.protocols.pulsar.rules.connections.unopened import (
    evaluate_dropped,
    evaluate_unopened,
    failure_of,
    kinds_of,
    without_unseen,
)
from pulsarscope.protocols.pulsar.rules.evidence import frame_names
from pulsarscope.protocols.pulsar.rules.exchanges.departures import CUT, REACH, WITHDRAWN
from pulsarscope.protocols.pulsar.rules.exchanges.requests import LATE, late_text
from pulsarscope.protocols.pulsar.text.formatting import host, listing

CODES = table(
    SESSION.error(
        "broker-unreachable",
        "Nobody answers at the address of a broker.",
        "Check that the broker runs, and look for a firewall in between. If a broker advertised the address, compare it with "
        "advertisedAddress, advertisedListeners and the client's listener name.",
        ("never-opened",),
        to_act="the broker's or the network's operators",
    ),
    SESSION.note(
        "broker-undecided",
        "At the end of the capture a client has not reached an address that a broker advertised, but is not seen to try for long.",
        "A longer capture would show whether the address works: while a broker starts or moves, it is refused for a moment.",
    ),
    SESSION.warning(
        "advertised-address-odd",
        "A broker sent a client an address that it cannot use: loopback, a container bridge, another address family, or a name that it "
        "does not know.",
        "Set advertisedAddress or advertisedListeners on the broker to an address that its clients can reach.",
        to_act="the broker's operators",
    ),
)

THRESHOLDS = (
    in_seconds(
        "broker-unreachable-seconds", 0.9, "Time without an answer to a SYN; TCP sends it again after 1 s (RFC 6298).", "broker-unreachable"
    ),
    in_seconds(
        "broker-unreachable-tries-seconds",
        2,
        "Time over which connection attempts fail; less is enough when the client then closes its connection to the broker.",
        "broker-unreachable",
    ),
    counted(
        "advertised-address-lookups",
        4,
        "lookups",
        "Lookups of one topic, each a second or more after the one before, by a client that connects nowhere; others ask again when the "
        "topic moves.",
        "advertised-address-odd",
        least=2,
    ),
    in_seconds(
        "advertised-address-again-seconds",
        1,
        "Time between two such lookups; an application may open several consumers of a topic at once.",
        "advertised-address-odd",
    ),
)

ADVERTISED, SPOKEN = "advertised", "spoken"
"""Facts on an address that was advertised to a client, and on a connection that is over."""

OPEN = "open"
"""Fact on a connection that has existed for a while (both sides send PING every 30 s). In a live run it may last for days."""

_OPEN_VALUES = {"server_bytes": 1, "client_bytes": 1, "closed": "open", "closed_by": None, "end": 2**63 - 1, "tls": None}

WANTED = "wanted"
"""Fact, under the host of a proxy: a client asked it for a connection to a broker, and got none."""

WANTED_WINDOW_NS = 60_000_000_000
"""Time after a request in which connection attempts of the proxy belong to the request."""

FORGET_NS = 600_000_000_000
"""Time without facts after which a client is evaluated: ten of its longest waits between two attempts."""

ADVERTISED_MAX = 100
"""Addresses advertised on one connection that are followed; clusters have fewer brokers."""

_BRIDGE = IPv4Network("172.17.0.0/16")
"""Network of Docker's default bridge, which every Docker host has."""
_LOOPBACK = "127.0.0.1"


class ReachRule(ConnectionRule):
    """The source of the facts on the brokers to which a client was sent, and those that it reached."""

    __slots__ = ("_advertised", "_asked", "_context", "_speaks", "_used")

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._advertised: frozenset[tuple[str, ...]] = frozenset()
        self._asked: dict[str | None, tuple[int, int]] = {}
        """By topic: how many lookups came a while after the previous one, and the time of the latest of them in nanoseconds."""
        self._used = False
        """True when the client did more on this connection than look up topics."""
        self._speaks = False

    def _speak(self, row: FrameRow) -> None:
        if row.direction == SERVER and not self._speaks:
            self._speaks = True
            values = {"server": self._context.server, "used": self._used, **_OPEN_VALUES}
            self._context.emit_fact(REACH, host(self._context.client), where_of(row), OPEN, values)

    def _use(self, _row: FrameRow) -> None:
        self._used = True

    def _advertise(self, row: FrameRow) -> None:
        if row.direction != SERVER:
            return
        fields = row.fields or {}
        addresses = advertised_addresses(fields)
        if row.command == "LOOKUP_RESPONSE" and addresses:
            pause_ns = self._context.thresholds.ns("advertised-address-again-seconds")
            times, latest = self._asked.get(row.topic, (0, -pause_ns))
            if row.time - latest >= pause_ns:
                remember(self._asked, row.topic, (times + 1, row.time), ADVERTISED_MAX)
        if (
            fields.get("proxy_through_service_url")
            or not addresses
            or addresses in self._advertised
            or len(self._advertised) >= ADVERTISED_MAX
        ):
            return
        self._advertised |= {addresses}
        client, asked = host(self._context.client), self._context.server
        advertised = {"addresses": list(addresses), "asked": asked, "client": client, "topic": row.topic, "command": row.command}
        self._context.emit_fact(REACH, client, where_of(row), ADVERTISED, advertised)
        if client != _LOOPBACK and any(is_loopback(host(address)) for address in addresses):
            # Connections to such an address are visible only on the client's own host.
            self._context.emit_fact(REACH, _LOOPBACK, where_of(row), ADVERTISED, advertised)

    def end(self, row: ConnectionRow, last: Where) -> None:  # noqa: ARG002 - the contract's
        """Emit whether the server answered."""
        values = {"server": self._context.server, "server_bytes": row.server_bytes, "client_bytes": row.client_bytes, "closed": row.closed}
        values |= {"closed_by": row.closed_by, "end": row.end, "used": self._used, "tls": row.tls}
        is_broken = row.closed == "rst" and row.closed_by == SERVER and not row.client_bytes  # the capture may lack the client's direction
        values["broken"] = is_broken and not self._context.reported(RESET_BETWEEN)
        values["lookups"] = max((times for times, _ in self._asked.values()), default=0)
        self._context.emit_fact(REACH, host(self._context.client), where_of(row), SPOKEN, values)

    frames: ClassVar[Handlers] = {
        **dict.fromkeys(("LOOKUP_RESPONSE", "TOPIC_MIGRATED", "CLOSE_PRODUCER", "CLOSE_CONSUMER"), _advertise),
        **dict.fromkeys(("PRODUCER", "SUBSCRIBE", "TC_CLIENT_CONNECT_REQUEST"), _use),
        **dict.fromkeys(("PING", "PONG"), _speak),
    }


def _since_reached(advertised: Sequence[Fact], server: str, spoken: Sequence[Fact], failures: Sequence[Fact]) -> list[Fact]:
    """Return the failures since the last successful connection to this server, or to another address of the same answers."""
    addresses = {address for fact in advertised for address in fact.values["addresses"]}
    asked = {fact.values["asked"] for fact in advertised}
    until = 0
    for fact in spoken:
        reached = fact.values["server"]
        # The broker that advertised the address gets further lookups: it only stands for a host name if it was tried instead.
        other = reached == server or reached not in asked or (fact.values.get("used", True) and fact.where.time > failures[0].where.time)
        if other and any(may_be(address, reached) for address in addresses):
            until = max(until, fact.values["end"])
    return [fact for fact in failures if fact.where.time >= until]


def _evaluate_reach(client: str, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report failed handshakes, advertised addresses at which nobody answers, and unusable ones."""
    advertised = [fact for fact in facts if fact.what == ADVERTISED]
    hosts = {host(fact.values["server"]) for fact in facts if fact.what in (SPOKEN, OPEN)}
    addresses = {address for fact in advertised for address in fact.values["addresses"]}

    def is_broker(server: str) -> bool:
        return host(server) in hosts or any(may_be(address, server) for address in addresses)

    ended = {fact.where.connection for fact in facts if fact.what == SPOKEN}
    connections = [
        fact
        for fact in facts
        if fact.what not in (ADVERTISED, WANTED, LATE, CUT) and not (fact.what == OPEN and fact.where.connection in ended)
    ]
    evaluate_handshakes(client, connections, is_broker if hosts or addresses else None, report, thresholds)
    failed: dict[str, list[Fact]] = {}
    spoken = []
    for fact in sorted(connections, key=lambda fact: fact.where.time):
        if fact.values["server_bytes"]:
            spoken.append(fact)
        elif failure_of(fact):
            failed.setdefault(fact.values["server"], []).append(fact)
    for server, failures in failed.items():
        failed[server] = without_unseen(failures, [fact for fact in connections if fact.values["server"] == server])
    _evaluate_wanted([fact for fact in facts if fact.what == WANTED], failed, report)
    late = [fact for fact in facts if fact.what == LATE]
    ends = sorted((fact for fact in facts if fact.what == CUT), key=lambda fact: fact.values["code"] != WITHDRAWN)
    cut = {fact.where.connection: fact for fact in ends}  # the end of a connection says more than that of its clients
    report_still_silent(client, [fact for fact in ends if fact.values["code"] == SILENT], connections, report, thresholds)
    for fact in late:
        failed.setdefault(fact.values["server"], [])
    for server, failures in failed.items():
        served = [fact for fact in spoken if fact.values["server"] == server]
        late = evaluate_outages(client, server, failures, served, late, cut, report, thresholds)
        if not failures:
            continue
        evaluate_dropped(client, server, failures, served, report, thresholds)
        named = [fact for fact in advertised if any(may_be(address, server) for address in fact.values["addresses"])]
        before = [fact for fact in named if fact.where.time <= failures[-1].where.time]
        led = [fact for fact in failures if before and fact.where.time >= before[0].where.time]
        if not before:
            evaluate_unopened(client, server, failures, spoken, report, thresholds)
        if not (led and (led := _since_reached(named, server, spoken, led))):
            continue
        if _is_certain(led, before, connections, thresholds):
            _report_unreachable("broker-unreachable", client, server, before, led, spoken, report)
        elif len(led) > 1:
            _report_unreachable("broker-undecided", client, server, before, led, spoken, report)
    for fact in late:
        report("slow-exchange", fact.where, late_text(fact.values["title"], fact.values["evidence"]["latency_ns"]), fact.values["evidence"])
    _evaluate_unseen(client, advertised, connections, report, thresholds)
    _report_odd(
        client, [fact for fact in advertised if fact.values["client"] == client], {fact.values["server"] for fact in spoken}, report
    )


def _evaluate_wanted(wanted: Sequence[Fact], failed: Mapping[str, Sequence[Fact]], report: ReportFinding) -> None:
    """Report brokers that a proxy did not reach for a client, each once."""
    reported: set[str] = set()
    for fact in wanted:
        target, proxy, begun = fact.values["target"], fact.values["proxy"], fact.where.time
        for server, failures in failed.items():
            tried = [failure for failure in failures if begun <= failure.where.time <= begun + WANTED_WINDOW_NS]
            if server in reported or not tried or not may_be(target.partition("://")[2] or target, server):
                continue
            reported.add(server)
            kinds = " or ".join(kinds_of(tried))
            answer = f"answers CONNECT {fact.where.name} with {fact.values['answer']}" if fact.values["answer"] else "does not connect it"
            text = (
                f"The proxy {proxy} does not reach broker {target} for client {fact.values['client']}: "
                f"{plural(len(tried), 'connection')} to {server} {'was' if len(tried) == 1 else 'were'} {kinds}; it {answer}."
            )
            evidence = {
                "frames": [fact.where.name],
                "connections": [each.where.connection for each in (fact, *tried)][:DIAGNOSIS_NAMES_MAX],
                "leg": "broker",
                "broker": server,
                "client": fact.values["client"],
                "count": len(tried),
            }
            report("proxy-leg-failed", fact.where, text, evidence)


def _is_certain(failures: Sequence[Fact], advertised: Sequence[Fact], connections: Sequence[Fact], thresholds: Thresholds) -> bool:
    """Return True unless the capture ends during one SYN, or while the client may still retry."""
    first, last = failures[0], failures[-1]
    is_one_syn = len(failures) == 1 and failure_of(first) == "unanswered"
    if is_one_syn and first.values["end"] - first.where.time < thresholds.ns("broker-unreachable-seconds"):
        return False
    tellers = {fact.where.connection for fact in advertised}  # other connections of the host may belong to another process
    later = [fact for fact in connections if fact.values["end"] > last.where.time]
    has_given_up = any(fact.where.connection in tellers and fact.values["closed_by"] == CLIENT for fact in later)
    seen = max(fact.where.time if fact.what == OPEN else fact.values["end"] for fact in connections)
    return has_given_up or seen - first.where.time >= thresholds.ns("broker-unreachable-tries-seconds")


def _report_unreachable(
    code: str, client: str, server: str, advertised: Sequence[Fact], failures: Sequence[Fact], spoken: Sequence[Fact], report: ReportFinding
) -> None:
    first, last = failures[0], failures[-1]
    source = max((fact for fact in advertised if fact.where.time <= first.where.time), key=lambda fact: fact.where.time)
    address = next(address for address in source.values["addresses"] if may_be(address, server))
    kinds = kinds_of(failures)
    worked = any(fact.values["server"] == server for fact in spoken)
    span = last.values["end"] - first.where.time
    topic = f" for {source.values['topic']}" if source.values["topic"] else ""
    text = (
        f"The broker {source.values['asked']} sent client {client} to {address}{topic} with {source.values['command']} "
        f"({source.where.name}), but {plural(len(failures), 'connection')} to {server} within {duration(span)} "
        f"{'was' if len(failures) == 1 else 'were'} {' or '.join(kinds)}{', after it had worked' if worked else ''}."
    )
    evidence = {
        "frames": frame_names(fact.where.name for fact in (source, *advertised)),
        "connections": [fact.where.connection for fact in failures[:DIAGNOSIS_NAMES_MAX]],
        "address": address,
        "server": server,
        "topic": source.values["topic"],
        "count": len(failures),
        "failures": kinds,
        "span_ns": span,
        "worked_before": worked,
    }
    report(code, source.where, text, evidence)


def _evaluate_unseen(
    client: str, advertised: Sequence[Fact], connections: Sequence[Fact], report: ReportFinding, thresholds: Thresholds
) -> None:
    """Report a client that was sent to brokers to which it has no connection in the capture, and did nothing where it asked."""
    unseen: dict[tuple[str, int], list[Fact]] = {}
    tellers = {fact.where.connection: fact for fact in connections if fact.what == SPOKEN}
    servers = {fact.values["server"] for fact in connections}
    in_use = {fact.values["server"] for fact in connections if fact.values.get("used", True) or fact.values["tls"]}
    reached: dict[tuple[str, ...], bool] = {}
    for fact in advertised:
        values, teller = fact.values, tellers.get(fact.where.connection)
        if values["command"] != "LOOKUP_RESPONSE" or values["client"] != client or teller is None or teller.values["used"]:
            continue
        if teller.values["end"] - fact.where.time < thresholds.ns("broker-unreachable-tries-seconds"):
            continue
        addresses = (values["asked"], *values["addresses"])
        if addresses not in reached:
            others = in_use | (servers - {values["asked"]})
            reached[addresses] = any(may_be(address, server) for address in values["addresses"] for server in others) or any(
                literal_of(host(address)) and may_be(address, values["asked"]) for address in values["addresses"]
            )
        if not reached[addresses] and next(_unusable(fact, ()), None) is None:
            unseen.setdefault((values["asked"], teller.values["lookups"]), []).append(fact)
    for (asked, lookups), facts in unseen.items():
        is_certain = lookups >= thresholds["advertised-address-lookups"]
        first, names = facts[0], list(dict.fromkeys(fact.values["addresses"][0] for fact in facts))
        text = f"The broker {asked} sent client {client} to {listing(names)} for {first.values['topic']} ({first.where.name}); "
        text += f"the client asked {plural(lookups - 1, 'time')} more, " if is_certain else ""
        text += (
            "and the capture has no connection to it: the client cannot resolve that name or reach that address, or the capture lacks it."
        )
        evidence = {"frames": frame_names(fact.where.name for fact in facts), "address": names[0], "asked": asked, "client": client}
        evidence |= {
            "lookups": lookups,
            **thresholds.evidence(*("advertised-address-lookups", "advertised-address-again-seconds") if is_certain else ()),
        }
        report("advertised-address-odd" if is_certain else "broker-undecided", first.where, text, evidence)


def _unusable(advertised: Fact, reached: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the advertised addresses that the client cannot use, each with the reason."""
    client, asked = literal_of(advertised.values["client"]), literal_of(host(advertised.values["asked"]))
    if client is None or client == asked or client.is_loopback:
        return
    for address in advertised.values["addresses"]:
        literal = literal_of(host(address))
        if any(may_be(address, server) for server in reached if server != advertised.values["asked"]) or literal == asked:
            continue
        if is_loopback(host(address)):
            yield address, "a loopback address, though the client is on another host"
        elif literal is None:
            continue
        elif literal.is_unspecified:
            yield address, "the unspecified address"
        elif literal.is_link_local and not (client.is_link_local or asked.is_link_local):
            yield address, "a link-local address"
        elif literal in _BRIDGE and client not in _BRIDGE and asked not in _BRIDGE:
            yield address, "an address of a container bridge"
        elif literal.version != client.version:
            yield address, f"an IPv{literal.version} address, though the client came by IPv{client.version} and did not connect to it"


def _report_odd(client: str, advertised: Sequence[Fact], reached: Collection[str], report: ReportFinding) -> None:
    odd: dict[tuple[str, str, str], list[Fact]] = {}
    for fact in advertised:
        for address, reason in _unusable(fact, reached):
            odd.setdefault((fact.values["asked"], address, reason), []).append(fact)
            break
    for (asked, address, reason), times in odd.items():
        first = times[0]
        topic = f" of {first.values['topic']}" if first.values["topic"] else ""
        text = f"The broker {asked} sent client {client} to {address}{topic} ({first.where.name}): {reason}."
        evidence = {"frames": frame_names(fact.where.name for fact in times), "address": address, "client": client, "asked": asked}
        report("advertised-address-odd", first.where, text, evidence)


KEYS = (KeyRule(REACH, FORGET_NS, _evaluate_reach),)
