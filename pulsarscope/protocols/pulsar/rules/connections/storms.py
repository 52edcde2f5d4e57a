"""Clients that repeat the same request, although it is answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pulsarscope.dissect.contract.rules import ConnectionRule, Fact, Handlers, KeyRule, ReportFinding, RuleContext, Where, name_of, where_of
from pulsarscope.model.bounded_tables import NOTHING, remember
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FrameRow
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import Thresholds, counted, in_seconds
from pulsarscope.protocols.pulsar.rules.evidence import frame_names, may_lack, places_lost
from pulsarscope.protocols.pulsar.rules.exchanges.schemas import has_none
from pulsarscope.protocols.pulsar.session.exchanges import MOVES, OPENS, POLLS, PREPARES, requests_with
from pulsarscope.protocols.pulsar.text.formatting import host

CODES = table(
    SESSION.warning(
        "request-storm",
        "A client repeats the same request again and again, although each one is answered.",
        "Look for a loop in the client: clients that are made for each message, a poll without a pause, an interval in the wrong unit.",
        to_act="the application",
    ),
)

THRESHOLDS = (
    counted(
        "request-storm-requests",
        30,
        "requests",
        "Repeated requests in busy seconds; clients ask once for each topic, and again when it moves.",
        "request-storm",
    ),
    counted(
        "request-storm-rate",
        5,
        "requests/s",
        "Repeated requests in a second, of each consumer if it polls, that make it a busy one; polling once a second is far below.",
        "request-storm",
    ),
    in_seconds(
        "request-storm-pause-seconds",
        0.04,
        "Shortest pause from an answer to the next poll of its consumer; a loop that waits in between is meant to poll.",
        "request-storm",
    ),
    in_seconds(
        "request-storm-turn-seconds",
        0.5,
        "Longest time from the answer to a SUBSCRIBE to its FLOW that counts as that of the network, in which no client pauses.",
        "request-storm",
    ),
    counted("request-storm-busy", 2, "seconds", "Busy seconds; the start of an application is over in one.", "request-storm"),
)

STORMS = "requests-of-client"

SYSTEM_TOPIC = "__"
"""Prefix of the local names of topics that the broker reads itself."""

ASKED = 2
"""Times that a client asks for a topic before it opens a producer or consumer: Go clients ask twice for its partitions."""

FORGET_NS = 600_000_000_000
"""Time without facts after which a client is evaluated."""

SUBJECTS_MAX = 1_000
"""Topics and similar subjects, and consumers that poll, of one connection that are counted separately."""

ASKED_MAX = 10_000
"""Polls of one connection that wait for their answers."""

_PREPARING, _POLLING, _MOVING = map(requests_with, (PREPARES, POLLS, MOVES))


class Repetitions:
    """Repetitions of one kind of request."""

    __slots__ = ("answered", "asked", "busy", "repeated", "second", "seconds", "times")

    def __init__(self, where: Where) -> None:
        self.asked = 0
        """Requests."""
        self.answered = 0
        """Time of the latest answer, in nanoseconds."""
        self.second = 0
        """Current second of the capture clock."""
        self.repeated = 0
        """Repetitions in the current second."""
        self.busy = self.seconds = 0
        """Repetitions in busy seconds, and the number of busy seconds."""
        self.times: list[Where] = [where]
        """First and latest request of busy seconds."""

    def repeat(self, where: Where, least: float) -> None:
        """Count a repetition."""
        second = where.time // 1_000_000_000
        if second != self.second:
            self.second, self.repeated = second, 0
        self.repeated += 1
        if self.repeated == least:
            self.seconds += 1
            self.busy += self.repeated
        elif self.repeated > least:
            self.busy += 1
        if self.repeated >= least:
            self.times[1:] = [where]


class StormRule(ConnectionRule):
    """Source of the facts on repeated requests of one connection."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._rate = context.thresholds["request-storm-rate"]
        self._pause_ns = context.thresholds.ns("request-storm-pause-seconds")
        self._turn_max_ns = context.thresholds.ns("request-storm-turn-seconds")
        self._storms: dict[tuple[str, int], Repetitions] = {}
        """Repetitions by request, and by consumer if it polls: many may poll on one connection, each with a pause."""
        self._pollers: dict[str, int] = {}
        """Ids of consumers by frame name of their polls without an answer."""
        self._begun_at = 0
        """Time of the answer to the latest SUBSCRIBE that no FLOW followed yet."""
        self._turn: int | None = None
        """Shortest time from such an answer to the FLOW: between where packets are captured and a client that does not wait, and back."""
        self._subjects: set[tuple[str, Any]] = set()
        self._purposes = self._answered = 0
        self._is_own = host(context.client) == host(context.server)
        """True when the client may be the broker itself, which reads its system topics whenever it loads a topic."""

    def _purpose(self, row: ExchangeRow) -> None:
        self._purposes += 1
        if row.request == "SUBSCRIBE" and row.latency_ns is not None:
            self._begun_at = row.time + row.latency_ns

    def _flow(self, row: FrameRow) -> None:
        if self._begun_at and 0 <= (turn := row.time - self._begun_at) <= self._turn_max_ns:
            self._turn = turn if self._turn is None else min(self._turn, turn)
        self._begun_at = 0

    def _poll(self, row: FrameRow) -> None:
        remember(self._pollers, name_of(row), (row.fields or NOTHING).get("consumer_id", -1), ASKED_MAX)

    def _exchange(self, row: ExchangeRow) -> None:
        where, request = where_of(row), row.request or ""
        consumer = self._pollers.pop(where.name, -1)
        if row.status != "ok" and not has_none(row):
            return
        self._answered += 1
        if (storm := self._storms.get((request, consumer))) is None:
            if consumer >= 0 and len(self._storms) >= SUBJECTS_MAX:
                return
            storm = self._storms[request, consumer] = Repetitions(where)
        storm.asked += 1
        paused = where.time - storm.answered >= self._pause_ns + (self._turn or 0)
        storm.answered = where.time + (row.latency_ns or 0)
        subject = request, row.topic
        if subject in self._subjects:
            if not (paused and request in _POLLING):
                storm.repeat(where, self._rate)
        elif len(self._subjects) < SUBJECTS_MAX:
            self._subjects.add(subject)

    def end(self, row: ConnectionRow, last: Where) -> None:  # noqa: ARG002 - the contract's
        """Emit the requests that were repeated too often, and their purpose."""
        client = host(self._context.client)
        if purposes := self._purposes + places_lost(self._context):
            self._context.emit_fact(STORMS, client, where_of(row), "purposes", {"count": purposes})
            if not self._is_own:
                self._context.emit_fact(STORMS, host(self._context.server), where_of(row), "served", {"count": purposes})
        for request in dict.fromkeys(request for request, _ in self._storms):
            self._emit_storm(row, request, [storm for (kind, _), storm in self._storms.items() if kind == request])

    def _emit_storm(self, row: ConnectionRow, request: str, counted: list[Repetitions]) -> None:
        """Emit a request that was repeated too often, by one consumer or more if they poll."""
        thresholds = self._context.thresholds
        least, busy = thresholds["request-storm-requests"], thresholds["request-storm-busy"]
        # Ten times as many are a storm even if the capture shows only part of a second.
        storms = [each for each in counted if each.busy >= least and (each.seconds >= busy or each.busy >= 10 * least)]
        if not storms:
            return
        if (request, None) in self._subjects and may_lack(self._context, row.start, row.end):
            return  # its topics may be among the missing bytes
        repeated = sum(storm.busy for storm in storms)
        if request in _POLLING and repeated < 2 * (row.server_frames - self._answered):
            return
        first = min((storm.times[0] for storm in storms), key=lambda where: where.time)
        latest = max((storm.times[-1] for storm in storms), key=lambda where: where.time)
        values = {
            "request": request,
            "asked": sum(storm.asked for storm in storms),
            "repeated": repeated,
            "seconds": max(storm.seconds for storm in storms),
            "client": self._context.client,
            "server": self._context.server,
            "subjects": sum(kind == request for kind, _ in self._subjects),
            "own": self._is_own and all(topic is None or is_system_topic(topic) for kind, topic in self._subjects if kind == request),
            "latest": [latest.name, latest.time],
        }
        self._context.emit_fact(STORMS, host(self._context.client), first, "storm", values)

    frames: ClassVar[Handlers] = {**dict.fromkeys(_POLLING, _poll), "FLOW": _flow}
    exchanges: ClassVar[Handlers] = {
        **dict.fromkeys((*_PREPARING, *_POLLING, *_MOVING), _exchange),
        **dict.fromkeys(OPENS, _purpose),
    }


