"""Lookups that go round in circles, and those of which there are too many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from pulsarscope.dissect.rules import ConnectionRule, Fact, Handlers, KeyRule, ReportFinding, RuleContext, Where, where_of
from pulsarscope.model.findings import ERROR, WARNING, Code, table
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FrameRow
from pulsarscope.protocols.pulsar.rules.phrases import count, frames, host, lacking, said, seconds, some
from pulsarscope.protocols.pulsar.session.exchanges import ANSWERED_BY

CODES = table(
    Code(
        "lookup-loop",
        WARNING,
        "session",
        "Brokers send a client round in circles, or on and on, when it looks for a topic.",
        "The brokers disagree on who owns the bundle: look at their load manager, advertised addresses and listener names.",
    ),
    Code(
        "too-many-requests",
        ERROR,
        "session",
        "The broker refused requests because too many wait.",
        "Spread out the start of clients, share one client among producers, or raise maxConcurrentLookupRequest.",
    ),
)

ERRORS = frozenset({"TooManyRequests"})
"""Refusals that are told here."""

LOOKUPS = "lookups-of-client"

LOOKUP_NS = 60_000_000_000
"""A chain of redirects goes on within the client's operation timeout, 30 s by default."""

HOPS_MAX = 10
"""So many redirects are too many without a circle, too: clients give up after 20, bundles move once."""

ASKED_MAX = 1_000
"""Lookups kept until their answer; clients have some thousands on the way at most, and only those that wait need to be known."""

SECONDS_MAX = 60
"""Seconds of which the evidence tells how many lookups waited: twice the operation timeout."""

_COUNTED = ("LOOKUP", "PARTITIONED_METADATA", "GET_TOPICS_OF_NAMESPACE")
"""What the limits of client and broker count as lookups."""


