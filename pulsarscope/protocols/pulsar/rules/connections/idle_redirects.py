"""Clients that were redirected to another broker, and then do not appear in the capture again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from pulsarscope.dissect.contract.rules import ConnectionRule, Fact, Handlers, KeyRule, ReportFinding, RuleContext, Where, where_of
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.flow import SERVER
from pulsarscope.model.limits import FACTS_PER_KEY_MAX
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.model.text import duration
from pulsarscope.model.thresholds import Thresholds, in_seconds
from pulsarscope.protocols.pulsar.rules.connections.addresses import advertised_addresses, may_be
from pulsarscope.protocols.pulsar.rules.exchanges.open_transactions import evaluate_idle
from pulsarscope.protocols.pulsar.rules.exchanges.transactions import CONNECTIONS, TRANSACTION
from pulsarscope.protocols.pulsar.text.formatting import host, listing

CODES = table(
    SESSION.note(
        "redirect-unseen",
        "A client was redirected to another broker, and the capture does not show what it did next.",
        "Its connection to the other broker may not pass the capturing host: capture on the client's host.",
    ),
)

THRESHOLDS = (
    in_seconds(
        "redirect-idle-seconds",
        2,
        "Time without a lookup to the other broker; clients follow a redirect within milliseconds, or after a backoff of a second.",
        "redirect-not-followed",
        "redirect-unseen",
    ),
)


FORGET_NS = 24 * 3600 * 1_000_000_000
"""Time without facts for which connections are remembered: a redirect may lead to one that was opened long before."""

OPEN, ENDED = "open", "ended"
"""Facts on a connection that has existed for a while (both sides send PING every 30 s), and on one that is over."""


class Redirect(NamedTuple):
    """A LOOKUP_RESPONSE that redirects, after which the client sends that broker no more requests."""

    where: Where
    addresses: tuple[str, ...]
    topic: str | None


class RedirectRule(ConnectionRule):
    """Source of the facts on the last redirect of each connection, and on the connections to which redirects may lead."""

    __slots__ = ("_context", "_redirect", "_speaks")

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._speaks = False
        self._redirect: Redirect | None = None

    def _speak(self, row: FrameRow) -> None:
        if row.direction == SERVER and not self._speaks:
            self._speaks = True
            self._emit(where_of(row), OPEN, {})

    def _ask(self, _row: FrameRow) -> None:
        self._redirect = None

    def _answer(self, row: FrameRow) -> None:
        fields = row.fields or {}
        if fields.get("response") != "Redirect" or fields.get("proxy_through_service_url") or row.direction != SERVER:
            return
        if addresses := advertised_addresses(fields):
            self._redirect = Redirect(where_of(row), addresses, row.topic)

    def end(self, row: ConnectionRow, last: Where) -> None:  # noqa: ARG002 - the contract's
        """Emit that the connection is over, and the redirect that the client did not follow."""
        values = {"end": row.end, "closed": row.closed}
        self._emit(where_of(row), ENDED, values if self._redirect is None else {**values, "redirect": self._redirect})

    def _emit(self, where: Where, what: str, values: dict[str, Any]) -> None:
        self._context.emit_fact(CONNECTIONS, host(self._context.client), where, what, {"server": self._context.server, **values})

    frames: ClassVar[Handlers] = {
        "LOOKUP_RESPONSE": _answer,
        **dict.fromkeys(("PING", "PONG"), _speak),
        **dict.fromkeys(("LOOKUP", "PARTITIONED_METADATA", "GET_TOPICS_OF_NAMESPACE", "PRODUCER", "SUBSCRIBE"), _ask),
    }


def _is_redirected(fact: Fact) -> bool:
    return "redirect" in fact.values


def _evaluate_client(client: str, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report what a client (a host) left unfinished on all its connections."""
    if len(facts) >= FACTS_PER_KEY_MAX:
        return  # the fact on the connection with which the client continued may have been dropped
    evaluate_idle(client, facts, max((fact.values["end"] for fact in facts if fact.what == ENDED), default=0), report, thresholds)
    connections = [fact for fact in facts if fact.what != TRANSACTION]
    if any(map(_is_redirected, connections)):
        _evaluate_redirects(client, connections, report, thresholds)


def _evaluate_redirects(client: str, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report the redirects after which this client opened no connection, and had none to the broker named in them."""
    ends = {fact.where.connection: fact.values["end"] for fact in facts if fact.what != OPEN}
    end = max(ends.values(), default=0)
    latest = max(fact.where.time for fact in facts if fact.what != OPEN or fact.where.connection not in ends)
    for fact in filter(_is_redirected, facts):
        redirect, asked = Redirect(*fact.values["redirect"]), fact.values["server"]
        where = Where(*redirect.where)
        rest = (end if fact.values["closed"] == "open" else fact.values["end"]) - where.time
        if latest >= where.time or rest < thresholds.ns("redirect-idle-seconds"):
            continue
        others = (other for other in facts if other.where.connection != where.connection)
        servers = {other.values["server"] for other in others if ends.get(other.where.connection, where.time) >= where.time}
        if any(may_be(address, server) for address in redirect.addresses for server in servers):
            continue
        addresses, of = listing(redirect.addresses), f" of {redirect.topic}" if redirect.topic else ""
        text = f"The lookup{of} by {client} was redirected from {asked} to {addresses} ({where.name}), but "
        evidence: dict[str, Any] = {"frames": [where.name], "topic": redirect.topic, "client": client, "count": 1, "rest_ns": rest}
        evidence |= thresholds.evidence("redirect-idle-seconds")
        # Traffic of a client to another port of the same host passes the same capture point.
        if any(host(address) == host(asked) for address in redirect.addresses):
            report("redirect-not-followed", where, f"{text}did nothing for {duration(rest)}.", evidence)
        else:
            text += f"nothing follows within {duration(rest)}: it did nothing, or what it did is not in the capture."
            report("redirect-unseen", where, text, evidence)


def _decides(fact: Fact) -> bool:
    return _is_redirected(fact) or fact.what == TRANSACTION


KEYS = (KeyRule(CONNECTIONS, FORGET_NS, _evaluate_client, decides=_decides),)
