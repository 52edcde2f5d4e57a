"""Consumers: permits granted and used, messages delivered but not acknowledged, and since when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from pulsarscope.dissect.contract.capabilities import Course, ReportColumn, ReportTable
from pulsarscope.model.bins import Bins
from pulsarscope.model.bounded_tables import remember
from pulsarscope.model.frame_name import frame_name
from pulsarscope.model.limits import COURSE_CELLS_MAX, STATISTICS_NAMES_MAX, TABLE_ENTRIES_MAX
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.protocols.pulsar.ack_sets import bitmap
from pulsarscope.protocols.pulsar.message_ids import Position, batch_size, position_of
from pulsarscope.protocols.pulsar.waiting import EarlyAcks, Waiting, is_stored

COURSES_MAX, COURSE_POINTS = 40, 400
"""Consumers with a course, and points of each course: as many charts as people look at, and a point for every two or three pixels."""


class _Pending(msgspec.Struct, gc=False):
    """A delivered entry that is not acknowledged yet."""

    time: int
    messages: int
    left: int = -1
    """Bits of the messages of the batch that are not acknowledged; -1 (all) until the broker or an ACK names some."""


class _Consumer(msgspec.Struct):
    connection: str
    consumer_id: int
    waiting: Waiting[_Pending]
    serial: int
    name: str | None = None
    subscription: str | None = None
    topic: str | None = None
    type: str | None = None
    whole: bool = False
    """True when its SUBSCRIBE is in the capture."""
    state: str = "open"
    granted: int = 0
    delivered: int = 0
    permits_used: int = 0
    redelivered: int = 0
    acknowledged: int = 0
    unacknowledged: int = 0
    """Messages of the waiting entries."""
    untracked: int = 0
    """Messages of entries beyond the bound on waiting entries."""
    last_delivery: int | None = None
    last_flow: int | None = None
    last_flow_frame: str | None = None
    last_ack: int | None = None
    last_ack_frame: str | None = None
    early: EarlyAcks = msgspec.field(default_factory=EarlyAcks)
    before: _Consumer | None = None
    """The consumer that keeps this id if this SUBSCRIBE is refused."""

    @property
    def permits_left(self) -> int | None:
        """Permits granted but not used; None if some may have been granted before the capture."""
        known = self.whole and (self.last_flow is not None or not self.permits_used)
        return self.granted - self.permits_used if known else None


_COURSE = ("permits_left", "unacknowledged", "delivered", "acknowledged")


def _last(earlier: list[Any], later: list[Any]) -> None:
    earlier[:] = later


class Consumers:
    """A fold over the frames of consumers."""

    def __init__(self) -> None:
        self.left_out = 0
        self.found: list[_Consumer] = []
        self._open: dict[tuple[str, int], _Consumer] = {}
        self._asking: dict[str, _Consumer] = {}
        """Consumers by the frame name of a SUBSCRIBE that has no answer yet."""
        self._waiting = 0
        self._end = 0
        self._course: Bins[int, list[Any]] | None = None
        """Time and values of each consumer's last state in a bin."""

    def feed(self, rows: Iterable[Any], endpoints: Mapping[str, tuple[str, str]]) -> None:
        """Take rows (see `ReportFold`)."""
        del endpoints
        for row in rows:
            if isinstance(row, FrameRow):
                self._end = max(self._end, row.time)
                handler = _HANDLERS.get(row.command or "")
                fields = row.fields
                if handler is not None and fields is not None and type(number := fields.get("consumer_id")) is int:
                    consumer = self._consumer(row, number)
                    if consumer is not None:
                        handler(self, consumer, row, fields)
                        if self._course is not None:
                            self._keep(self._course, consumer, row)
                elif row.command in {"SUCCESS", "ERROR"} and (asking := self._asking.pop(row.request or "", None)) is not None:
                    self._answer(asking, row)
            elif isinstance(row, ConnectionRow) and row.closed != "open":
                self._close_all(row.connection or "")

    def _answer(self, consumer: _Consumer, row: FrameRow) -> None:
        """Remove a consumer whose SUBSCRIBE is refused: clients retry, each time with another consumer."""
        before, consumer.before = consumer.before, None
        if row.command == "ERROR" and consumer.state == "open":
            consumer.state = "refused"
            key = consumer.connection, consumer.consumer_id
            if before is not None and before.state == "open" and self._open.get(key) is consumer:
                self._open[key] = before

    def _consumer(self, row: FrameRow, number: int) -> _Consumer | None:
        """Return the consumer of a frame; None beyond the bound."""
        key = row.connection, number
        consumer = self._open.get(key)
        if consumer is None or row.command == "SUBSCRIBE":
            if len(self.found) >= STATISTICS_NAMES_MAX:
                self._open.pop(key, None)  # later frames do not belong to the previous consumer with this id
                self.left_out += 1
                return None
            consumer = self._open[key] = _Consumer(
                row.connection, number, Waiting(), len(self.found), subscription=row.subscription, topic=row.topic, before=consumer
            )
            if consumer.before is not None:
                consumer.before.before = None  # prevents a chain of consumers
            self.found.append(consumer)
        elif row.topic is not None:
            consumer.topic = row.topic  # a live run may have learned its name
        return consumer

    def keep_courses(self) -> None:
        """Keep courses (see `CourseFold`)."""
        self._course = Bins(COURSE_CELLS_MAX, list, _last)

    def courses(self) -> list[Course]:
        """Return the courses of the consumers with the most unacknowledged messages (see `CourseFold`)."""
        if self._course is None:
            return []
        self._course.widen(COURSE_POINTS)
        points: dict[int, list[tuple[int, tuple[int | None, ...]]]] = {}
        for _, serial, (time, state) in self._course.cells():
            points.setdefault(serial, []).append((time, state))
        shown = sorted(self.found, key=lambda consumer: (-consumer.unacknowledged - consumer.untracked, -consumer.delivered))
        return [Course(self._record(each), _COURSE, points.get(each.serial, [])) for each in shown[:COURSES_MAX]]

    def _keep(self, course: Bins[int, list[Any]], consumer: _Consumer, row: FrameRow) -> None:
        unacknowledged = consumer.unacknowledged + consumer.untracked
        state = consumer.permits_left, unacknowledged, consumer.delivered, consumer.acknowledged
        course.of(row.time, consumer.serial)[:] = row.time, state

    def _close_all(self, connection: str) -> None:
        for consumer in self.found:
            if consumer.connection == connection and consumer.state == "open":
                consumer.state = "disconnected"

    def subscribe(self, consumer: _Consumer, row: FrameRow, fields: Mapping[str, Any]) -> None:
        """Start a consumer with the names in its SUBSCRIBE."""
        remember(self._asking, frame_name(row.file, row.packet, row.sub), consumer, STATISTICS_NAMES_MAX)
        consumer.whole = True
        consumer.name, consumer.type = fields.get("consumer_name"), fields.get("subType")
        consumer.subscription, consumer.topic = fields.get("subscription"), fields.get("topic")

    def flow(self, consumer: _Consumer, row: FrameRow, fields: Mapping[str, Any]) -> None:
        """Count the permits of a FLOW."""
        consumer.granted += max(fields.get("messagePermits", 0), 0)
        consumer.last_flow, consumer.last_flow_frame = row.time, frame_name(row.file, row.packet, row.sub)

    def deliver(self, consumer: _Consumer, row: FrameRow, fields: Mapping[str, Any]) -> None:
        """Count a MESSAGE, which waits for its acknowledgment."""
        messages = max(row.num_messages or 0, 0)
        consumer.delivered += messages
        consumer.permits_used += batch_size(row) if row.metadata is not None else messages
        consumer.last_delivery = row.time
        if fields.get("redelivery_count", 0):
            consumer.redelivered += messages
        position = position_of(fields.get("message_id"))
        left = bitmap(ack_set) if (ack_set := fields.get("ack_set")) else -1
        if not is_stored(position):
            return  # brokers forget a message without storage when they send it
        if (again := consumer.waiting.entries.get(position)) is not None:
            consumer.unacknowledged += messages - again.messages
            again.messages, again.left = messages, left
        elif self._waiting < TABLE_ENTRIES_MAX:
            consumer.waiting.add(position, _Pending(row.time, messages, left))
            consumer.unacknowledged += messages
            self._waiting += 1
        else:
            consumer.untracked += messages
        if consumer.early.may_have(place := (row.file or 0, row.packet or 0), row.time):
            is_acknowledged, ack_set = consumer.early.of(position, place, row.time)
            if is_acknowledged:
                self._settle(consumer, position, ack_set)

    def acknowledge(self, consumer: _Consumer, row: FrameRow, fields: Mapping[str, Any]) -> None:
        """Remove the messages that an ACK names from the waiting ones."""
        consumer.last_ack, consumer.last_ack_frame = row.time, frame_name(row.file, row.packet, row.sub)
        place = consumer.early.latest = row.file or 0, row.packet or 0
        cumulative = fields.get("ack_type") == "Cumulative"
        for message_id in fields.get("message_id") or ():
            if type(message_id) is not dict:
                continue
            position = position_of(message_id)
            if cumulative:
                consumer.early.cumulative = place, position
                for earlier in consumer.waiting.take_order_before(position):
                    self._settle(consumer, earlier, None)
            if not self._settle(consumer, position, ack_set := message_id.get("ack_set")):
                consumer.early.add(position, place, row.time, ack_set)

    def _settle(self, consumer: _Consumer, position: Position, ack_set: list[int] | None) -> bool:
        """Acknowledge an entry, or the messages of a batch whose bits are missing in an ack_set. Return False if it does not wait."""
        waiting = consumer.waiting.entries.get(position)
        if waiting is None:
            return False
        left = 0
        if ack_set:
            waiting.left = bitmap(ack_set) if waiting.left < 0 else waiting.left & bitmap(ack_set)
            left = min(waiting.left.bit_count(), waiting.messages)
        consumer.acknowledged += waiting.messages - left
        consumer.unacknowledged -= waiting.messages - left
        waiting.messages = left
        if not left:
            del consumer.waiting.entries[position]
            self._waiting -= 1
        return True

    def forget(self, consumer: _Consumer, row: FrameRow, fields: Mapping[str, Any]) -> None:
        """Drop entries that will be delivered again: those that REDELIVER_UNACKNOWLEDGED_MESSAGES names, or all; all after a SEEK."""
        named = [position_of(each) for each in fields.get("message_ids") or () if type(each) is dict]
        for position in named if row.command != "SEEK" and named else list(consumer.waiting.entries):
            if (waiting := consumer.waiting.entries.pop(position, None)) is not None:
                consumer.unacknowledged -= waiting.messages
                self._waiting -= 1
        if not named:
            consumer.untracked = 0

    def close(self, consumer: _Consumer, row: FrameRow, _fields: Mapping[str, Any]) -> None:
        """Close a consumer at a CLOSE_CONSUMER from either side, or an UNSUBSCRIBE."""
        consumer.state = "closed by broker" if row.direction == "server" else "closed"

    def forget_ended(self) -> None:
        """Drop consumers that are closed or disconnected."""
        self._waiting -= sum(len(consumer.waiting.entries) for consumer in self.found if consumer.state != "open")
        self.found = [consumer for consumer in self.found if consumer.state == "open"]
        self._open = {key: consumer for key, consumer in self._open.items() if consumer.state == "open"}

    def records(self) -> list[dict[str, Any]]:
        """Return a record for each consumer: open ones first, those with the most unacknowledged messages before others."""
        return sorted(
            map(self._record, self.found),
            key=lambda record: (record["state"] != "open", -record["unacknowledged"], record["oldest_since"] or 0),
        )

    def _record(self, consumer: _Consumer) -> dict[str, Any]:
        oldest = min(consumer.waiting.entries, default=None)
        since = None if oldest is None else consumer.waiting.entries[oldest].time
        return {
            "subscription": consumer.subscription,
            "consumer": consumer.name or f"{consumer.connection}/{consumer.consumer_id}",
            "topic": consumer.topic,
            "type": consumer.type,
            "state": consumer.state,
            "connection": consumer.connection,
            "consumer_id": consumer.consumer_id,
            "whole": consumer.whole,
            "granted": consumer.granted,
            "delivered": consumer.delivered,
            "permits_left": consumer.permits_left,
            "acknowledged": consumer.acknowledged,
            "unacknowledged": consumer.unacknowledged + consumer.untracked,
            "oldest_unacknowledged": None if oldest is None else f"{oldest[0]}:{oldest[1]}",
            "oldest_since": since,
            "oldest_age_ns": None if since is None else max(self._end - since, 0),
            "redelivered": consumer.redelivered,
            "last_delivery": consumer.last_delivery,
            "last_flow": consumer.last_flow,
            "last_flow_frame": consumer.last_flow_frame,
            "last_ack": consumer.last_ack,
            "last_ack_frame": consumer.last_ack_frame,
            "last_ack_age_ns": None if consumer.last_ack is None else self._end - consumer.last_ack,
        }