def is_system_topic(topic: str) -> bool:
    """Return True for a topic that the broker reads itself."""
    return topic.rpartition("/")[2].startswith(SYSTEM_TOPIC)


def _evaluate_storms(_client: str, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report the requests that no producer or consumer of this client explains."""
    purposes = sum(fact.values["count"] for fact in facts if fact.what == "purposes")
    served = purposes + sum(fact.values["count"] for fact in facts if fact.what == "served")
    for fact in facts:
        if fact.what != "storm":
            continue
        values = fact.values
        request, repeated = values["request"], values["repeated"]
        if request in _PREPARING and repeated < thresholds["request-storm-requests"] + ASKED * purposes:
            continue
        if values["own"] and repeated < thresholds["request-storm-requests"] + served:
            continue
        span = values["latest"][1] - fact.where.time
        text = (
            f"Client {values['client']} sent {values['server']} {values['asked']:,} {request} requests in {duration(span)}, "
            f"{repeated / values['seconds']:,.0f} a second, for {plural(values['subjects'], 'topic')}; all were answered."
        )
        evidence = {
            "frames": frame_names([fact.where.name, values["latest"][0]]),
            "request": request,
            "count": values["asked"],
            "repeated": repeated,
            "seconds": values["seconds"],
            "span_ns": span,
        }
        report("request-storm", fact.where, text, evidence)


KEYS = (KeyRule(STORMS, FORGET_NS, _evaluate_storms),)
