"""Producers and consumers that others keep out: who was refused, who held the place, and whether that one was still there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pulsarscope.dissect.rules import Fact, KeyRule, ReportFinding, Where
from pulsarscope.model.findings import ERROR, Code, table
from pulsarscope.protocols.pulsar.rules.holders import CONSUMERS, PRODUCERS
from pulsarscope.protocols.pulsar.rules.phrases import count, frames, host, seconds, some

CODES = table(
    Code(
        "producer-busy",
        ERROR,
        "session",
        "A producer was refused because another holds its name, or the topic for itself.",
        "Two applications with one producer name, or a connection that died unnoticed: the broker frees it after its keep-alive time.",
    ),
    Code(
        "producer-fenced",
        ERROR,
        "session",
        "A producer lost its topic to another with exclusive access.",
        "What it sent since is not stored: let only one application take the topic with ExclusiveWithFencing.",
    ),
    Code(
        "consumer-busy",
        ERROR,
        "session",
        "A consumer was refused because another holds the subscription.",
        "Use one subscription type for all its consumers, Shared or Failover for several; a dead holder goes after the keep-alive time.",
    ),
)

HOLDING_NS = 24 * 3_600 * 1_000_000_000
"""Who is refused meets a holder that came long ago, and says nothing between: what is known is kept for a day."""


class Tenure(NamedTuple):
    """Someone who held a place."""

    where: Where
    asked: dict[str, Any]
    until: int | None
    """When it was given up; None: not in the capture."""
    spoke: int | None
    """When the connection spoke last, if it did not give it up before."""
    dead: int | None
    """Since when it did not answer the broker's PING."""

    @property
    def since(self) -> int:
        """When it got the place."""
        since: int = self.asked["answered"]
        return since

    def held(self, at: int) -> int:
        """How long it has had the place at this time."""
        return (at if self.until is None else min(at, self.until)) - self.since

    def name(self, noun: str) -> str:
        """Who, where, and how it holds."""
        epoch = f", epoch {self.asked['epoch']}" if self.asked.get("epoch") else ""
        named = f"{noun} {self.asked['name']}" if self.asked["name"] else f"a {noun} without a name"
        return f"{named} ({self.asked['mode']}{epoch}) on connection {self.where.connection} of {self.asked['client']}"

    def alive(self, at: int) -> str:
        """What shows whether it was there at this time."""
        if self.dead is not None and self.dead <= at:
            return f"has answered no PING for {seconds(at - self.dead)}"
        if self.until is not None and self.spoke is None:
            return f"is alive: it closed {seconds(self.until - at)} later"
        if self.spoke is None:
            return "is not seen to end"
        return (
            f"is alive: it spoke for another {seconds(self.spoke - at)}"
            if self.spoke > at
            else f"spoke last {seconds(at - self.spoke)} before"
        )


def _tenures(facts: Sequence[Fact]) -> list[Tenure]:
    holding: dict[tuple[str, int], Tenure] = {}
    found: list[Tenure] = []
    for fact in facts:
        place = fact.where.connection, fact.values["id"]
        if fact.what == "held":
            holding[place] = Tenure(fact.where, fact.values, None, None, None)
        elif fact.what != "refused" and place in holding:
            values = fact.values
            found.append(holding.pop(place)._replace(until=values["until"], spoke=values.get("spoke"), dead=values.get("dead")))
    return [*found, *holding.values()]


def _holders(tenures: Sequence[Tenure], asker: Fact) -> list[Tenure]:
    """Who held the place between this one's request and the answer."""
    place = asker.where.connection, asker.values["id"]
    return [
        tenure
        for tenure in tenures
        if (tenure.where.connection, tenure.asked["id"]) != place
        and tenure.since <= asker.values["answered"]
        and (tenure.until is None or tenure.until > asker.where.time)
    ]


