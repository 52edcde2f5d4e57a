"""Connections, producers and consumers that are opened for very little work."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from typing import Any, ClassVar

import msgspec

from pulsarscope.dissect.contract.rules import ColumnsHandlers, ConnectionRule, Handlers, RuleContext, Where, where_of
from pulsarscope.model.bounded_tables import NOTHING, remember
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.flow import CLIENT
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import Thresholds, counted, in_seconds
from pulsarscope.protocols.pulsar.message_ids import Position, position_of
from pulsarscope.protocols.pulsar.rules.connections.left_open import (
    HELD,
    LeftOpen,
    average_work,
    chosen_name,
    emit_left_open,
    report_left_open,
)
from pulsarscope.protocols.pulsar.rules.connections.storms import Repetitions, is_system_topic
from pulsarscope.protocols.pulsar.rules.evidence import frame_names

CODES = table(
    SESSION.warning(
        "connection-churn",
        "A client opens connections again and again, for hardly any work on each.",
        "Share one client for the life of the process. Processes of one host look the same: each should keep its connection.",
        to_act="the application",
    ),
    SESSION.warning(
        "producer-churn",
        "A client opens a producer for every message or two.",
        "Keep one producer and use it again: each one costs the broker requests and an entry in its metadata.",
        to_act="the application",
    ),
    SESSION.warning(
        "consumer-churn",
        "A client opens a consumer or reader again and again, for hardly any work of each.",
        "Keep one and use it again: each one costs the broker requests, and another one gets what it has prefetched only after it is "
        "closed. If each serves a user, close it when the user leaves.",
        ("consumer-not-acking",),
        to_act="the application",
    ),
    SESSION.note(
        "churn-undecided",
        "Clients of one address, or readers of one client, came and did hardly anything: too few for a verdict, or each for someone else.",
        "A longer capture would show whether these are jobs that start now and then, or a client is made for each message; one at the "
        "clients, whether several share the address, like devices behind NAT. If each reader serves a user, close it when the user leaves.",
    ),
)

_ALL = ("connection-churn", "producer-churn", "consumer-churn")

THRESHOLDS = (
    counted(
        "churn-least",
        12,
        "times",
        "Connections, producers or consumers that a client must open; it needs one connection to each broker.",
        *_ALL,
    ),
    counted(
        "churn-rate",
        3,
        "times/s",
        "Connections, producers or consumers in a second that make it a busy one; scheduled jobs start less often.",
        *_ALL,
    ),
    in_seconds(
        "churn-interval-seconds",
        0.95,
        "Time between two of them that makes up for busy seconds, for four times as long or when none overlaps the one before; "
        "scheduled jobs start less often.",
        *_ALL,
    ),
    counted(
        "churn-few-least",
        8,
        "times",
        "Connections, producers or consumers that are enough when they follow each other closely, one at a time, for two seconds or more.",
        *_ALL,
    ),
    in_seconds(
        "churn-slow-interval-seconds",
        3,
        "Time between two of them when they come one at a time, all for one topic; cron jobs are minutes apart.",
        *_ALL,
    ),
    counted("churn-busy", 2, "seconds", "Busy seconds; the start of an application is over in one.", *_ALL),
    counted("churn-undecided-least", 3, "times", "Connections, one after the other, that may be the first of many.", "churn-undecided"),
    in_seconds("churn-undecided-interval-seconds", 10, "Time between two of them; cron jobs are minutes apart.", "churn-undecided"),
    counted("churn-frames", 20, "frames", "Frames that a client sends on a connection it hardly uses.", "connection-churn"),
    counted(
        "producer-churn-sends",
        5,
        "SENDs",
        "SENDs of each producer; one that stays open for its work sends more.",
        "producer-churn",
        "connection-churn",
    ),
    counted(
        "consumer-churn-messages",
        5,
        "messages",
        "Messages that each consumer acknowledges, or asks for beyond its first FLOW; what it prefetches says nothing about its work.",
        "consumer-churn",
    ),
    HELD,
    in_seconds(
        "connection-churn-seconds",
        5,
        "Life of a connection; one that lives longer is in use, unless many of them were left open.",
        "connection-churn",
    ),
)

TOPICS_MAX = 1_000
"""Topics of one connection whose producers or consumers are counted."""

OPEN_MAX = 10_000
"""Producers, and consumers, of one connection whose work is counted; with more at once, the work is unknown."""

UNSUBSCRIBED_MAX = 1_000
"""Consumers of one connection that were unsubscribed and not closed yet; clients that close them do so at once."""

_WORK = {"producer": ("producer-churn-sends", "SENDs by"), "consumer": ("consumer-churn-messages", "messages acknowledged by")}
"""Threshold and description of the work, by what is opened and closed."""

RECONNECTS = "connections-of-client"
"""Key rule about the connections of a client to a server."""


class ClosedOnes(Repetitions):
    """Producers or consumers of one topic that the client closed."""

    __slots__ = ("work",)

    def __init__(self, where: Where) -> None:
        super().__init__(where)
        self.work = 0
        """Total SENDs or messages."""


class ConsumerWork(msgspec.Struct):
    """Work of a consumer so far."""

    first: Position | None = None
    """First entry that it got."""
    start: Position | None = None
    """Entry after which it begins, if its SUBSCRIBE names one."""
    subscription: tuple[str | None, str | None] | None = None
    """Topic and durable subscription."""
    acknowledged: int = 0
    has_flowed: bool = False
    asked: int = 0
    """Permits granted after the first FLOW, which is the number of messages that the application took."""
    opened: tuple[str, str | None, Where] | None = None
    """Topic, durable subscription and first SUBSCRIBE, if they are known."""
    latest: int = 0
    """Time of the latest ACK, or FLOW after the first one."""

    @property
    def done(self) -> int:
        """Number of messages that it processed, at least."""
        return max(self.acknowledged, self.asked)


class ChurnRule(ConnectionRule):
    """Rule about the producers and consumers of one connection."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._closed: dict[str, dict[str, ClosedOnes]] = {kind: {} for kind in _WORK}
        """Producers and consumers that the client closed, by topic."""
        self._sends: dict[int, int] = {}
        """SENDs of open producers by id."""
        self._opened: dict[int, tuple[str, str | None, Where]] = {}
        """Topic, chosen name and PRODUCER of open producers by id."""
        self._consumers: dict[int, ConsumerWork] = {}
        """Work of open consumers by id."""
        self._unsubscribed: dict[int, None] = {}
        """Ids of consumers that were unsubscribed, and not closed yet."""
        self._reached: dict[tuple[str | None, str | None] | None, Position] = NOTHING
        """Position of the latest cumulative ACK by topic and durable subscription."""
        self._is_known = True
        """False when more were open at once than are followed, so that their work is unknown."""

    def _producer(self, row: FrameRow) -> None:
        if row.topic is not None and len(self._opened) < OPEN_MAX:
            fields = row.fields or NOTHING
            self._opened[fields.get("producer_id", -1)] = row.topic, chosen_name(fields), where_of(row)

    def _send(self, row: FrameRow) -> None:
        self._count_sends((row.fields or NOTHING).get("producer_id", -1), 1)

    def _count_sends(self, number: int, count: int) -> None:
        if number in self._sends or self._has_room(self._sends):
            self._sends[number] = self._sends.get(number, 0) + count

    def _work_of(self, row: FrameRow) -> ConsumerWork:
        number = _consumer_id(row)
        if (work := self._consumers.get(number)) is None:
            work = ConsumerWork()
            if self._has_room(self._consumers):
                self._consumers[number] = work
        return work

    def _has_room(self, table: Sized) -> bool:
        """Return True unless too many are open for the work of all to be known."""
        self._is_known = self._is_known and len(table) < OPEN_MAX
        return self._is_known

    def _subscribe(self, row: FrameRow) -> None:
        self._unsubscribed.pop(_consumer_id(row), None)
        work = self._work_of(row)  # after a SEEK it subscribes again
        work.first, work.has_flowed = None, False
        fields = row.fields or NOTHING
        work.subscription = (row.topic, row.subscription) if fields.get("durable", True) else None
        work.start = position_of(fields["start_message_id"]) if fields.get("start_message_id") else None
        if work.opened is None and row.topic is not None:
            work.opened = row.topic, row.subscription if work.subscription else None, where_of(row)

    def _flow(self, row: FrameRow) -> None:
        work = self._work_of(row)
        if work.has_flowed:
            work.asked += (row.fields or NOTHING).get("messagePermits", 0)
            work.latest = row.time
        work.has_flowed = True

    def _message(self, row: FrameRow) -> None:
        work = self._work_of(row)
        if work.first is None:
            work.first = position_of((row.fields or NOTHING).get("message_id"))

    def _ack(self, row: FrameRow) -> None:
        work, fields = self._work_of(row), row.fields or NOTHING
        message_ids, work.latest = fields.get("message_id") or (), row.time
        if fields.get("ack_type") != "Cumulative":
            work.acknowledged += len(message_ids)
            return
        for ledger, entry in map(position_of, message_ids):
            if work.first is None:  # its messages are not in the capture: at least this one, or all from its start
                start = work.start or self._reached.get(work.subscription, (-1, 0))
                work.first = ledger, min(start[1] + 1, entry) if start[0] == ledger else entry
            covered = entry + 1 - (work.first[1] if work.first[0] == ledger else 0)
            work.acknowledged = max(work.acknowledged, covered)
            if work.subscription is not None:
                self._reached = self._reached or {}
                remember(self._reached, work.subscription, (ledger, entry), TOPICS_MAX)

    def _close_producer(self, row: FrameRow) -> None:
        number = (row.fields or NOTHING).get("producer_id", -1)
        self._opened.pop(number, None)
        self._close("producer", row, self._sends.pop(number, 0))

    def _close_consumer(self, row: FrameRow) -> None:
        number = _consumer_id(row)
        if number in self._unsubscribed:
            del self._unsubscribed[number]  # some clients close consumers after they unsubscribe
        else:
            self._end_consumer(number, row)

    def _unsubscribe(self, row: FrameRow) -> None:
        number = _consumer_id(row)
        remember(self._unsubscribed, number, None, UNSUBSCRIBED_MAX)
        self._end_consumer(number, row)

    def _end_consumer(self, number: int, row: FrameRow) -> None:
        work = self._consumers.pop(number, None) or ConsumerWork()
        self._close("consumer", row, work.done)

    def _close(self, kind: str, row: FrameRow, work: int) -> None:
        if row.direction != CLIENT or row.topic is None or is_system_topic(row.topic):
            return  # a broker opens a reader of a system topic for each topic that it loads
        where, topics = where_of(row), self._closed[kind]
        if row.topic not in topics and len(topics) >= TOPICS_MAX:
            return
        closed = topics.setdefault(row.topic, ClosedOnes(where))
        closed.asked += 1
        closed.work += work
        closed.repeat(where, self._context.thresholds["churn-rate"])
        closed.times[1:] = [where]

    def end(self, row: ConnectionRow, last: Where) -> None:  # noqa: ARG002 - the contract's
        """Report the topics whose producers or consumers came and went, or were left open."""
        limits = self._context.thresholds
        if not self._is_known:
            return
        producers = [LeftOpen(topic, None, where, self._sends.get(number, 0)) for number, (topic, _, where) in self._opened.items()]
        known = [(work, work.opened) for work in self._consumers.values() if work.opened is not None]
        consumers = [LeftOpen(*of, work.done, work.latest, not work.acknowledged and work.first is not None) for work, of in known]
        for kind, opened in (("producer", producers), ("consumer", consumers)):
            limit, work = _WORK[kind]
            report_left_open(self._context, kind, work, limits[limit], opened, row.end)
        if len(self._opened) == 1 and not self._consumers:
            for topic, name, _ in self._opened.values():
                emit_left_open(self._context, RECONNECTS, topic, name, sum(self._sends.values()), row)
        for kind, (limit, work) in _WORK.items():
            for topic, closed in self._closed[kind].items():
                first, latest = closed.times[0], closed.times[-1]
                span = latest.time - first.time
                if not is_churn(closed, closed.asked, span, limits, in_turn=span >= limits.ns("churn-busy"), slow=True):
                    continue
                if closed.work > limits[limit] * closed.asked:
                    continue
                text = (
                    f"Client {self._context.client} made and closed {plural(closed.asked, kind)} on {topic} in "
                    f"{duration(span)}, with {average_work(closed.work, closed.asked, work)}."
                )
                evidence = {"frames": frame_names([first.name, latest.name]), "topic": topic, "count": closed.asked}
                self._context.report(f"{kind}-churn", first, text, evidence)

    def batch(self, rows: Sequence[Any], handle: Callable[[int], None]) -> None:
        """Skip all messages but the first one of each consumer; see `ConnectionRule.batch`."""
        consumers = self._consumers
        for index, row in enumerate(rows):
            if row.command == "MESSAGE":
                work = consumers.get(_consumer_id(row))
                if work is not None and work.first is not None:
                    continue
            handle(index)

    def sends(self, frames: Any, _handle: Callable[[int], None]) -> bool:
        """Count the SENDs; see `ConnectionRule.columns`."""
        for producer in frames.producers:
            if count := len(producer.sends):
                self._count_sends(producer.id, count)
        return True

    def deliveries(self, frames: Any, handle: Callable[[int], None]) -> bool:
        """Skip the messages after the first one of each consumer, and count what it acknowledges; see `ConnectionRule.columns`."""
        for group in frames.consumers:
            work, acks = self._consumers.get(group.id), group.acks
            if group.places and (work is None or work.first is None):
                handle(group.places[0])
            if acks and group.id not in self._consumers:
                handle(acks[0][0])
                acks = acks[1:]
            if (work := self._consumers.get(group.id)) is not None:
                work.acknowledged += sum(len(positions) for _, _, positions, _ in acks)
                if acks:
                    work.latest = frames.where_of(acks[-1][0])[4]
        return True

    columns: ClassVar[ColumnsHandlers] = {"SEND": sends, "MESSAGE": deliveries}
    frames: ClassVar[Handlers] = {
        "PRODUCER": _producer,
        "SEND": _send,
        "CLOSE_PRODUCER": _close_producer,
        "SUBSCRIBE": _subscribe,
        "FLOW": _flow,
        "MESSAGE": _message,
        "ACK": _ack,
        "CLOSE_CONSUMER": _close_consumer,
        "UNSUBSCRIBE": _unsubscribe,
    }


def _consumer_id(row: FrameRow) -> int:
    number: int = (row.fields or NOTHING).get("consumer_id", -1)
    return number


def is_churn(repetitions: Repetitions, count: int, span_ns: int, thresholds: Thresholds, *, in_turn: bool, slow: bool) -> bool:
    """Return True for repetitions with enough busy seconds, or enough of them in quick succession.

    `in_turn`: none begins before the previous one ends, unlike those that start at the same time. `slow`: all have one purpose.
    """
    interval, least, few = thresholds.ns("churn-interval-seconds"), thresholds["churn-least"], thresholds["churn-few-least"]
    if repetitions.busy >= least and repetitions.seconds >= thresholds["churn-busy"]:
        return True
    if in_turn and span_ns >= thresholds.ns("churn-busy"):
        longest = thresholds.ns("churn-slow-interval-seconds") if slow and count >= least else interval
        return count >= few and span_ns <= (count - 1) * longest
    return count >= least and (in_turn or span_ns >= 4 * interval) and span_ns <= (count - 1) * interval
