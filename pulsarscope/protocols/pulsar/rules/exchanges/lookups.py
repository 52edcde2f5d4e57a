"""Lookups that go in circles, and refusals because too many lookups wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

from pulsarscope.dissect.contract.rules import ConnectionRule, Fact, Handlers, KeyRule, ReportFinding, RuleContext, Where, name_of, where_of
from pulsarscope.model.bounded_tables import remember
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FrameRow
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import Thresholds, counted
from pulsarscope.protocols.pulsar.rules.evidence import frame_names, gap_note, latest_gap
from pulsarscope.protocols.pulsar.rules.exchanges.transactions import OTHER_REQUESTS
from pulsarscope.protocols.pulsar.text.formatting import error_message_text, host, listing

CODES = table(
    SESSION.warning(
        "lookup-loop",
        "Brokers redirect a lookup in circles, or again and again.",
        "The brokers disagree on who owns the bundle: look at their load manager, advertised addresses and listener names.",
        to_act="the broker's operators",
    ),
    SESSION.warning(
        "redirect-not-followed",
        "A client does not follow the redirect of a lookup to another broker.",
        "After a Redirect the client must send the LOOKUP again, to the broker that the answer names: mend or update the client.",
        to_act="the client library",
    ),
    SESSION.warning(
        "authoritative-dropped",
        "A client follows an authoritative redirect with a lookup that is not authoritative.",
        "The client must repeat the flag of the answer: without it the next broker may send it back. Mend or update the client.",
        to_act="the client library",
    ),
    SESSION.error(
        "too-many-requests",
        "The broker refused requests because too many wait.",
        "Spread out the start of clients, share one client among producers, or raise maxConcurrentLookupRequest.",
        to_act="the application",
    ),
)

THRESHOLDS = (
    counted(
        "redirect-not-followed-lookups",
        5,
        "lookups",
        "Lookups to the redirecting broker without one to the other; the client may ask the other outside the capture.",
        "redirect-not-followed",
        least=2,
    ),
    counted(
        "redirect-not-followed-beside-lookups",
        3,
        "lookups",
        "Lookups that are enough when both brokers are on one host, so that the capture would show lookups to the other.",
        "redirect-not-followed",
        least=2,
    ),
    counted(
        "lookup-loop-redirects",
        10,
        "redirects",
        "Redirects of one lookup, even to new addresses; clients give up after 20, and a bundle moves once.",
        "lookup-loop",
    ),
)

ERRORS = frozenset({"TooManyRequests"})
"""Errors that this rule reports."""

LOOKUPS = "lookups-of-client"

LOOKUP_NS = 60_000_000_000
"""Time without facts after which a lookup is evaluated: redirects end with the client's operation timeout, 30 s by default."""

REQUESTS_MAX = 1_000
"""LOOKUPs kept until their answer; a client has some hundreds at a time."""

SECONDS_MAX = 60
"""Seconds for which the evidence lists the lookups that waited: twice the operation timeout."""

HOPS_MAX = 20
"""Hops of a chain that the evidence lists."""

_DECIDING_REDIRECTS = 2
"""One redirect to the leader, and one from the leader to the owner that it chose."""

_COUNTED = ("LOOKUP", "PARTITIONED_METADATA", "GET_TOPICS_OF_NAMESPACE")
"""Commands that the limits of client and broker count as lookups."""


