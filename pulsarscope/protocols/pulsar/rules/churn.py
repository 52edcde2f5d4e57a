"""Connections, producers and consumers made for hardly any work, and connections that are cut when they are idle."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import ClassVar

from pulsarscope.dissect.rules import ConnectionRule, Fact, Handlers, ReportFinding, RuleContext, Where, where_of
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.flow import CLIENT, SERVER
from pulsarscope.model.limits import DIAGNOSIS_NAMES_MAX
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.model.text import plural
from pulsarscope.model.thresholds import SECONDS, Threshold, Thresholds
from pulsarscope.protocols.pulsar.rules.evidence import frame_names
from pulsarscope.protocols.pulsar.rules.storms import Repetitions
from pulsarscope.protocols.pulsar.text.formatting import duration

CODES = table(
    SESSION.warning(
        "connection-churn",
        "A client opens connections again and again, and closes each after hardly any work.",
        "Create one client for the life of the process and share it: it keeps one connection to each broker.",
    ),
    SESSION.warning(
        "producer-churn",
        "A client opens and closes a producer for every message or two.",
        "Keep the producer open: each one costs the broker requests and an entry in its metadata.",
    ),
    SESSION.warning(
        "consumer-churn",
        "A client opens a consumer or reader again and again, and closes each after hardly any work.",
        "Keep it open: each one costs the broker requests, and what it has prefetched is delivered again to the next one.",
    ),
    SESSION.warning(
        "idle-cut",
        "Connections die after the same time without traffic, again and again.",
        "A firewall, NAT or load balancer forgets idle connections: raise its timeout, or let clients send keep-alives more often.",
        ("reconnect-loop", "connection-closed-by-broker", "connection-closed-by-client", "connection-reset"),
    ),
)

_ALL = ("connection-churn", "producer-churn", "consumer-churn")

THRESHOLDS = (
    Threshold(
        "churn-least",
        12,
        "times",
        "Connections, producers or consumers that a client must open; it needs one connection to each broker.",
        _ALL,
        1,
    ),
    Threshold(
        "churn-rate",
        3,
        "times/s",
        "Connections, producers or consumers in a second that make it a busy one; scheduled jobs start less often.",
        _ALL,
        1,
    ),
    Threshold(
        "churn-interval-seconds",
        0.95,
        SECONDS,
        "Time between two of them that makes up for busy seconds, for four times as long or when none overlaps the one before; "
        "scheduled jobs start less often.",
        _ALL,
    ),
    Threshold(
        "churn-few-least",
        8,
        "times",
        "Connections, producers or consumers that are enough when they follow each other closely, one at a time, for two seconds or more.",
        _ALL,
        1,
    ),
    Threshold(
        "churn-slow-interval-seconds",
        3,
        SECONDS,
        "Time between two of them when they come one at a time, all for one topic; cron jobs are minutes apart.",
        _ALL,
    ),
    Threshold(
        "churn-busy",
        2,
        "seconds",
        "Busy seconds; the start of an application is over in one.",
        _ALL,
        1,
    ),
    Threshold("churn-frames", 20, "frames", "Frames that a client sends on a connection it hardly uses.", ("connection-churn",), 1),
    Threshold(
        "producer-churn-frames",
        8,
        "frames",
        "Frames that a client sends for each producer; a producer with one message takes three.",
        ("producer-churn",),
        1,
    ),
    Threshold(
        "consumer-churn-frames",
        10,
        "frames",
        "Frames that a client sends for each consumer; one message takes six, a reader that asks whether there are more takes eight.",
        ("consumer-churn",),
        1,
    ),
    Threshold("connection-churn-seconds", 5, SECONDS, "Life of a connection; one that lives longer is in use.", ("connection-churn",)),
    Threshold(
        "idle-cut-seconds",
        0.5,
        SECONDS,
        "Time without traffic before the end; a broker that ends a connection because of a command does so at once.",
        ("idle-cut",),
    ),
    Threshold(
        "idle-cut-connections", 3, "connections", "Connections that end after the same idle time; two may be chance.", ("idle-cut",), 2
    ),
)

TOPICS_MAX = 1_000
"""Topics of one connection whose producers are counted, or whose consumers are."""

_FRAMES = {"producer": "producer-churn-frames", "consumer": "consumer-churn-frames"}
"""Threshold by what is made and closed."""

_ALIKE = 0.1
"""Idle times are the same when they differ by no more than this share."""


class ChurnRule(ConnectionRule):
    """Rule about the producers and consumers of one connection."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._closed: dict[str, dict[str, Repetitions]] = {kind: {} for kind in _FRAMES}
        """What the client closed, by topic."""
        self._count = dict.fromkeys(_FRAMES, 0)
        self._unsubscribed: set[int] = set()
        """Ids of consumers that were unsubscribed, and not closed yet."""

    def _close_producer(self, row: FrameRow) -> None:
        self._close("producer", row)

    def _close_consumer(self, row: FrameRow) -> None:
        if (number := (row.fields or {}).get("consumer_id", -1)) in self._unsubscribed:
            self._unsubscribed.remove(number)  # some clients close what they unsubscribed
        else:
            self._close("consumer", row)

    def _unsubscribe(self, row: FrameRow) -> None:
        if len(self._unsubscribed) < TOPICS_MAX:
            self._unsubscribed.add((row.fields or {}).get("consumer_id", -1))
        self._close("consumer", row)

    def _close(self, kind: str, row: FrameRow) -> None:
        if row.direction != CLIENT or row.topic is None:
            return
        self._count[kind] += 1
        where, topics = where_of(row), self._closed[kind]
        if row.topic not in topics and len(topics) >= TOPICS_MAX:
            return
        closed = topics.setdefault(row.topic, Repetitions(where))
        closed.asked += 1
        closed.repeat(where, self._context.thresholds["churn-rate"])
        closed.times[1:] = [where]

    def end(self, row: ConnectionRow, last: Where) -> None:  # noqa: ARG002 - the contract's
        """Report the topics whose producers or consumers came and went."""
        limits = self._context.thresholds
        most = sum(limits[_FRAMES[kind]] * count for kind, count in self._count.items())
        for kind, topics in self._closed.items():
            for topic, closed in topics.items():
                first, latest = closed.times[0], closed.times[-1]
                span = latest.time - first.time
                if not _is_churn(closed, closed.asked, span, limits, in_turn=span >= limits.ns("churn-busy"), slow=True):
                    continue
                if row.client_frames > most:
                    continue
                text = (
                    f"Client {self._context.client} made and closed {plural(closed.asked, kind)} on {topic} in "
                    f"{duration(span)}, with {row.client_frames / sum(self._count.values()):.1f} frames for each."
                )
                evidence = {"frames": frame_names([first.name, latest.name]), "topic": topic, "count": closed.asked}
                self._context.report(f"{kind}-churn", first, text, evidence)

    frames: ClassVar[Handlers] = {"CLOSE_PRODUCER": _close_producer, "CLOSE_CONSUMER": _close_consumer, "UNSUBSCRIBE": _unsubscribe}