class Lookups(ConnectionRule):
    """See `pulsarscope.dissect.rules.ConnectionRule`."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._asked: dict[str, tuple[Where, bool]] = {}
        """Place and `authoritative` of LOOKUPs by name of the frame."""
        self._outstanding = self._most = self._total = 0
        """Lookups that wait now, that did at once, and all."""
        self._at_first: int | None = None
        """How many waited when the first was refused."""
        self._by_second: dict[int, int] = {}
        """How many waited at once, by second of the capture clock; the latest seconds in which any was asked."""
        self._refused: Counter[str] = Counter()
        self._places: list[Where] = []
        """First and latest refusal."""
        self._message: str | None = None

    def _request(self, row: FrameRow) -> None:
        self._total += 1
        self._outstanding += 1
        self._most = max(self._most, self._outstanding)
        second = (row.time or 0) // 1_000_000_000
        self._by_second[second] = max(self._by_second.get(second, 0), self._outstanding)
        if len(self._by_second) > SECONDS_MAX:
            del self._by_second[next(iter(self._by_second))]

    def _lookup(self, row: FrameRow) -> None:
        self._request(row)
        where = where_of(row)
        self._asked[where.name] = where, bool((row.fields or {}).get("authoritative"))
        if len(self._asked) > ASKED_MAX:
            del self._asked[next(iter(self._asked))]

    def _response(self, row: FrameRow) -> None:
        asked = self._asked.pop(row.request or "", None)
        if asked is None or row.topic is None:
            return
        fields = row.fields or {}
        where, authoritative = asked
        hop = {
            "asked": self._context.server,
            "authoritative": authoritative,
            "response": fields.get("response", "Connect"),
            "url": fields.get("brokerServiceUrl") or fields.get("brokerServiceUrlTls"),
            "error": fields.get("error"),
            "answered": row.time,
            "frame": where_of(row).name,
        }
        self._context.emit_fact(LOOKUPS, f"{host(self._context.client)}\n{row.topic}", where, "hop", hop)

    def _answered(self, row: ExchangeRow) -> None:
        self._refusal(row)
        self._outstanding = max(self._outstanding - 1, 0)

    def _refusal(self, row: ExchangeRow) -> None:
        if row.error not in ERRORS:
            return
        if self._at_first is None:
            self._at_first = self._outstanding
        where = where_of(row)
        self._refused[row.request or "request"] += 1
        self._places = [self._places[0] if self._places else where, where]
        self._message = row.error_message

    def end(self, row: ConnectionRow, last: Where) -> None:  # noqa: ARG002 - the contract's
        """See `ConnectionRule`."""
        if not self._places:
            return
        first, latest = self._places
        number = self._refused.total()
        commands = ", ".join(f"{count(times, command)}" for command, times in self._refused.items())
        text = (
            f"{count(number, 'request')} of {self._context.client} {'was' if number == 1 else 'were'} refused with TooManyRequests within "
            f"{seconds(latest.time - first.time)} ({commands}); up to {count(self._most, 'lookup')} waited at once, "
            f"{self._at_first:,} when the first was refused{lacking(lost=self._context.lost)}."
        )
        evidence = {
            "frames": frames(place.name for place in self._places),
            "refused": dict(self._refused),
            "count": number,
            "lookups": self._total,
            "outstanding_max": self._most,
            "outstanding_at_first": self._at_first,
            "outstanding_by_second": {str(second): most for second, most in self._by_second.items()},
            "message": said(self._message),
        }
        self._context.report("too-many-requests", first, text, evidence)

    frames: ClassVar[Handlers] = {
        **dict.fromkeys(_COUNTED, _request),
        "LOOKUP": _lookup,
        "LOOKUP_RESPONSE": _response,
    }
    exchanges: ClassVar[Handlers] = dict.fromkeys(ANSWERED_BY, _refusal) | dict.fromkeys(_COUNTED, _answered)


class Hop(NamedTuple):
    """One answer to a LOOKUP."""

    where: Where
    values: dict[str, Any]


def _leads_to(hop: Hop, server: str) -> bool:
    """Whether a redirect may name this server; a name that is no address may be any, but not the one that was asked."""
    address = (hop.values["url"] or "").partition("://")[2].rstrip("/")
    name, _, port = address.rpartition(":")
    if not name or not port.isdigit():
        return bool(server != hop.values["asked"])
    if name.startswith("[") or name.replace(".", "").isdigit():
        return bool(address == server)
    return bool(port == server.rpartition(":")[2] and server != hop.values["asked"])


def _chains(facts: Sequence[Fact]) -> list[list[Hop]]:
    """Each lookup with those to which redirects led it."""
    chains: list[list[Hop]] = []
    waiting: list[list[Hop]] = []
    """Chains that end with a redirect, so far."""
    for fact in facts:
        hop = Hop(fact.where, fact.values)
        asked = hop.values["asked"]
        chain = next((one for one in waiting if one[-1].values["answered"] <= fact.where.time and _leads_to(one[-1], asked)), None)
        if chain is None:
            chains.append(chain := [])
        else:
            waiting.remove(chain)
        chain.append(hop)
        if hop.values["response"] == "Redirect":
            waiting.append(chain)
    return chains


def _evaluate_lookups(key: str, facts: Sequence[Fact], report: ReportFinding) -> None:
    """Chains that come to a broker again, or do not come to an end."""
    client, _, topic = key.partition("\n")
    for chain in _chains(facts):
        redirects = [hop for hop in chain if hop.values["response"] == "Redirect"]
        asked = [hop.values["asked"] for hop in chain]
        circle = len(set(asked)) < len(asked)
        if not (circle and len(redirects) > 1) and len(redirects) < HOPS_MAX:
            continue
        last = chain[-1].values
        ending = {
            "Connect": f"it ended with Connect to {last['url']}",
            "Redirect": f"no lookup follows the redirect to {last['url']}",
        }.get(last["response"], f"it failed with {last['error']}")
        passed = seconds(last["answered"] - chain[0].where.time)
        way = "in circles" if circle else "on and on"
        turns = f"{count(len(redirects), 'redirect')} in {passed}: {some(asked, ' → ')}"
        text = f"The lookup of {topic} by {client} was sent {way}, {turns}; {ending}."
        hops = [
            {name: hop.values[name] for name in ("asked", "authoritative", "response", "url")} | {"frame": hop.where.name}
            for hop in chain[:20]
        ]
        names = [name for hop in chain for name in (hop.where.name, hop.values["frame"])]
        evidence = {"frames": frames(names), "hops": hops, "redirects": len(redirects), "circle": circle, "topic": topic, "client": client}
        report("lookup-loop", chain[0].where, text, evidence)


KEYS = (KeyRule(LOOKUPS, LOOKUP_NS, _evaluate_lookups, early=True),)
