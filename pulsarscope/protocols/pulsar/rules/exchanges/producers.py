"""Producers and consumers that are refused because of others: who was refused, who held the place, and whether the holder was alive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from pulsarscope.dissect.contract.rules import Fact, KeyRule, ReportFinding, Where
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.limits import DIAGNOSIS_NAMES_MAX
from pulsarscope.model.text import duration
from pulsarscope.model.thresholds import Thresholds, in_seconds
from pulsarscope.protocols.pulsar.rules.evidence import capitalized, frame_names, gap_note
from pulsarscope.protocols.pulsar.rules.exchanges.holders import CONSUMERS, PRODUCERS, QUEUED
from pulsarscope.protocols.pulsar.text.formatting import host, listing

CODES = table(
    SESSION.error(
        "producer-busy",
        "A producer was refused because another holds its name, or the topic for itself, or because a limit is reached.",
        "Two applications with one producer name, or a connection that died unnoticed: the broker frees it after its keep-alive time. "
        "Where the broker names a limit: close producers that are not used, or raise it.",
        to_act="the application",
    ),
    SESSION.error(
        "producer-fenced",
        "A producer lost its topic to another with exclusive access.",
        "Messages that it sends after that are not stored: let only one application take the topic with ExclusiveWithFencing. "
        "The broker closes the connection of a fenced producer that sends on.",
        ("connection-closed-by-broker",),
        to_act="the application",
    ),
    SESSION.note(
        "producer-replaced",
        "A producer took its topic over from another one, which ended shortly afterwards or was dead.",
        "A new instance of an application replaces the old one so, with ExclusiveWithFencing.",
    ),
    SESSION.note(
        "producer-waiting",
        "A producer waited for exclusive access to its topic, and did not get it.",
        "A standby does this on purpose. Otherwise check whether the producer that holds the topic is alive and still needed.",
    ),
    SESSION.error(
        "consumer-busy",
        "A consumer was refused because another holds the subscription, or because a limit is reached.",
        "Use one subscription type for all its consumers, Shared or Failover for several; a dead holder is removed after the "
        "keep-alive time. Where the broker names a limit: close consumers that are not used, or raise it.",
        to_act="the application",
    ),
)

THRESHOLDS = (
    in_seconds(
        "dead-holder-seconds",
        10,
        "Time without an answer to a PING after which a client counts as dead; round trips and pauses are shorter.",
        "producer-busy",
        "consumer-busy",
    ),
    in_seconds(
        "producer-replaced-seconds",
        5,
        "Time in which a producer that lost its topic closes; one that does not know it continues.",
        "producer-fenced",
        "producer-replaced",
    ),
    in_seconds(
        "producer-fenced-back-seconds",
        60,
        "Time in which a producer takes the topic back; two that do so in turn contend for it, while a restart takes it once.",
        "producer-fenced",
    ),
    in_seconds(
        "producer-waiting-seconds", 1, "Time that a producer waits; a holder that leaves makes room within a second.", "producer-waiting"
    ),
)

HOLDING_NS = 24 * 3_600 * 1_000_000_000
"""Time without facts after which a place is evaluated: an old holder causes no facts until another client is refused."""

HOLDERS_MAX = 3
"""Holders that a finding names."""

ATTEMPTS_MAX = 10
"""Refused attempts and fenced producers that the evidence lists."""


class Tenure(NamedTuple):
    """A period in which a producer held a topic, or a consumer a subscription."""

    where: Where
    request: dict[str, Any]
    """Values of its request and the answer."""
    until: int | None
    """Time at which it was given up, in nanoseconds; None if the capture does not show that."""
    last_active: int | None
    """Time of the connection's last frame, if the place was not given up before."""
    dead_since: int | None
    """Time of the broker's first PING that the connection did not answer."""
    left_at: int | None = None
    """Time at which the client gave it up, or ended its connection, in nanoseconds."""

    @property
    def since(self) -> int:
        """Time at which it got the place, in nanoseconds."""
        since: int = self.request["answered"]
        return since

    @property
    def summary(self) -> dict[str, Any]:
        """Evidence that identifies the holder."""
        return {"frame": self.where.name, "connection": self.where.connection, "name": self.request["name"]}

    def held_ns(self, at: int) -> int:
        """Return for how long it had held the place at a given time."""
        return (at if self.until is None else min(at, self.until)) - self.since

    def title(self, noun: str) -> str:
        """Return the holder's name, mode, connection and client."""
        request = self.request
        epoch = f", epoch {request['epoch']}" if request.get("epoch") else ""
        name = f"{noun} {request['name']}" if request["name"] else f"a {noun} without a name"
        return f"{name} ({request['mode']}{epoch}) on connection {self.where.connection} of {request['client']}"

    def claim(self, noun: str, held_at: int, at: int) -> str:
        """Return who holds the place, for how long at one time, and whether it was alive at another."""
        held = duration(self.held_ns(held_at))
        if self.until is not None and self.until <= at:
            return f"{self.title(noun)} held it for {held} and gave it up {duration(at - self.until)} before"
        return f"{self.title(noun)} has held it for {held} and {self.liveness(at)}"

    def liveness(self, at: int) -> str:
        """Return the signs that the holder was alive at a given time, before its end."""
        if self.dead_since is not None and self.dead_since <= at:
            return f"has answered no PING for {duration(at - self.dead_since)}"
        if self.until is not None and self.last_active is None:
            return f"is alive: it closed {duration(self.until - at)} later"
        if self.last_active is None:
            return "is not seen to end"
        if self.last_active > at:
            return f"is alive: it sent frames for another {duration(self.last_active - at)}"
        return f"sent its last frame {duration(at - self.last_active)} before"


