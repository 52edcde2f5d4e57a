"""SENDs that the broker answered late or never, by producer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import msgspec

from pulsarscope.dissect.rules import ConnectionRule, Handlers, RuleContext, Where, where_of
from pulsarscope.model.findings import WARNING, Code, table
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FrameRow
from pulsarscope.protocols.pulsar.rules.phrases import count, frames, lacking, seconds

CODES = table(
    Code(
        "slow-publish",
        WARNING,
        "session",
        "A producer waits long for its receipts.",
        "When the broker closed its window it had stopped reading: look at its publish limits and memory; "
        "else at the write latency of its bookies.",
    ),
    Code(
        "send-unanswered",
        WARNING,
        "session",
        "SENDs got neither a receipt nor an error while the connection went on.",
        "The producer gives up after its send time-out and may send them again: look at the broker's log at that time.",
    ),
)

SLOW_NS = 1_000_000_000
"""Where one in a hundred SENDs waits longer than this, a publisher notices: healthy brokers answer in milliseconds."""

WAITING_NS = 10_000_000_000
"""One SEND that waits longer than this is a third on its way to the default send time-out of 30 s."""

COUNTED_MIN = 10
"""Below so many SENDs the slowest is not typical: the first one opens a ledger."""

ANSWER_NS = 1_000_000_000
"""A SEND may still be answered within so long before the end of the connection."""

PRODUCERS_MAX = 10_000
"""Producers of one connection that are followed at a time, and closed ones whose late SENDs are known as such."""

SLOW_MAX = 1_000
"""Slow producers that closed before the end of the connection: only there it is known when the broker had closed its window."""

UNANSWERED_MAX = 1_000
"""Unanswered SENDs of one producer that are kept until the end of the connection."""

BROKER_WINDOW = "zero-window"


class Publisher(msgspec.Struct):
    """What one producer's SENDs met."""

    topic: str | None = None
    name: str | None = None
    latencies: Counter[int] = msgspec.field(default_factory=Counter)
    """SENDs by latency in nanoseconds, rounded to three digits: a few thousand different ones at most."""
    slowest: tuple[int, Where, str] | None = None
    """(latency, SEND, its answer)."""
    in_flight: int = 0
    deepest: int = 0
    """Most SENDs that waited at a time."""
    unanswered: list[Where] = msgspec.field(default_factory=list)
    settled: Where | None = None
    """The latest PRODUCER or CLOSE_PRODUCER: who sends before it knows to send again."""
    closed: bool = False


class Slow(NamedTuple):
    """What is to be said of a slow one."""

    where: Where
    text: str
    evidence: dict[str, Any]