def _report_refused(code: str, refused: Sequence[Fact], holders: Sequence[Tenure], noun: str, place: str, report: ReportFinding) -> None:
    first, last = refused[0], refused[-1]
    values = first.values
    asked, answered = first.where.time, values["answered"]
    times = f", {len(refused):,} times in {seconds(last.where.time - asked)}" if len(refused) > 1 else ""
    name = f"{noun} {values['name']}" if values["name"] else f"A {noun} without a name"
    if holders:
        held = "; ".join(f"{one.name(noun)} has held it for {seconds(one.held(answered))} and {one.alive(asked)}" for one in holders[:3])
    else:
        held = "who holds it is not in the capture"
    text = f"{name[0].upper()}{name[1:]} ({values['mode']}) was refused on {place} with {values['error']}{times}: {held}."
    attempts = [{"frame": one.where.name, "epoch": one.values.get("epoch"), "mode": one.values["mode"]} for one in refused]
    evidence = {
        "frames": frames(name for one in refused for name in (one.where.name, one.values["response"])),
        "holders": [{"frame": one.where.name, "connection": one.where.connection, "name": one.asked["name"]} for one in holders[:3]],
        "attempts": attempts[:10],
        "count": len(refused),
        "message": values["message"],
        "topic": values["topic"],
        "subscription": values["subscription"],
    }
    report(code, first.where, text, evidence)


def _refusals(facts: Sequence[Fact]) -> list[list[Fact]]:
    """Those of one client that ask for the same thing under one name and are refused for one reason."""
    groups: dict[tuple[Any, ...], list[Fact]] = {}
    for fact in facts:
        if fact.what == "refused":
            values = fact.values
            name = host(values["client"]), values["name"], values["mode"], values["error"]
            groups.setdefault(name, []).append(fact)
    return list(groups.values())


def _evaluate_producers(topic: str, facts: Sequence[Fact], report: ReportFinding) -> None:
    """Refusals, and takeovers with fencing."""
    tenures = _tenures(facts)
    for refused in _refusals(facts):
        asker = refused[0]
        code = "producer-busy" if asker.values["error"] == "ProducerBusy" else "producer-fenced"
        _report_refused(code, refused, _in_the_way(_holders(tenures, asker), asker), "producer", f"topic {topic}", report)
    for fact in facts:
        if fact.what == "held" and fact.values["mode"] == "ExclusiveWithFencing":
            losers = [one for one in _holders(tenures, fact) if one.asked["name"] != fact.values["name"]]
            if losers:
                _report_fenced(topic, fact, losers, report)


def _in_the_way(holders: Sequence[Tenure], asker: Fact) -> list[Tenure]:
    """Those of the same name; else those that have the topic for themselves; else, if the asker wants that, all."""
    name, mode = asker.values["name"], asker.values["mode"]
    same = [one for one in holders if name and one.asked["name"] == name]
    alone = [one for one in holders if one.asked["mode"] != "Shared"]
    return same or alone or ([] if mode == "Shared" else [*holders])


def _report_fenced(topic: str, winner: Fact, losers: Sequence[Tenure], report: ReportFinding) -> None:
    at = winner.values["answered"]
    lost = some([f"{one.name('producer')}, which had it for {seconds(one.held(at))}" for one in losers])
    name = winner.values["name"] or "without a name"
    taker = f"Producer {name} (ExclusiveWithFencing) of {winner.values['client']}"
    text = f"{taker} took topic {topic} from {count(len(losers), 'producer')}: {lost}."
    names = [winner.where.name, winner.values["response"], *(one.where.name for one in losers)]
    fenced = [{"frame": one.where.name, "connection": one.where.connection, "name": one.asked["name"]} for one in losers[:10]]
    report("producer-fenced", winner.where, text, {"frames": frames(names), "topic": topic, "producer_name": name, "fenced": fenced})


def _evaluate_consumers(_key: str, facts: Sequence[Fact], report: ReportFinding) -> None:
    """Refusals of a subscription."""
    tenures = _tenures(facts)
    for refused in _refusals(facts):
        values = refused[0].values
        holders = _holders(tenures, refused[0])
        place = f"subscription {values['subscription']} of {values['topic']}"
        _report_refused("consumer-busy", refused, holders, "consumer", place, report)


KEYS = (KeyRule(PRODUCERS, HOLDING_NS, _evaluate_producers, early=True), KeyRule(CONSUMERS, HOLDING_NS, _evaluate_consumers, early=True))
