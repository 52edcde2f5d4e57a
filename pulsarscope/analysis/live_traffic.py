"""Traffic of a live run as changing tables: rates of the last seconds, totals since the start, one minute's course, all findings."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from pulsarscope.analysis.statistics import Statistics
from pulsarscope.analysis.tally import ReportRecord, Tally, TallyTable, cut, per_second
from pulsarscope.model.findings import NOTE, SEVERITIES
from pulsarscope.model.flow import SERVER
from pulsarscope.model.limits import STATISTICS_NAMES_MAX
from pulsarscope.model.live_limits import (
    LIVE_CONNECTIONS_MAX,
    LIVE_COURSE_NAMES_MAX,
    LIVE_FINDING_CHARACTERS_MAX,
    LIVE_FINDINGS_KEPT,
    LIVE_FRAMES_KEPT,
)
from pulsarscope.model.records import ConnectionRow, FindingRow, FrameRow
from pulsarscope.model.units import SECOND

WINDOW_NANOSECONDS = 10 * 1_000_000_000
"""Length of the window: long enough for steady rates, short enough to show changes."""

PARTS = 10
"""Parts of the window; it advances part by part."""


class RecentStatistics:
    """A sliding window of statistics. Times are those of the clock, nanoseconds since the epoch."""

    def __init__(self) -> None:
        self.before = Statistics()
        """Statistics that have left the window, without connections."""
        self._parts: deque[tuple[int, Statistics]] = deque()
        self._since: int | None = None

    def feed(self, rows: Iterable[Any], now: int) -> None:
        """Count rows at the time `now`."""
        carriers = self._parts[-1][1].carriers if self._parts else None
        self._forget(now)
        since = self._since = now if self._since is None else self._since
        part = since + (now - since) * PARTS // WINDOW_NANOSECONDS * WINDOW_NANOSECONDS // PARTS
        if not self._parts or self._parts[-1][0] != part:
            self._parts.append((part, Statistics(carriers=carriers)))
        self._parts[-1][1].feed(rows)

    def statistics(self, now: int) -> Statistics:
        """Return the statistics of the window that ends at `now`. It begins at the first row if that is later."""
        self._forget(now)
        recent = Statistics()
        for _, part in self._parts:
            recent.merge(part)
        recent.start, recent.end = max(now - WINDOW_NANOSECONDS, self._since or 0), now
        return recent

    def _forget(self, now: int) -> None:
        set_back = self._since is not None and now < max(self._since, self._parts[-1][0] if self._parts else 0)
        if set_back:
            self._since = now
        while self._parts and (set_back or self._parts[0][0] <= now - WINDOW_NANOSECONDS):
            _, part = self._parts.popleft()
            part.connections = TallyTable()
            self.before.merge(part)


COURSE_CELLS, COURSE_CELL_SECONDS = 20, 3
"""Cells of the course of a rate, and the seconds per cell: a minute in all."""

MIDSTREAM = "midstream-start"
"""The only note that explains missing data on the screen."""

Endpoints = Mapping[str, tuple[str, str]]


class FrameLine(NamedTuple):
    """The part of a frame that is kept: its row may have megabytes."""

    time: int
    direction: str
    command: str
    topic: str | None
    party: str | None
    """Producer or subscription."""
    messages: int | None
    size: int
    latency_ns: int | None
    status: str


class LiveConnection(msgspec.Struct):
    """An open connection."""

    name: str
    client: str
    server: str
    dissector: str | None
    since: int
    last: int = 0
    tally: Tally = msgspec.field(default_factory=Tally)
    """Counts of its frames since the start."""
    lines: deque[FrameLine] = msgspec.field(default_factory=lambda: deque(maxlen=LIVE_FRAMES_KEPT))
    """The latest frames, the oldest first."""


class FindingGroup(msgspec.Struct):
    """Findings of one code."""

    code: str
    severity: str
    hint: str
    count: int = 0
    latest: deque[FindingRow] = msgspec.field(default_factory=lambda: deque(maxlen=LIVE_FINDINGS_KEPT))
    """Latest findings, the oldest first; without evidence, with text of bounded length."""


class Snapshot(msgspec.Struct):
    """The traffic at one moment."""

    time: int
    seconds: float
    """Length of the window of rates, seconds."""
    recent: Tally
    total: Tally
    """Counts since the start."""
    tables: dict[str, list[ReportRecord]]
    findings: list[FindingGroup]
    """Errors and warnings, the most severe and latest first."""
    begun_before: int
    """Number of connections that began before the capture."""


class LiveTraffic:
    """A fold over the rows of a live run."""

    def __init__(
        self,
        consumers: Callable[[], list[ReportRecord]] = list,
        name_of: Callable[[str], str] = str,
        tables: Callable[[], dict[str, list[ReportRecord]]] = dict,
    ) -> None:
        """Take functions that return the records of open consumers and, by name, those of other tables of protocols.

        `name_of` returns the name of a topic that had another one in earlier rows.
        """
        self._tables = tables
        self._name_of = name_of
        self._recent = RecentStatistics()
        self._consumers = consumers
        self._connections: dict[str, LiveConnection] = {}
        self._producer_connections: dict[tuple[str | None, str], str] = {}
        self._courses: deque[tuple[int, dict[str, dict[Any, int]]]] = deque()
        """Messages by table and name in each cell of a course, with the number of the cell."""
        self._delivered: deque[tuple[int, dict[Any, int]]] = deque()
        """Messages that each consumer had received at times within the window."""
        self._findings: dict[str, FindingGroup] = {}
        self._begun_before = 0

    def feed(self, rows: list[Any], endpoints: Endpoints, now: int) -> None:
        """Take rows at the time `now`; `endpoints` are those of the connections."""
        self._recent.feed(rows, now)
        for row in rows:
            if isinstance(row, FrameRow):
                self._frame(row, endpoints, now)
            elif isinstance(row, ConnectionRow):
                if row.closed != "open":
                    self._connections.pop(row.connection or "", None)
            elif type(row) is FindingRow:
                self._finding(row)

    def frames(self, connection: str) -> list[FrameLine]:
        """Return the latest frames of a connection, the latest first."""
        known = self._connections.get(connection)
        return [] if known is None else [*reversed(known.lines)]

    def _frame(self, row: FrameRow, endpoints: Endpoints, now: int) -> None:
        name = row.connection
        if (known := self._connections.get(name)) is None:
            client, server = endpoints.get(name, ("", ""))
            if len(self._connections) >= LIVE_CONNECTIONS_MAX:  # those heard least recently make room
                oldest = sorted(self._connections.values(), key=lambda each: each.last)
                for each in oldest[: LIVE_CONNECTIONS_MAX // 4]:
                    del self._connections[each.name]
            known = self._connections[name] = LiveConnection(name, client, server, row.dissector, now)
        side = row.direction == SERVER
        messages = max(row.num_messages or 0, 0)
        known.last = now
        known.tally.add_frames(row.direction, 1, messages, row.size)
        party = row.subscription or row.producer_name
        topic = cut(row.topic)
        known.lines.append(
            FrameLine(
                row.time or now, row.direction, cut(row.command) or "", topic, cut(party), row.num_messages, row.size,
                row.latency_ns, row.status,
            )
        )  # fmt: skip
        if row.producer_name is not None and not side:
            key = topic, cut(row.producer_name) or ""
            if key in self._producer_connections or len(self._producer_connections) < STATISTICS_NAMES_MAX:
                self._producer_connections[key] = name
        if messages:
            self._count_course(now, topic, row.producer_name, name, messages)

    def _count_course(self, now: int, topic: str | None, producer: str | None, connection: str, messages: int) -> None:
        cell = now // (COURSE_CELL_SECONDS * SECOND)
        if not self._courses or self._courses[-1][0] != cell:
            self._courses.append((cell, {"topics": {}, "producers": {}, "connections": {}}))
            while len(self._courses) > COURSE_CELLS + 1:
                self._courses.popleft()
        counts = self._courses[-1][1]
        for table, name in (("topics", topic), ("producers", producer and (topic, producer)), ("connections", connection)):
            if name is not None:
                named = counts[table]
                if name in named or len(named) < LIVE_COURSE_NAMES_MAX:
                    named[name] = named.get(name, 0) + messages

    def _finding(self, row: FindingRow) -> None:
        if row.code == MIDSTREAM:
            self._begun_before += 1
        elif row.severity != NOTE:
            group = self._findings.pop(row.code, None) or FindingGroup(row.code, row.severity, row.hint or "")
            self._findings[row.code] = group  # keeps the latest code last
            group.count += 1
            group.latest.append(msgspec.structs.replace(row, text=row.text[:LIVE_FINDING_CHARACTERS_MAX], evidence=None))

    # ---- a moment

    def snapshot(self, now: int) -> Snapshot:
        """Return all tables at a time."""
        recent, before = self._recent.statistics(now), self._recent.before
        total = _sum(before.total, recent.total)
        groups = [
            FindingGroup(each.code, each.severity, each.hint, each.count, each.latest.copy()) for each in reversed(self._findings.values())
        ]
        tables = {
            "topics": self._topics(recent, before, now),
            "producers": self._producers(recent, before, now),
            "consumers": self._consumer_records(now),
            "connections": self._connection_records(recent, now),
            "requests": _requests(recent, before),
            **self._tables(),
        }
        return Snapshot(
            now,
            recent.span / SECOND,
            recent.total,
            total,
            tables,
            sorted(groups, key=lambda group: SEVERITIES.index(group.severity)),
            self._begun_before,
        )

    def _topics(self, recent: Statistics, before: Statistics, now: int) -> list[ReportRecord]:
        return [
            {"topic": name, **_numbers(tally, old, recent.span), "course": self._course("topics", name, now)}
            for name, tally, old in _known(recent.topics, before.topics, self._topic_name)
        ]

    def _topic_name(self, topic: str | None) -> str | None:
        return topic and self._name_of(topic)

    def _producers(self, recent: Statistics, before: Statistics, now: int) -> list[ReportRecord]:
        topics: dict[str, set[str]] = {}
        for topic, producer in {**recent.producers.named, **before.producers.named}:
            if topic is not None:
                topics.setdefault(producer, set()).add(self._name_of(topic))

        def name_of(name: tuple[str | None, str]) -> tuple[str | None, str]:
            """Return the actual topic of a producer of this name, and the name."""
            topic, producer = name
            later = topics.get(producer, ())
            return (next(iter(later)) if topic is None and len(later) == 1 else self._topic_name(topic)), producer

        records = []
        for name, tally, old in _known(recent.producers, before.producers, name_of):
            connection = self._producer_connections.get(name)
            topic, producer = name
            records.append(
                {
                    "producer": producer,
                    "topic": topic,
                    "connection": connection,
                    "address": self._address(connection),
                    **_numbers(tally, old, recent.span),
                    "course": self._course("producers", name, now),
                }
            )
        return records

    def _consumer_records(self, now: int) -> list[ReportRecord]:
        """Return the open consumers, each with its rate and the address of its client."""
        records = self._consumers()
        counts = {(record["connection"], record["consumer_id"]): record["delivered"] for record in records}
        while self._delivered and self._delivered[0][0] <= now - 10 * SECOND:
            self._delivered.popleft()
        time, earlier = self._delivered[0] if self._delivered else (now, {})
        if not self._delivered or now - self._delivered[-1][0] >= SECOND:
            self._delivered.append((now, counts))
        for record in records:
            key = record["connection"], record["consumer_id"]
            record["rate"] = per_second(record["delivered"] - earlier.get(key, 0), now - time)
            record["address"] = self._address(record["connection"])
        return records

    def _connection_records(self, recent: Statistics, now: int) -> list[ReportRecord]:
        nothing = Tally()
        records = []
        for each in self._connections.values():
            tally = recent.connections.named.get(each.name, nothing)
            records.append(
                {
                    "connection": each.name,
                    "client": each.client,
                    "server": each.server,
                    "dissector": each.dissector,
                    **_rates(tally, recent.span),
                    "sent": each.tally.messages[0],
                    "delivered": each.tally.messages[1],
                    "frames": sum(each.tally.frames),
                    "bytes": sum(each.tally.sizes),
                    "errors": None,
                    "age_ns": now - each.since,
                    "idle_ns": now - each.last,
                    "course": self._course("connections", each.name, now),
                }
            )
        return sorted(records, key=_busiest, reverse=True)

    def _address(self, connection: str | None) -> str:
        known = self._connections.get(connection or "")
        return "" if known is None else known.client

    def _course(self, table: str, name: Any, now: int) -> list[int]:
        """Return the messages in each cell of the last minute, the latest last; empty if there are none."""
        last = now // (COURSE_CELL_SECONDS * SECOND)
        counts = {cell: named[table][name] for cell, named in self._courses if name in named[table]}
        return [counts.get(cell, 0) for cell in range(last - COURSE_CELLS + 1, last + 1)] if counts else []


def _known(recent: TallyTable[Any], before: TallyTable[Any], name_of: Callable[[Any], Any] | None = None) -> list[tuple[Any, Tally, Tally]]:
    """Return each name with its tally in the window and the one before it, the busiest first; names with equal `name_of` are merged."""
    nothing = Tally()
    found: dict[Any, tuple[Tally, Tally]] = {}
    for name in {**recent.named, **before.named}:
        pair = recent.named.get(name, nothing), before.named.get(name, nothing)
        shown = name if name_of is None else name_of(name)
        found[shown] = (_sum(found[shown][0], pair[0]), _sum(found[shown][1], pair[1])) if shown in found else pair
    names = [(name, *pair) for name, pair in found.items()]
    names.sort(key=lambda item: (sum(item[1].messages), sum(item[1].sizes), sum(item[2].messages)), reverse=True)
    return names


def _sum(*tallies: Tally) -> Tally:
    total = Tally()
    for tally in tallies:
        total.merge(tally)
    return total


def _rates(tally: Tally, span: int) -> ReportRecord:
    return {
        "messages_in": per_second(tally.messages[0], span),
        "messages_out": per_second(tally.messages[1], span),
        "bytes_in": per_second(tally.sizes[0], span),
        "bytes_out": per_second(tally.sizes[1], span),
        "p50_ns": tally.latencies.percentile(50),
        "p99_ns": tally.latencies.percentile(99),
    }


def _numbers(tally: Tally, before: Tally, span: int) -> ReportRecord:
    return {
        **_rates(tally, span),
        "sent": tally.messages[0] + before.messages[0],
        "delivered": tally.messages[1] + before.messages[1],
        "bytes": sum(tally.sizes) + sum(before.sizes),
        "errors": tally.errors + before.errors,
    }


def _busiest(record: ReportRecord) -> tuple[float, int]:
    return (record["messages_in"] or 0) + (record["messages_out"] or 0), record["bytes"]


def _requests(recent: Statistics, before: Statistics) -> list[ReportRecord]:
    return [
        {
            "request": name,
            "rate": per_second(tally.exchanges, recent.span),
            "p50_ns": tally.latencies.percentile(50),
            "p99_ns": tally.latencies.percentile(99),
            "max_ns": tally.latencies.largest,
            "requests": tally.exchanges + old.exchanges,
            "errors": tally.errors + old.errors,
            "unanswered": tally.unanswered + old.unanswered,
        }
        for name, tally, old in _known(recent.families, before.families)
        if name
    ]