def _is_churn(repetitions: Repetitions, count: int, span_ns: int, thresholds: Thresholds, *, in_turn: bool, slow: bool) -> bool:
    """Return True for repetitions with enough busy seconds, or so many, so soon after each other, that they need none.

    `in_turn`: none begins before the end of the one before, as what starts at once does. `slow`: all are for one purpose.
    """
    interval, least, few = thresholds.ns("churn-interval-seconds"), thresholds["churn-least"], thresholds["churn-few-least"]
    if repetitions.busy >= least and repetitions.seconds >= thresholds["churn-busy"]:
        return True
    if in_turn and span_ns >= thresholds.ns("churn-busy"):
        longest = thresholds.ns("churn-slow-interval-seconds") if slow and count >= least else interval
        return count >= few and span_ns <= (count - 1) * longest
    return count >= least and (in_turn or span_ns >= 4 * interval) and span_ns <= (count - 1) * interval


def judge_churn(client: str, server: str, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> list[Fact]:
    """Report the connections of a client to a server that were opened far more often than used, and return their facts."""
    short = [
        fact
        for fact in facts
        if fact.values["closed_by"] == CLIENT
        and not (fact.values["refused"] or fact.values["torn"])
        and fact.values["client_frames"] <= thresholds["churn-frames"]
        and fact.values["lifetime"] < thresholds.ns("connection-churn-seconds")
    ]
    if not short:
        return []
    short.sort(key=lambda fact: fact.values["start"])
    opened = Repetitions(short[0].where)
    for fact in short:
        opened.repeat(fact.where._replace(time=fact.values["start"]), thresholds["churn-rate"])
    first, last = short[0], short[-1]
    ends = [fact.values["start"] + fact.values["lifetime"] for fact in short]
    in_turn = all(end <= fact.values["start"] for end, fact in zip(ends, short[1:], strict=False))
    topics = {fact.values["topic"] for fact in short}
    is_one = len(topics) == 1 and None not in topics
    if not _is_churn(opened, len(short), last.values["start"] - first.values["start"], thresholds, in_turn=in_turn, slow=is_one):
        return []
    span = last.where.time - first.values["start"]
    lived = max(fact.values["lifetime"] for fact in short)
    text = (
        f"{client} opened and closed {plural(len(short), 'connection')} to {server} in {duration(span)}; none lived longer than "
        f"{duration(lived)}, and on none did it send more than {plural(max(fact.values['client_frames'] for fact in short), 'frame')}."
    )
    evidence = {
        "frames": frame_names(fact.values["frame"] for fact in short),
        "connections": [fact.where.connection for fact in short[:DIAGNOSIS_NAMES_MAX]],
        "count": len(short),
        "span_ns": span,
        "lived_max_ns": lived,
    }
    report("connection-churn", first.where._replace(time=first.values["last"]), text, evidence)
    return short


def judge_idle(client: str, server: str, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report connections of a client to a server that were cut one after the other when they had been idle for the same time."""
    cut = [fact for fact in facts if fact.values["idle"] >= thresholds.ns("idle-cut-seconds") and fact.values["cut"]]
    if not cut:
        return
    usual = median(fact.values["idle"] for fact in cut)
    alike: list[Fact] = []
    for fact in sorted(cut, key=lambda fact: fact.where.time):
        # Connections that end together have one reason, such as a stop of the broker.
        if abs(fact.values["idle"] - usual) <= _ALIKE * usual and (not alike or fact.where.time - alike[-1].where.time >= usual / 2):
            alike.append(fact)
    if len(alike) < thresholds["idle-cut-connections"]:
        return
    first = alike[0]
    text = (
        f"{plural(len(alike), 'connection')} of {client} to {server} died after {duration(int(usual))} without traffic each time, one "
        "after the other."
    )
    evidence = {
        "frames": frame_names(fact.values["frame"] for fact in alike),
        "connections": [fact.where.connection for fact in alike[:DIAGNOSIS_NAMES_MAX]],
        "count": len(alike),
        "idle_ns": int(usual),
        "closed_by_broker": sum(fact.values["closed_by"] == SERVER for fact in alike),
    }
    report("idle-cut", first.where._replace(time=first.values["last"]), text, evidence)