class LookupRule(ConnectionRule):
    """A rule about refused lookups on one connection, and the source of the facts on redirects."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._requests: dict[str, tuple[Where, bool, str | None]] = {}
        """Place, `authoritative` and topic of LOOKUPs, by frame name."""
        self._redirected: dict[str, bool] = {}
        """Topics whose lookup was redirected."""
        self._unpaired = -1
        """Time of the latest LOOKUP_RESPONSE whose LOOKUP the capture lacks or has later."""
        self._pending = self._pending_max = self._total = 0
        """Current number of lookups without an answer, its maximum, and the number of all lookups."""
        self._pending_at_first: int | None = None
        """Number of lookups without an answer when the first one was refused."""
        self._pending_by_second: dict[int, int] = {}
        """Maximum number of lookups without an answer, by second of the capture clock; only the latest seconds with a lookup."""
        self._refused: Counter[str] = Counter()
        """Refusals by command."""
        self._refusals: list[Where] = []
        """First and latest refusal."""
        self._message: str | None = None
        """Error message of the latest refusal."""

    def _request(self, row: FrameRow) -> None:
        self._total += 1
        self._pending += 1
        self._pending_max = max(self._pending_max, self._pending)
        second = row.time // 1_000_000_000
        remember(self._pending_by_second, second, max(self._pending_by_second.get(second, 0), self._pending), SECONDS_MAX)

    def _lookup(self, row: FrameRow) -> None:
        self._request(row)
        where = where_of(row)
        remember(self._requests, where.name, (where, bool((row.fields or {}).get("authoritative")), row.topic), REQUESTS_MAX)

    def _response(self, row: FrameRow) -> None:
        if (request := self._requests.pop(row.request or "", None)) is None or row.topic is None:
            self._unpaired = row.time
            return
        fields = row.fields or {}
        where, authoritative, _ = request
        hop = {
            "asked": self._context.server,
            "authoritative": authoritative,
            "response": fields.get("response", "Connect"),
            "answered_authoritative": bool(fields.get("authoritative")),
            "url": fields.get("brokerServiceUrl") or fields.get("brokerServiceUrlTls"),
            "error": fields.get("error"),
            "answered": row.time,
            "frame": name_of(row),
            "missed": self._missed(row),
        }
        self._context.emit_fact(LOOKUPS, f"{host(self._context.client)}\n{row.topic}", where, "hop", hop)
        if hop["response"] == "Redirect":
            remember(self._redirected, row.topic, True, REQUESTS_MAX)

    def _use(self, row: FrameRow) -> None:
        """Emit that a client creates its producer or consumer on a broker that has redirected it."""
        if self._redirected.pop(row.topic or "", False):
            waiting = [where.time for where, _, topic in self._requests.values() if topic == row.topic]  # an answer may be lost
            values = {"asked": self._context.server, "command": row.command, "missed": max(self._missed(row), *waiting, -1)}
            self._context.emit_fact(LOOKUPS, f"{host(self._context.client)}\n{row.topic}", where_of(row), "use", values)

    def _missed(self, row: FrameRow) -> int:
        """Return the time of the latest place before a row at which a lookup or its answer may be missing; -1: there is none."""
        return max(self._unpaired, latest_gap(self._context, row.time))

    def _lookup_exchange(self, row: ExchangeRow) -> None:
        self._exchange(row)
        self._pending = max(self._pending - 1, 0)

    def _exchange(self, row: ExchangeRow) -> None:
        if row.error not in ERRORS:
            return
        if self._pending_at_first is None:
            self._pending_at_first = self._pending
        self._refused[row.request or "request"] += 1
        self._refusals[1:] = [where_of(row)]
        self._message = row.error_message

    def end(self, row: ConnectionRow, last: Where) -> None:  # noqa: ARG002 - the contract's
        """Report the refusals."""
        if not self._refusals:
            return
        first, latest = self._refusals[0], self._refusals[-1]
        number = self._refused.total()
        commands = ", ".join(plural(times, command) for command, times in self._refused.items())
        span = duration(latest.time - first.time)
        text = (
            f"{plural(number, 'request')} of {self._context.client} {'was' if number == 1 else 'were'} refused with TooManyRequests "
            f"within {span} ({commands}); up to {plural(self._pending_max, 'lookup')} waited at once, "
            f"{self._pending_at_first:,} when the first was refused{gap_note(lost=self._context.lost)}."
        )
        evidence = {
            "frames": frame_names([first.name, latest.name]),
            "refused": dict(self._refused),
            "count": number,
            "lookups": self._total,
            "outstanding_max": self._pending_max,
            "outstanding_at_first": self._pending_at_first,
            "outstanding_by_second": {str(second): most for second, most in self._pending_by_second.items()},
            "message": error_message_text(self._message),
        }
        self._context.report("too-many-requests", first, text, evidence)

    frames: ClassVar[Handlers] = {
        **dict.fromkeys(_COUNTED, _request),
        "LOOKUP": _lookup,
        "LOOKUP_RESPONSE": _response,
        "PRODUCER": _use,
        "SUBSCRIBE": _use,
    }
    exchanges: ClassVar[Handlers] = dict.fromkeys(OTHER_REQUESTS, _exchange) | dict.fromkeys(_COUNTED, _lookup_exchange)


def _may_lead_to(hop: Fact, server: str) -> bool:
    """Return True when a redirect may name this server; a host name may stand for any server except the one that redirects."""
    address = (hop.values["url"] or "").partition("://")[2].rstrip("/")
    name, _, port = address.rpartition(":")
    if not name or not port.isdigit():
        return bool(server != hop.values["asked"])
    if name.startswith("[") or name.replace(".", "").isdigit():
        return bool(address == server)
    return bool(port == server.rpartition(":")[2] and server != hop.values["asked"])


def _follows(fact: Fact, redirect: Fact, uses: Sequence[Fact] = ()) -> bool:
    """Return True when no lookup can be missing between a redirect and a later fact, on its connection or before one of the uses."""
    answered, time = redirect.values["answered"], fact.where.time
    followed = any(answered <= use.where.time < time and _may_lead_to(redirect, use.values["asked"]) for use in uses)
    return bool(fact.values["missed"] < answered <= time) and not followed


def _chains(hops: Sequence[Fact], uses: Sequence[Fact]) -> list[list[Fact]]:
    """Return each lookup with the lookups that followed its redirects."""
    chains: list[list[Fact]] = []
    redirected: list[list[Fact]] = []
    """Chains that end with a redirect, so far."""
    for hop in hops:
        server = hop.values["asked"]
        previous = (chain for chain in redirected if _follows(hop, chain[-1], uses) and _may_lead_to(chain[-1], server))
        if (chain := next(previous, None)) is None:
            chains.append(chain := [])
        else:
            redirected.remove(chain)
        chain.append(hop)
        if hop.values["response"] == "Redirect":
            redirected.append(chain)
    return chains


def _is_decided(chain: Sequence[Fact]) -> bool:
    """Return True when a broker decided which one serves the bundle, and that one does.

    A broker without the bundle sends the client to the leader, and the leader, which picks an owner, may send it back.
    """
    decision, last = chain[-2].values, chain[-1].values
    return bool(decision["answered_authoritative"] and last["authoritative"] and last["response"] == "Connect")


def _evaluate_followers(client: str, topic: str, hops: Sequence[Fact], uses: Sequence[Fact], report: ReportFinding) -> None:
    """Report an authoritative redirect that the next lookup follows without the flag `authoritative`."""
    for position, redirect in enumerate(hops):
        values = redirect.values
        if values["response"] != "Redirect" or not values["answered_authoritative"]:
            continue
        followers = [
            hop for hop in hops[position + 1 :] if hop.where.time >= values["answered"] and _may_lead_to(redirect, hop.values["asked"])
        ]
        if not followers or followers[0].values["authoritative"] or not _follows(followers[0], redirect, uses):
            continue
        first = followers[0]
        text = (
            f"The lookup of {topic} by {client} was redirected to {values['url']} with authoritative ({values['frame']}), and went on at "
            f"{first.values['asked']} without ({first.where.name})."
        )
        evidence = {"frames": [values["frame"], first.where.name], "topic": topic, "client": client, "count": len(followers)}
        report("authoritative-dropped", first.where, text, evidence)
        return


def _evaluate_uses(client: str, topic: str, facts: Sequence[Fact], report: ReportFinding) -> None:
    """Report a producer or consumer that is created on the broker that redirected its lookup, when no later answer led there."""
    for use in (fact for fact in facts if fact.what == "use"):
        hops = [fact for fact in facts if fact.what == "hop" and fact.values["answered"] <= use.where.time]
        redirects = [hop for hop in hops if hop.values["response"] == "Redirect" and hop.values["asked"] == use.values["asked"]]
        if (
            not redirects
            or not _follows(use, redirects[-1])
            or any(hop.values["response"] == "Connect" and hop.values["answered"] >= redirects[-1].values["answered"] for hop in hops)
        ):
            continue
        _report_not_followed(
            client, topic, redirects, f"sent its {use.values['command']} to {use.values['asked']} ({use.where.name})", use, report
        )
        return


def _evaluate_repeats(client: str, topic: str, hops: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report a broker that redirects a client repeatedly although the client never asks the other broker."""
    groups: dict[tuple[str, str], list[Fact]] = {}
    for hop in hops:
        if hop.values["response"] == "Redirect":
            groups.setdefault((hop.values["asked"], hop.values["url"] or ""), []).append(hop)
    for (asked, _), redirects in groups.items():
        address = (redirects[0].values["url"] or "").partition("://")[2].rpartition(":")[0]
        is_beside = address == asked.rpartition(":")[0]
        least = int(thresholds["redirect-not-followed-beside-lookups" if is_beside else "redirect-not-followed-lookups"])
        if len(redirects) < least or _may_lead_to(redirects[0], asked):
            continue
        before = [hop for hop in hops if hop.where.time <= redirects[least - 1].where.time]  # later lookups do not change the verdict
        if any(hop.values["asked"] != asked or hop.values["response"] == "Connect" for hop in before):
            continue
        _report_not_followed(client, topic, redirects, f"asked {asked} again, {len(redirects):,} times", redirects[-1], report)


