"""The backlog of subscriptions over time: messages published but not acknowledged, and the age of the oldest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from pulsarscope.dissect.contract.capabilities import ReportColumn, ReportTable
from pulsarscope.model.bins import Bins
from pulsarscope.model.bounded_tables import remember
from pulsarscope.model.frame_name import frame_name
from pulsarscope.model.limits import COURSE_CELLS_MAX, PENDING_REQUESTS_MAX, STATISTICS_NAMES_MAX, TABLE_ENTRIES_MAX
from pulsarscope.model.records import FrameRow
from pulsarscope.protocols.pulsar.message_ids import Position, position_of
from pulsarscope.protocols.pulsar.waiting import Waiting, is_stored

INTERVALS = 10
"""Maximum number of intervals of a capture if their length is not given: as many as lists have rows."""

_Name = tuple[str | None, str | None]
"""Topic and subscription."""


class _Cell(msgspec.Struct):
    """The counts of a subscription in an interval, and its state at the end of the interval."""

    published: int = 0
    delivered: int = 0
    acknowledged: int = 0
    backlog: int = 0
    oldest: int | None = None
    """Time since which the oldest message has been waiting."""


def _join(earlier: _Cell, later: _Cell) -> None:
    earlier.published += later.published
    earlier.delivered += later.delivered
    earlier.acknowledged += later.acknowledged
    earlier.backlog, earlier.oldest = later.backlog, later.oldest


class _Entry(msgspec.Struct, gc=False):
    """A waiting entry."""

    time: int
    """Time of its receipt, or of its first delivery if that came first."""
    messages: int
    received: bool
    """True when its receipt was seen."""


class _Subscription(msgspec.Struct):
    waiting: Waiting[_Entry]
    early: dict[Position, None] = {}
    """Entries that were acknowledged before their receipt."""
    backlog: int = 0
    changed: int | None = None
    """Nanoseconds from the first row to the latest change."""


class Backlog:
    """A fold over SEND, SEND_RECEIPT, MESSAGE and ACK.

    A message waits from its receipt on, in each subscription that was seen by then. A message that was published before the capture or
    before the subscription waits from its first delivery on.
    """

    def __init__(self) -> None:
        self.left_out = 0
        self._bins: Bins[_Name, _Cell] = Bins(COURSE_CELLS_MAX, _Cell, _join)
        self._interval: int | None = None
        self._found: dict[_Name, _Subscription] = {}
        self._by_topic: dict[str | None, list[_Name]] = {}
        self._sent: dict[str, int] = {}
        """Number of messages of a SEND, by frame name."""
        self._entries = 0
        self._start: int | None = None
        self._end = 0
        """Nanoseconds from the first to the last row."""

    def divide(self, interval: int) -> None:
        """Make a record for each interval of `interval` nanoseconds (see `IntervalFold`)."""
        self._interval = self._bins.width = interval

    def feed(self, rows: Iterable[Any], endpoints: Mapping[str, tuple[str, str]]) -> None:
        """Take rows (see `ReportFold`)."""
        del endpoints
        for row in rows:
            if not isinstance(row, FrameRow) or row.time is None:
                continue
            if self._start is None:
                self._start = row.time
            self._end = max(self._end, row.time - self._start)
            if (handler := _HANDLERS.get(row.command or "")) is not None and row.fields is not None:
                handler(self, row, row.fields)

    def send(self, row: FrameRow, _fields: Mapping[str, Any]) -> None:
        """Remember the number of messages of a SEND."""
        if row.num_messages is not None and row.num_messages > 1:
            remember(self._sent, frame_name(row.file, row.packet, row.sub), row.num_messages, PENDING_REQUESTS_MAX)

    def receive(self, row: FrameRow, fields: Mapping[str, Any]) -> None:
        """Add an entry to the backlog of each subscription of its topic."""
        messages = self._sent.pop(row.request or "", 1)
        if not is_stored(position := position_of(fields.get("message_id"))):
            return
        for name in self._by_topic.get(row.topic, ()):
            found = self._found[name]
            cell = self._change(name, found, row.time)
            cell.published += messages
            if position in found.early:
                del found.early[position]
            elif (entry := found.waiting.entries.get(position)) is not None:
                entry.received = True
            else:
                self._wait(found, position, _Entry(row.time, messages, received=True))

    def subscribe(self, row: FrameRow, _fields: Mapping[str, Any]) -> None:
        """Start a subscription."""
        self._subscription(row)

    def deliver(self, row: FrameRow, fields: Mapping[str, Any]) -> None:
        """Add an entry to the backlog if it was published before the subscription or the capture."""
        found = self._subscription(row)
        position = position_of(fields.get("message_id"))
        if found is None or not is_stored(position):
            return
        messages = max(row.num_messages or 1, 1)
        name = row.topic, row.subscription
        self._change(name, found, row.time).delivered += messages
        if position not in found.waiting.entries and not fields.get("redelivery_count", 0):
            self._wait(found, position, _Entry(row.time, messages, received=False))

    def acknowledge(self, row: FrameRow, fields: Mapping[str, Any]) -> None:
        """Settle entries when an ACK completes all their messages; a cumulative ACK also settles the entries before it."""
        name = row.topic, row.subscription
        if (found := self._found.get(name)) is None:
            return
        cell = self._change(name, found, row.time)
        for position, entry in found.waiting.settle(fields):
            self._entries -= 1
            cell.acknowledged += entry.messages
            found.backlog -= entry.messages
            if not entry.received:
                remember(found.early, position, None, PENDING_REQUESTS_MAX)

    def forget(self, row: FrameRow, _fields: Mapping[str, Any]) -> None:
        """Reset: the position of the subscription has changed, or the subscription is gone."""
        if (found := self._found.get((row.topic, row.subscription))) is not None:
            self._change((row.topic, row.subscription), found, row.time)
            self._entries -= len(found.waiting.entries)
            found.waiting, found.early, found.backlog = Waiting(), {}, 0

    def _subscription(self, row: FrameRow) -> _Subscription | None:
        """Return the subscription of a frame; None for one beyond the bound."""
        name = row.topic, row.subscription
        if (found := self._found.get(name)) is None:
            if len(self._found) >= STATISTICS_NAMES_MAX:
                self.left_out += 1
                return None
            found = self._found[name] = _Subscription(Waiting())
            self._by_topic.setdefault(row.topic, []).append(name)
        return found

    def _wait(self, found: _Subscription, position: Position, entry: _Entry) -> None:
        if self._entries >= TABLE_ENTRIES_MAX:
            self.left_out += 1
            return
        self._entries += 1
        found.waiting.add(position, entry)
        found.backlog += entry.messages

    def _change(self, name: _Name, found: _Subscription, time: int) -> _Cell:
        """Return the cell of a change. The first one of an interval starts with the state at the end of the previous interval."""
        since = max(time - (self._start or 0), found.changed or 0)
        if found.changed is not None and since // self._bins.width != found.changed // self._bins.width:
            self._settle(name, found)
        found.changed = since
        return self._bins.of(found.changed, name)

    def _settle(self, name: _Name, found: _Subscription) -> None:
        if found.changed is not None:
            cell = self._bins.of(found.changed, name)
            cell.backlog = found.backlog
            cell.oldest = min((entry.time for entry in found.waiting.entries.values()), default=None)

    def records(self) -> list[dict[str, Any]]:
        """Return a record for each interval of each subscription from its first change on, in time order."""
        for name, found in self._found.items():
            self._settle(name, found)
        most = max(COURSE_CELLS_MAX // max(len(self._found), 1), 1)
        self._bins.widen(min(INTERVALS, most) if self._interval is None else most, self._end)
        width, start = self._bins.width, self._start or 0
        by_name: dict[_Name, dict[int, _Cell]] = {}
        for bin_start, name, cell in self._bins.cells():
            by_name.setdefault(name, {})[bin_start] = cell
        records = []
        for (topic, subscription), cells in by_name.items():
            state = _Cell()
            for bin_start in range(next(iter(cells)), self._end + 1, width):
                state = cells.get(bin_start) or _Cell(backlog=state.backlog, oldest=state.oldest)
                end = start + min(bin_start + width, self._end)
                records.append(
                    {
                        "start": start + bin_start,
                        "interval_ns": width,
                        "at_ns": bin_start,
                        "topic": topic,
                        "subscription": subscription,
                        "published": state.published,
                        "delivered": state.delivered,
                        "acknowledged": state.acknowledged,
                        "backlog": state.backlog,
                        "oldest_since": state.oldest,
                        "oldest_age_ns": None if state.oldest is None else max(end - state.oldest, 0),
                    }
                )
        return sorted(records, key=lambda record: record["start"])


_HANDLERS = {
    "SEND": Backlog.send,
    "SEND_RECEIPT": Backlog.receive,
    "SUBSCRIBE": Backlog.subscribe,
    "MESSAGE": Backlog.deliver,
    "ACK": Backlog.acknowledge,
    "SEEK": Backlog.forget,
    "UNSUBSCRIBE": Backlog.forget,
}

TABLE = ReportTable(
    "backlog",
    "Backlog",
    "of what the capture saw; messages, and the age of the oldest that is not acknowledged",
    (
        ReportColumn("at_ns", "at", "moment"),
        ReportColumn("subscription", "subscription", "name"),
        ReportColumn("topic", "topic", "topic", spare=True),
        ReportColumn("published", "published"),
        ReportColumn("delivered", "delivered"),
        ReportColumn("acknowledged", "acked"),
        ReportColumn("backlog", "backlog"),
        ReportColumn("oldest_age_ns", "oldest", "duration"),
    ),
    Backlog,
)