def _tenures(facts: Sequence[Fact]) -> list[Tenure]:
    open_tenures: dict[tuple[str, int], Tenure] = {}
    tenures: list[Tenure] = []
    for fact in facts:
        values = fact.values
        holder = fact.where.connection, values["id"]
        if fact.what == "held":
            open_tenures[holder] = Tenure(fact.where, values, None, None, None)
        elif fact.what not in ("refused", QUEUED) and holder in open_tenures:
            tenure = open_tenures.pop(holder)
            end = {name: values.get(name) for name in ("until", "last_active", "dead_since")}
            tenures.append(Tenure(tenure.where, tenure.request, **end, left_at=values.get("left_at")))
    return [*tenures, *open_tenures.values()]


def _holders(tenures: Sequence[Tenure], request: Fact) -> list[Tenure]:
    """Return the tenures of others between a request and its answer."""
    holder = request.where.connection, request.values["id"]
    return [
        tenure
        for tenure in tenures
        if (tenure.where.connection, tenure.request["id"]) != holder
        and tenure.since <= request.values["answered"]
        and (tenure.until is None or tenure.until > request.where.time)
    ]


LIMIT = "reached max"
"""Part of a broker's message that refuses one more producer or consumer, regardless of its name."""


OTHER_TYPE = "of different type"
"""Part of a broker's message that refuses a consumer because the subscription is in use with another type."""


def _report_refused(code: str, refused: Sequence[Fact], holders: Sequence[Tenure], noun: str, place: str, report: ReportFinding) -> None:
    first, last = refused[0], refused[-1]
    values = first.values
    said = values["message"] or ""
    at_limit = LIMIT in said.lower()
    if at_limit:
        holders = ()  # all present ones together, not one that holds the name
    requested, answered = first.where.time, values["answered"]
    times = f", {len(refused):,} times in {duration(last.where.time - requested)}" if len(refused) > 1 else ""
    name = f"{noun} {values['name']}" if values["name"] else f"a {noun} without a name"
    held = "; ".join(holder.claim(noun, answered, requested) for holder in holders[:HOLDERS_MAX])
    if OTHER_TYPE in said.lower() and holders:  # whether these are alive does not matter
        holder_text = f"its type differs from that of {listing([holder.title(noun) for holder in holders[:HOLDERS_MAX]])}"
    else:
        holder_text = f'the broker says "{said}"' if at_limit or OTHER_TYPE in said.lower() else held or "its holder is not in the capture"
    text = f"{capitalized(name)} ({values['mode']}) was refused on {place} with {values['error']}{times}: {holder_text}."
    attempts = [{"frame": fact.where.name, "epoch": fact.values.get("epoch"), "mode": fact.values["mode"]} for fact in refused]
    evidence = {
        "frames": frame_names(name for fact in refused for name in (fact.where.name, fact.values["response"])),
        "holders": [holder.summary for holder in holders[:HOLDERS_MAX]],
        "attempts": attempts[:ATTEMPTS_MAX],
        "count": len(refused),
        "message": values["message"],
        "topic": values["topic"],
        "subscription": values["subscription"],
    }
    report(code, first.where, text, evidence)