def _report_not_followed(client: str, topic: str, redirects: Sequence[Fact], done: str, last: Fact, report: ReportFinding) -> None:
    values = redirects[-1].values
    text = f"The lookup of {topic} by {client} was redirected to {values['url']} ({values['frame']}), but the client {done}."
    names = [*(hop.values["frame"] for hop in redirects), last.where.name]
    evidence = {"frames": frame_names(names), "topic": topic, "client": client, "count": len(redirects)}
    report("redirect-not-followed", redirects[0].where, text, evidence)


def _evaluate_lookups(key: str, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report chains that return to a broker, or that do not end."""
    client, _, topic = key.partition("\n")
    hops_asked = [fact for fact in facts if fact.what == "hop"]
    uses = [fact for fact in facts if fact.what == "use"]
    _evaluate_followers(client, topic, hops_asked, uses, report)
    _evaluate_uses(client, topic, facts, report)
    _evaluate_repeats(client, topic, hops_asked, report, thresholds)
    for chain in _chains(hops_asked, uses):
        redirects = sum(hop.values["response"] == "Redirect" for hop in chain)
        servers = [hop.values["asked"] for hop in chain]
        circle = len(set(servers)) < len(servers)
        decided = redirects == _DECIDING_REDIRECTS and _is_decided(chain)
        if (decided or not (circle and redirects > 1)) and redirects < thresholds["lookup-loop-redirects"]:
            continue
        last = chain[-1].values
        ending = {
            "Connect": f"it ended with Connect to {last['url']}",
            "Redirect": f"no lookup follows the redirect to {last['url']}",
        }.get(last["response"], f"it failed with {last['error']}")
        span = duration(last["answered"] - chain[0].where.time)
        once = next((at for at, server in enumerate(servers) if server in servers[:at]), len(servers))
        shown = [*servers[: once + 1], *([f"{len(servers) - once - 1:,} more"] if len(servers) > once + 2 else servers[once + 1 :])]
        path = f"{plural(redirects, 'redirect')} in {span}: {listing(shown, ' → ', ' → ')}"
        text = f"The lookup of {topic} by {client} was redirected {'in circles' if circle else 'again and again'}, {path}; {ending}."
        hops = [
            {name: hop.values[name] for name in ("asked", "authoritative", "response", "url")} | {"frame": hop.where.name}
            for hop in chain[:HOPS_MAX]
        ]
        names = frame_names(name for hop in chain for name in (hop.where.name, hop.values["frame"]))
        evidence = {"frames": names, "hops": hops, "redirects": redirects, "circle": circle, "topic": topic, "client": client}
        report("lookup-loop", chain[0].where, text, evidence)


KEYS = (KeyRule(LOOKUPS, LOOKUP_NS, _evaluate_lookups, early=True),)
