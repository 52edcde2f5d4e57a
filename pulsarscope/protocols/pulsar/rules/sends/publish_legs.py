"""The leg on which the slowest SEND of a producer took longest: a proxy, the broker, the bookies, or the answer.

SENDs and writes to bookies are matched within time windows, for each of which a connection reports its slowest ones. This takes little
memory, however many entries there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pulsarscope.dissect.contract.rules import OUTER, Fact, KeyRule, ReportFinding
from pulsarscope.model.text import duration
from pulsarscope.model.thresholds import Thresholds
from pulsarscope.model.units import SECOND
from pulsarscope.protocols.pulsar.rules.evidence import frame_names

PUBLISHES = "publishes"
"""Name of the key rule; its keys are windows."""

WINDOW_NS = 10 * SECOND
"""Length of a window. Facts of a window are repeated in the next one, as `EARLIER` or `PASSED`: an answer may come at its very
beginning."""

IDLE_NS = 3600 * SECOND
"""Time without facts after which a window is evaluated: a slow producer is reported when it ends."""

SLOW = "slow"
"""Fact on a slow producer: code, text and evidence of its finding; latency, entry, answer time and network delay of its slowest SEND."""

EXCUSED = "excused"
"""Fact on a producer that is slow because of the network, with the values behind the evidence."""

UNSURE = "; the capture has no acknowledgments without data, which would tell whether the broker or the network took so long"
"""Text about a slow producer whose slowest SEND may have waited for the network."""

PUBLISHED, PASSED = "published", "passed"
"""Facts on the slowest SEND of a connection within a window, or the previous one: latency, entry, host of the server, times."""

ADDS, EARLIER = "adds", "earlier"
"""Facts of a storage protocol on the writes of one connection that were answered within a window, or the previous one: host, bookie, and
the slowest latencies, each with entry, time and frame names. They list all writes, or as many as fit."""


class _Legs:
    """The known legs of one SEND."""

    def __init__(self, latency: int) -> None:
        self.latency = latency
        self.times: dict[str, int] = {}
        """Minimum time of each leg, in nanoseconds."""
        self.texts: list[str] = []
        self.more: dict[str, Any] = {}
        """Further evidence."""
        self.frames: list[str] = []

    def add(self, leg: str, time: int, text: str) -> None:
        """Add a leg."""
        self.times[leg] = time
        self.texts.append(text)

    @property
    def slowest(self) -> str | None:
        """The leg that took at least half of the time."""
        return next((leg for leg, time in self.times.items() if 2 * time >= self.latency), None)


def _evaluate(_key: str, facts: Sequence[Fact], report: ReportFinding, _thresholds: Thresholds) -> None:
    """Report slow producers, with the leg of their slowest SEND. A producer on an inner leg is reported with the outer leg."""
    for fact in facts:
        if fact.what != SLOW or OUTER in fact.values:
            continue
        values, evidence = fact.values, fact.values["evidence"]
        legs = _legs_of(fact, facts)
        text, leg = values["text"], legs.slowest
        if legs.texts:
            text += f"; of the slowest {', '.join(legs.texts)}"
        if leg is not None:
            evidence = {**evidence, "leg": leg, "legs_ns": legs.times, **legs.more}
            evidence["frames"] = frame_names([*evidence["frames"], *legs.frames])
        report(values["code"], fact.where, f"{text}.", evidence)


def _legs_of(slow: Fact, facts: Sequence[Fact]) -> _Legs:
    """Find the legs of the slowest SEND of a producer."""
    latency, entry, host = slow.values["latency"], slow.values["entry"], slow.values["host"]
    sent, answered = slow.where.time, slow.values["answered"]
    legs = _Legs(latency)
    connection: str | None = slow.where.connection
    while (inner := _inner(connection, entry, facts)) is not None:
        held = latency - inner.values["latency"]
        if held >= 0:
            at_least = "" if inner.values["entry"] == entry else "at least "
            legs.add("proxy", legs.times.get("proxy", 0) + held, f"{at_least}{duration(held)} passed at {host}, which hands it on")
        proxy = host
        latency, host, connection = inner.values["latency"], inner.values["host"], inner.where.connection
        sent, answered = inner.where.time, inner.where.time + latency
        delays = [fact.values["network"] for fact in facts if fact.what in (SLOW, EXCUSED) and fact.where.connection == connection]
        if delay := min(max(delays, default=0), latency):
            legs.add("network", delay, f"{duration(delay)} passed on the way from {proxy} to {host}, as late acknowledgments show")
        if inner.values["entry"] != entry:
            return legs  # facts of later legs are about another SEND
    _add_storage(legs, [fact for fact in facts if fact.what in (ADDS, EARLIER) and fact.values["host"] == host], entry, sent, answered)
    return legs


def _inner(connection: str | None, entry: str, facts: Sequence[Fact]) -> Fact | None:
    """Return the fact about a SEND on the inner leg of a connection: the SEND of this entry, or else the slowest one there."""
    of_leg = [fact for fact in facts if fact.what in (PUBLISHED, PASSED) and fact.values.get(OUTER) == connection]
    same = [fact for fact in of_leg if fact.values["entry"] == entry]
    return max(same or of_leg, key=lambda fact: fact.values["latency"], default=None)


def _add_storage(legs: _Legs, writes: Sequence[Fact], entry: str, sent: int, answered: int) -> None:
    """Add the time of the bookies of a broker, and the rest of the time from SEND to its answer."""
    found = [
        (asked, asked + latency, fact.values["bookie"], names)
        for fact in writes
        for latency, (of_entry, asked, *names) in zip(fact.values["slowest"], fact.values["entries"], strict=True)
        if of_entry == entry and sent <= asked
    ]
    in_time = [write for write in found if write[1] <= answered]
    late = {bookie for _, stored, bookie, _ in found if stored > answered}
    others = [fact for fact in writes if fact.values["bookie"] not in late]  # the receipt did not wait for these
    if in_time:
        begun = min(write[0] for write in found)
        _, stored, bookie, names = max(in_time, key=lambda write: write[1])
        legs.add("broker", begun - sent, f"{duration(begun - sent)} passed in the broker")
        legs.add("bookies", stored - begun, f"{duration(stored - begun)} until bookie {bookie} had answered")
        legs.add("answer", answered - stored, f"{duration(answered - stored)} until the receipt")
        if legs.slowest == "bookies":
            legs.more["bookie"] = bookie
        legs.frames += names
    elif others:
        longest = max(_most_of_others(fact.values) for fact in others)
        rest = answered - sent - longest
        if 2 * rest >= legs.latency:
            legs.add("broker", rest, f"at least {duration(rest)} passed in the broker: no bookie seen took longer than {duration(longest)}")


def _most_of_others(values: Mapping[str, Any]) -> int:
    """Return the maximum latency of the writes of a connection that are not listed."""
    slowest: list[int] = values["slowest"]
    return slowest[-1] if values["adds"] > len(slowest) else 0


KEYS = (KeyRule(PUBLISHES, IDLE_NS, _evaluate, public=True, early=True, all_legs=True),)