def _refusals(facts: Sequence[Fact]) -> list[list[Fact]]:
    """Group the refusals of one host that share name, mode and error."""
    groups: dict[tuple[Any, ...], list[Fact]] = {}
    for fact in facts:
        if fact.what == "refused":
            values = fact.values
            groups.setdefault((host(values["client"]), values["name"], values["mode"], values["error"]), []).append(fact)
    return list(groups.values())


def _evaluate_producers(topic: str, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report producers of a topic that were refused, that waited in vain, or that were displaced by ExclusiveWithFencing."""
    tenures = _tenures(facts)
    for refused in _refusals(facts):
        request = refused[0]
        is_fenced = request.values["error"] != "ProducerBusy" and any(fact.values["had_topic"] for fact in refused)
        code = "producer-fenced" if is_fenced else "producer-busy"
        _report_refused(code, refused, _obstacles(_holders(tenures, request), request), "producer", f"topic {topic}", report)
    for fact in facts:
        if fact.what == QUEUED and fact.values["until"] - fact.values["since"] >= thresholds.ns("producer-waiting-seconds"):
            _report_waiting(topic, fact, tenures, report)
    takeovers = _takeovers(facts, tenures)
    contended = _contended(takeovers, thresholds.ns("producer-fenced-back-seconds"))
    losses = Counter(tenure.where for _, losers in takeovers for tenure in losers)
    for winner, losers in takeovers:
        is_over = all(losses[tenure.where] == 1 and _is_over(tenure, winner.values["answered"], thresholds) for tenure in losers)
        _report_fenced(topic, (winner, losers), contended, report, thresholds, is_over=is_over)


_Takeover = tuple[Fact, list[Tenure]]
"""The request that took a topic, and the tenures that it ended."""


def _takeovers(facts: Sequence[Fact], tenures: Sequence[Tenure]) -> list[_Takeover]:
    found = []
    for fact in facts:
        if fact.what == "held" and fact.values["mode"] == "ExclusiveWithFencing":
            name = fact.values["name"]  # may be chosen by the broker: a producer that comes back has the same name, and displaces no other
            losers = [tenure for tenure in _holders(tenures, fact) if name is None or tenure.request["name"] != name]
            if losers:
                found.append((fact, losers))
    return found


def _identity(request: dict[str, Any]) -> str | None:
    """Return what a producer keeps when its application starts again: its name, or its host if the broker chose the name."""
    name: str | None = host(request["client"]) if request.get("is_chosen") else request["name"]
    return name


def _contended(takeovers: Sequence[_Takeover], within_ns: int) -> list[Fact]:
    """Return the takeovers by producers that take the topic from each other, or none: each lost it not long before, one after the other."""
    lost: dict[str | None, int] = {}
    back: list[Fact] = []
    for winner, losers in sorted(takeovers, key=lambda takeover: int(takeover[0].values["answered"])):
        taker, at = _identity(winner.values), winner.values["answered"]
        others = {_identity(tenure.request) for tenure in losers} - {taker}
        if others and taker is not None and at - lost.get(taker, at - within_ns - 1) <= within_ns:
            back.append(winner)
        lost.update(dict.fromkeys(others, at))
    return back if len({_identity(winner.values) for winner in back}) > 1 else []


def _obstacles(holders: Sequence[Tenure], request: Fact) -> list[Tenure]:
    """Return the holders of the same name; else those with exclusive access; else all, if the request is for exclusive access."""
    name, mode = request.values["name"], request.values["mode"]
    namesakes = [tenure for tenure in holders if name and tenure.request["name"] == name]
    exclusive = [tenure for tenure in holders if tenure.request["mode"] != "Shared"]
    return namesakes or exclusive or ([] if mode == "Shared" else [*holders])


def _report_waiting(topic: str, queued: Fact, tenures: Sequence[Tenure], report: ReportFinding) -> None:
    values, where = queued.values, queued.where._replace(time=queued.values["since"])
    until, waited = values["until"], values["until"] - where.time
    asked = queued._replace(where=where, values={**values, "answered": until})
    holders = sorted(_obstacles(_holders(tenures, asked), asked), key=lambda holder: holder.since, reverse=True)
    held = "; ".join(holder.claim("producer", until, until) for holder in holders[:HOLDERS_MAX])
    name = f"Producer {values['name']}" if values["name"] else "A producer without a name"
    text = f"{name} ({values['mode']}) of {values['client']} waited {duration(waited)} for topic {topic} and did not get it: "
    evidence = {
        "frames": frame_names([where.name, values["queued_by"], *(holder.where.name for holder in holders[:HOLDERS_MAX])]),
        "topic": topic,
        "producer_name": values["name"],
        "waited_ns": waited,
        "holders": [holder.summary for holder in holders[:HOLDERS_MAX]],
    }
    text += held or "its holder is not in the capture"
    report("producer-waiting", where, f"{text}{gap_note(lost=values['lost'])}.", evidence)


def _is_over(tenure: Tenure, taken_at: int, thresholds: Thresholds) -> bool:
    """Return True when the client of a producer ended shortly after it lost the topic, or was dead."""
    is_dead = tenure.dead_since is not None and tenure.dead_since <= taken_at
    return is_dead or (tenure.left_at is not None and tenure.left_at <= taken_at + thresholds.ns("producer-replaced-seconds"))


def _report_fenced(
    topic: str, takeover: _Takeover, contended: Sequence[Fact], report: ReportFinding, thresholds: Thresholds, *, is_over: bool
) -> None:
    winner, losers = takeover
    values, limit = winner.values, "producer-replaced-seconds"
    is_contended = winner in contended
    code = "producer-replaced" if is_over and not is_contended else "producer-fenced"
    held = [f"{tenure.title('producer')}, which had it for {duration(tenure.held_ns(values['answered']))}" for tenure in losers]
    name = values["name"] or "without a name"
    producer = f"Producer {name} (ExclusiveWithFencing) of {values['client']}"
    text = f"{producer} took topic {topic} from {listing(held, '; ', '; ')}"
    if is_contended:
        limit = "producer-fenced-back-seconds"
        text += f"; producers take it back from each other: {len(contended):,} times"
    places = [winner.where, *(tenure.where for tenure in losers)]
    evidence = {
        "frames": frame_names([winner.where.name, values["response"], *(where.name for where in places[1:])]),
        "topic": topic,
        "producer_name": name,
        "fenced": [tenure.summary for tenure in losers[:ATTEMPTS_MAX]],
        "connections": list(dict.fromkeys(where.connection for where in places))[:DIAGNOSIS_NAMES_MAX],
        **thresholds.evidence(limit),
    }
    report(code, winner.where, f"{text}.", evidence)


def _evaluate_consumers(_key: str, facts: Sequence[Fact], report: ReportFinding, _thresholds: Thresholds) -> None:
    tenures = _tenures(facts)
    for refused in _refusals(facts):
        values = refused[0].values
        place = f"subscription {values['subscription']} of {values['topic']}"
        _report_refused("consumer-busy", refused, _holders(tenures, refused[0]), "consumer", place, report)


KEYS = (KeyRule(PRODUCERS, HOLDING_NS, _evaluate_producers, early=True), KeyRule(CONSUMERS, HOLDING_NS, _evaluate_consumers, early=True))