class Publishing(ConnectionRule):
    """See `pulsarscope.dissect.rules.ConnectionRule`."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._publishers: dict[str, Publisher] = {}
        """By producer id."""
        self._closed: dict[str, None] = {}
        """Ids of those that closed and are forgotten."""
        self._slow: list[Slow] = []
        """What is to be said of them."""

    def _publisher(self, number: str) -> Publisher | None:
        found = self._publishers.get(number)
        if found is None and number not in self._closed and len(self._publishers) < PRODUCERS_MAX:
            found = self._publishers[number] = Publisher()
        return found

    def _send(self, row: FrameRow) -> None:
        one = self._publisher(str((row.fields or {}).get("producer_id", -1)))
        if one is not None:
            one.in_flight += 1
            one.deepest = max(one.deepest, one.in_flight)

    def _settle(self, row: FrameRow) -> None:
        number = str((row.fields or {}).get("producer_id", -1))
        if row.command == "PRODUCER":
            self._closed.pop(number, None)
        one = self._publisher(number)
        if one is not None:
            one.settled, one.closed = where_of(row), row.command == "CLOSE_PRODUCER"
            self._forget(number, one)

    def _forget(self, number: str, one: Publisher) -> None:
        """It has closed, and all its SENDs have been heard of."""
        if not one.closed or one.in_flight > 0:
            return
        del self._publishers[number]
        self._closed[number] = None
        if len(self._closed) > PRODUCERS_MAX:
            del self._closed[next(iter(self._closed))]
        slow = _evaluate_latency(one)
        if slow is not None and len(self._slow) < SLOW_MAX:
            self._slow.append(slow)
        elif slow is not None:
            self._report_slow(slow)

    def _sent(self, row: ExchangeRow) -> None:
        number = (row.key or "").partition(":")[0]
        one = self._publisher(number)
        if one is None:
            return
        one.in_flight -= 1
        one.topic, one.name = row.topic, row.producer_name
        if row.status == "unanswered":
            if len(one.unanswered) < UNANSWERED_MAX:
                one.unanswered.append(where_of(row))
        elif row.latency_ns is not None:
            one.latencies[_rounded(row.latency_ns)] += 1
            if one.slowest is None or row.latency_ns > one.slowest[0]:
                one.slowest = row.latency_ns, where_of(row), f"{row.response_file}:{row.response_packet}.{row.response_sub}"
        self._forget(number, one)

    def end(self, row: ConnectionRow, last: Where) -> None:
        """See `ConnectionRule`."""
        for slow in self._slow:
            self._report_slow(slow)
        for one in self._publishers.values():
            found = _evaluate_latency(one)
            if found is not None:
                self._report_slow(found)
            self._evaluate_unanswered(one, row.end or last.time)

    def _report_slow(self, slow: Slow) -> None:
        shut = [found for found in self._context.reported(BROKER_WINDOW) if found.text.startswith(f"{self._context.server} ")]
        closed = sum(found.evidence.get("closed_ns", 0) for found in shut)
        evidence = slow.evidence | {"zero_windows": sum(found.evidence.get("count", 0) for found in shut), "window_closed_ns": closed}
        window = f"; meanwhile the broker closed its window for {seconds(closed)} in all" if shut else ""
        self._context.report("slow-publish", slow.where, f"{slow.text}{window}{lacking(lost=self._context.lost)}.", evidence)

    def _evaluate_unanswered(self, one: Publisher, end: int) -> None:
        late = [where for where in one.unanswered if end - where.time > ANSWER_NS and not _is_settled(one, where)]
        if not late or one.closed:
            return
        waited = end - late[0].time
        evidence: dict[str, Any] = {
            "frames": frames(where.name for where in late),
            "topic": one.topic,
            "producer_name": one.name,
            "count": len(late),
            "waited_ns": waited,
        }
        went_on = f"though the connection went on for {seconds(waited)} after the first"
        text = f"{_about(one)} got no answer to {count(len(late), 'SEND')}, {went_on}"
        self._context.report("send-unanswered", late[0], f"{text}{lacking(lost=self._context.lost)}.", evidence)

    frames: ClassVar[Handlers] = {"SEND": _send, "PRODUCER": _settle, "CLOSE_PRODUCER": _settle}
    exchanges: ClassVar[Handlers] = {"SEND": _sent}


def _evaluate_latency(one: Publisher) -> Slow | None:
    if one.slowest is None:
        return None
    longest, where, answer = one.slowest
    sends = sum(one.latencies.values())
    middle, late = percentile(one.latencies, 50), percentile(one.latencies, 99)
    if not (longest > WAITING_NS or (sends >= COUNTED_MIN and late > SLOW_NS)):
        return None
    evidence: dict[str, Any] = {
        "frames": [where.name, answer],
        "topic": one.topic,
        "producer_name": one.name,
        "sends": sends,
        "p50_ns": middle,
        "p99_ns": late,
        "max_ns": longest,
        "in_flight_max": one.deepest,
    }
    text = (
        f"{_about(one)} waits for its receipts: half of {count(sends, 'SEND')} at least {seconds(middle)}, "
        f"one in a hundred {seconds(late)}, the slowest {seconds(longest)}, with up to {one.deepest} in flight"
    )
    return Slow(where, text, evidence)


def _is_settled(one: Publisher, sent: Where) -> bool:
    return one.settled is not None and (sent.file, sent.packet, sent.sub) < (one.settled.file, one.settled.packet, one.settled.sub)


def _about(one: Publisher) -> str:
    return f"Producer {one.name or '?'}{f' on {one.topic}' if one.topic else ''}"


def _rounded(latency: int) -> int:
    """Three digits of it."""
    unit: int = 10 ** max(len(str(latency)) - 3, 0)
    return latency // unit * unit


def percentile(counts: Mapping[int, int], percent: int) -> int:
    """The smallest value that so many percent of all do not exceed (nearest rank). 0 of none."""
    rank: int = -(-sum(counts.values()) * percent // 100)
    for value in sorted(counts):
        rank -= counts[value]
        if rank <= 0:
            return value
    return 0