_HANDLERS = {
    "SUBSCRIBE": Consumers.subscribe,
    "FLOW": Consumers.flow,
    "MESSAGE": Consumers.deliver,
    "ACK": Consumers.acknowledge,
    "REDELIVER_UNACKNOWLEDGED_MESSAGES": Consumers.forget,
    "SEEK": Consumers.forget,
    "CLOSE_CONSUMER": Consumers.close,
    "UNSUBSCRIBE": Consumers.close,
}

TABLE = ReportTable(
    "consumers",
    "Consumers",
    "unacknowledged at the end; permits if seen from their start",
    (
        ReportColumn("subscription", "subscription", "name"),
        ReportColumn("consumer", "consumer", "name"),
        ReportColumn("topic", "topic", "topic", spare=True),
        ReportColumn("type", "type", "text", spare=True),
        ReportColumn("delivered", "delivered", kept=True),
        ReportColumn("permits_left", "permits", kept=True),
        ReportColumn("unacknowledged", "unacked", kept=True),
        ReportColumn("oldest_unacknowledged", "oldest", "text"),
        ReportColumn("oldest_age_ns", "for", "duration"),
        ReportColumn("redelivered", "again", spare=True),
        ReportColumn("last_ack_age_ns", "last ACK ago", "duration", spare=True),
        ReportColumn("state", "state", "text", spare=True),
    ),
    Consumers,
)
