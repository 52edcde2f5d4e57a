"""Statistics of a run: counts, rates and latencies by connection, topic, producer, subscription, command and request.

They read only columns that rows of every protocol have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heappush, heapreplace
from operator import itemgetter
from types import MappingProxyType
from typing import Any

import msgspec

from pulsarscope.analysis.ended_connections import EndedConnection, ended_connection
from pulsarscope.analysis.series import TimeSeries
from pulsarscope.analysis.tally import ExchangeCounts, ReportRecord, Tally, TallyTable, add_counts, add_exchange, cut, per_second
from pulsarscope.model.flow import CLIENT
from pulsarscope.model.frame_name import frame_name
from pulsarscope.model.latency import OCTAVE_BITS, Latencies
from pulsarscope.model.limits import SLOWEST_MAX, STATISTICS_NAMES_MAX
from pulsarscope.model.ordered_rows import split
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FindingRow, FrameRow

SECTIONS = ("total", "connections", "topics", "producers", "subscriptions", "commands", "exchanges", "slowest", "intervals")
"""Sections in order; `intervals` only if an interval is given."""

ZERO_WINDOW = "zero-window"
"""Code of the finding that a receiver closed its window; its evidence has a count."""

INCOMPLETE = frozenset({"skipped", "truncated"})
"""Statuses of rows that are not complete frames: connections count their bytes as skipped, unfinished or missing."""

CONNECTIONS, KINDS, TOPICS, PRODUCERS, SUBSCRIPTIONS = range(5)
"""Tables in which frames and exchanges are counted, by their numbers; kinds are commands or requests."""

_FrameGroup = tuple[str | None, str | None, str | None, str | None, str | None, str | None]
_SlowExchange = tuple[int, int, ReportRecord]
"""Latency, number of the exchange, and its record: the first two decide the order."""


class Statistics:
    """A fold over the frame, exchange, connection and finding rows of a run."""

    def __init__(
        self,
        *,
        interval: int | None = None,
        filtered: bool = False,
        carriers: set[str] | None = None,
        outer_of: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Count by intervals in ns; if `filtered`, only connections with selected rows.

        `carriers` are commands known to send messages, `outer_of` is the outer leg of each inner leg.
        """
        self._outer_of = outer_of
        self.total = Tally()
        self.start: int | None = None
        """Time of the first row, nanoseconds since the epoch."""
        self.end: int | None = None
        self.connections = TallyTable[str]()
        self.topics = TallyTable[str]()
        self.producers = TallyTable[tuple[str | None, str]]()
        """Tallies by topic and name."""
        self.subscriptions = TallyTable[tuple[str | None, str]]()
        self.commands = TallyTable[tuple[str, str]]()
        """Tallies by command and direction."""
        self.families = TallyTable[str]()
        """Tallies of exchanges by request; those without a request have the name ""."""
        self.series = None if interval is None else TimeSeries(interval)
        self.unknown_connections = 0
        """Number of connections without a recognised protocol."""
        self._filtered = filtered
        self._ended: dict[str, EndedConnection] = {}
        self._tcp = Counter[str]()
        self._tcp_of_others = Counter[str]()
        self._zero_windows = Counter[str]()
        """Counts by connection; findings may come before or after its row."""
        self.carriers: set[str] = set() if carriers is None else carriers
        """Commands with which clients sent messages: their answers give the latency of sending."""
        self._slowest: dict[str, list[_SlowExchange]] = {}
        self._places = 0
        """Number of rows seen so far; exchanges are numbered by it."""

    @property
    def span(self) -> int:
        """Nanoseconds from the first to the last row."""
        return 0 if self.start is None or self.end is None else self.end - self.start

    def feed(self, rows: Iterable[Any]) -> None:
        """Count rows."""
        self._feed(enumerate(rows), None)

    def feed_batch(self, rows: Sequence[Any]) -> None:
        """Count the rows of a batch, including those in the columns of a compiled reader (`model.ordered_rows`), then without intervals."""
        ordered, following = split(rows)
        if ordered is not None:
            self._feed(*ordered.counted(OCTAVE_BITS, SLOWEST_MAX))
        self.feed(following)

    def _feed(self, rows: Iterable[tuple[int, Any]], counted: Any) -> None:
        """Count rows, each with its place, and what a compiled reader has counted (`Counted`)."""
        groups: dict[_FrameGroup, list[int]] = {}
        exchanges: list[tuple[int, ExchangeRow]] = []
        place = -1
        ended: list[ConnectionRow] = []
        times: list[int | None] = [*((counted and counted.span()) or ())]
        series = self.series
        for place, row in rows:
            if isinstance(row, FrameRow):
                if row.status in INCOMPLETE:
                    continue
                key = (row.connection, row.direction, row.command, row.topic, row.producer_name, row.subscription)
                if (counts := groups.get(key)) is None:
                    counts = groups[key] = [place, 0, 0, 0]
                counts[1] += 1
                if row.num_messages is not None:
                    counts[2] += max(row.num_messages, 0)
                counts[3] += row.size
                if row.topics is not None:
                    for topic, share in row.topics.items():
                        self.topics.of(cut(topic) or "").add_frames(row.direction, 1, share["messages"], share["bytes"])
                times.append(row.time)
                if series is not None:
                    series.frame(row)
            elif isinstance(row, ExchangeRow):
                exchanges.append((place, row))
                times.append(row.time)
            elif isinstance(row, ConnectionRow):
                ended.append(row)
            elif isinstance(row, FindingRow) and row.code == ZERO_WINDOW and row.connection is not None:
                self._count_zero_window(row.connection, row.evidence or {})
        if known := [time for time in times if time is not None]:
            self._extend_span(min(known))
            self._extend_span(max(known))
        self._count_frames(groups, counted)
        self._count_exchanges(exchanges, counted)  # after the frames, which show the commands that send messages
        self._places += place + 1 if counted is None else len(counted)
        for row in ended:
            self._count_connection(row)

    def feed_inner(self, rows: Iterable[Any]) -> None:
        """Count frames and exchanges of inner legs by connection; everything else comes from the outer leg."""
        for row in rows:
            if isinstance(row, ExchangeRow):
                self.connections.of(row.connection).add_exchange(row.status, row.latency_ns if row.request in self.carriers else None)
            elif isinstance(row, FrameRow) and row.status not in INCOMPLETE:
                self.connections.of(row.connection).add_frames(row.direction, 1, max(row.num_messages or 0, 0), row.size)

    def merge(self, other: Statistics) -> None:
        """Add the frames and exchanges of other statistics, except the slowest ones and data from connection rows."""
        self.total.merge(other.total)
        self.connections.merge(other.connections)
        self.topics.merge(other.topics)
        self.producers.merge(other.producers)
        self.subscriptions.merge(other.subscriptions)
        self.commands.merge(other.commands)
        self.families.merge(other.families)
        self._extend_span(other.start)
        self._extend_span(other.end)

    def _extend_span(self, time: int | None) -> None:
        if time is None:
            return
        if self.start is None or self.end is None:
            self.start = self.end = time
        elif time > self.end:
            self.end = time
        elif time < self.start:
            self.start = time

    def _count_frames(self, groups: dict[_FrameGroup, list[int]], counted: Any) -> None:
        """Add groups of equal frames (frames, messages, bytes) and what is already counted to the tallies of their names."""
        sums: dict[tuple[int, Any, str | None], list[int]] = {}
        for (connection, direction, command, *names), (place, *numbers) in groups.items():
            for table, name in _entries(connection, command or "", *names):
                add_counts(sums, (table, name, direction), place, numbers)
            if numbers[1] and command is not None and direction == CLIENT:
                self._add_carrier(command)
        counts = [(place, *key, *numbers) for key, (place, *numbers) in sums.items()]
        if counted is not None:
            counts = _in_order(counts, counted.frames(self._listed()))
            for command in counted.carriers():
                self._add_carrier(command)
        for _, table, name, direction, frames, messages, size in counts:
            if table == KINDS:
                self.total.add_frames(direction, frames, messages, size)
                self.commands.of((cut(name) or "", direction or "")).add_frames(direction, frames, messages, size)
            else:
                self._tally(table, name).add_frames(direction, frames, messages, size)

    def _add_carrier(self, command: str) -> None:
        if len(self.carriers) < STATISTICS_NAMES_MAX:
            self.carriers.add(command)

    def _listed(self) -> Mapping[str, Tally] | None:
        """Return the tallies of connections once there are too many for new ones; all other connections share one tally."""
        return self.connections.named if self.connections.is_full else None

    def _tally(self, table: int, name: Any) -> Tally:
        """Return the tally of an entry that is not a kind of frames or exchanges."""
        if table == CONNECTIONS:
            return self.connections.of(name)
        if table == TOPICS:
            return self.topics.of(cut(name) or "")
        topic, name = name
        return (self.producers if table == PRODUCERS else self.subscriptions).of((cut(topic), cut(name) or ""))

    def _count_exchanges(self, rows: Iterable[tuple[int, ExchangeRow]], counted: Any) -> None:
        """Add exchanges, and those that are already counted.

        Latencies of a connection, topic or producer are those of messages: rare, slow requests would distort them.
        """
        sums: dict[tuple[int, Any, str | None], ExchangeCounts] = {}
        for place, row in rows:
            carries = (cut(row.request) or "") in self.carriers
            for table, name in _entries(row.connection, row.request or "", row.topic, row.producer_name, row.subscription):
                add_exchange(sums, (table, name, row.status), place, row.latency_ns if carries or table == KINDS else None)
            if self.series is not None:
                self.series.exchange(row)
        groups = [(known.place, *key, known.count, known.latencies) for key, known in sums.items()]
        if counted is not None:
            made = [
                (*key, latencies and Latencies.counted(*latencies)) for *key, latencies in counted.exchanges(self.carriers, self._listed())
            ]
            groups = _in_order(groups, made)
            rows = _in_order([*rows], counted.slowest)
        for place, row in rows:
            if row.latency_ns is not None:
                self._rank(row.latency_ns, self._places + place, row)
        for _, table, name, status, count, latencies in groups:
            if table == KINDS:
                self.families.of(cut(name) or "").add_exchanges(status, count, latencies)
                self.total.add_exchanges(status, count, latencies if (cut(name) or "") in self.carriers else None)
            else:
                self._tally(table, name).add_exchanges(status, count, latencies)

    def _rank(self, latency: int, number: int, row: ExchangeRow) -> None:
        """Keep the exchange of this number if it is among the slowest of its request; of equally slow ones, the first."""
        request = cut(row.request) or ""
        if (slowest := self._slowest.get(request)) is None:
            if len(self._slowest) >= STATISTICS_NAMES_MAX:
                return
            slowest = self._slowest[request] = []
        if len(slowest) >= SLOWEST_MAX and latency <= slowest[0][0]:
            return
        entry = (latency, -number, _slow_exchange(request, row))
        if len(slowest) < SLOWEST_MAX:
            heappush(slowest, entry)
        else:
            heapreplace(slowest, entry)

    def _count_connection(self, row: ConnectionRow) -> None:
        name = row.connection or ""
        if row.dissector is None and name not in self.connections.named:
            self.unknown_connections += 1
            return
        if self._filtered and name not in self.connections.named:
            return
        self.connections.of(name)
        ended = ended_connection(row)
        counts = {key: count for key, count in ended.tcp_counts().items() if count}
        if name in self.connections.named:
            self._ended[name] = ended
        elif counts:
            self._tcp_of_others.update(counts)
        if counts:
            self._tcp.update(counts)
        self._tcp["connections"] += 1
        self._tcp["midstream"] += row.opened == "midstream"

    def _count_zero_window(self, connection: str, evidence: dict[str, Any]) -> None:
        if connection in self._zero_windows or len(self._zero_windows) < STATISTICS_NAMES_MAX:
            self._zero_windows[connection] += evidence.get("count", 1)

    def sections(self, names: Iterable[str]) -> dict[str, list[ReportRecord]]:
        """Return the records of the named sections of `SECTIONS`. A record with `others` true has no name and stands for many."""
        makers: dict[str, Callable[[], list[ReportRecord]]] = {
            "total": lambda: [self.summary()],
            "connections": self._connections,
            "topics": lambda: [
                {"topic": name, **_others(name), **self._numbers(tally), **tally.latencies.percentiles()}
                for name, tally in self.topics.busiest()
            ],
            "producers": lambda: self._pairs("producer_name", self.producers, timed=True),
            "subscriptions": lambda: self._pairs("subscription", self.subscriptions, timed=False),
            "commands": self._commands,
            "exchanges": self._exchanges,
            "slowest": self._slowest_records,
            "intervals": lambda: [] if self.series is None else self.series.records(),
        }
        return {name: makers[name]() for name in SECTIONS if name in names and (name != "intervals" or self.series is not None)}

    def summary(self) -> ReportRecord:
        """Return the record of the whole run."""
        zero_windows = sum(count for name, count in self._zero_windows.items() if not self._filtered or name in self.connections.named)
        return {
            "start": self.start,
            "end": self.end,
            "duration_ns": self.span,
            "connections": self._tcp["connections"],
            "unknown_connections": self.unknown_connections,
            "midstream_connections": self._tcp["midstream"],
            **self._numbers(self.total),
            "unrequested": self.total.unrequested,
            **self.total.latencies.percentiles(),
            "retransmitted": self._tcp["retransmitted"],
            "out_of_order": self._tcp["out_of_order"],
            "missing_bytes": self._tcp["missing_bytes"],
            "zero_windows": zero_windows,
        }

    def _numbers(self, tally: Tally) -> ReportRecord:
        return {**tally.counts(), **tally.rates(self.span)}

    def _connections(self) -> list[ReportRecord]:
        records = []
        for name, tally in self.connections.busiest():
            row = self._ended.get(name or "", EndedConnection())
            tcp = row.tcp_counts()
            if name is None:
                tcp = {key: self._tcp_of_others[key] for key in tcp}
            records.append(
                {
                    "connection": name,
                    **_others(name),
                    "leg_of": self._outer_of.get(name or ""),
                    "client": row.client,
                    "server": row.server,
                    "dissector": row.dissector,
                    "start": row.start,
                    "end": row.end,
                    "opened": row.opened,
                    "closed": row.closed,
                    **self._numbers(tally),
                    **tally.latencies.percentiles(),
                    "packets": row.packets,
                    **tcp,
                    "zero_windows": self._zero_windows_of(name),
                }
            )
        return records

    def _zero_windows_of(self, name: str | None) -> int:
        if name is not None:
            return self._zero_windows.get(name, 0)
        return (
            0
            if self._filtered
            else sum(count for connection, count in self._zero_windows.items() if connection not in self.connections.named)
        )

    def _pairs(self, column: str, tallies: TallyTable[tuple[str | None, str]], *, timed: bool) -> list[ReportRecord]:
        records = []
        for names, tally in tallies.busiest():
            topic, name = names or (None, None)
            times = tally.latencies.percentiles() if timed else {}
            records.append({column: name, "topic": topic, **_others(names), **self._numbers(tally), **times})
        return records

    def _commands(self) -> list[ReportRecord]:
        records = []
        for names, tally in self.commands.busiest():
            command, direction = names or (None, None)
            numbers = {"frames": sum(tally.frames), "messages": sum(tally.messages), "bytes": sum(tally.sizes)}
            rates = {"frames_per_second": per_second(numbers["frames"], self.span), **tally.rates(self.span)}
            records.append({"command": command or None, "direction": direction or None, **_others(names), **numbers, **rates})
        return records

    def _exchanges(self) -> list[ReportRecord]:
        return [
            {
                "request": request or None,
                **_others(request),
                "count": tally.exchanges,
                "errors": tally.errors,
                "unanswered": tally.unanswered,
                "unrequested": tally.unrequested,
                "per_second": per_second(tally.exchanges, self.span),
                "min_ns": tally.latencies.smallest,
                **tally.latencies.percentiles(),
                "histogram": [msgspec.structs.asdict(octave) for octave in tally.latencies.octaves()],
            }
            for request, tally in sorted(self.families.busiest(), key=lambda item: (item[0] is not None, item[1].exchanges), reverse=True)
        ]

    def _slowest_records(self) -> list[ReportRecord]:
        families = sorted(self._slowest.items(), key=lambda item: max(item[1])[:2], reverse=True)
        return [record for _, slowest in families for _, _, record in sorted(slowest, reverse=True, key=lambda slow: slow[:2])]


def _entries(
    connection: str | None, kind: str, topic: str | None, producer: str | None, subscription: str | None
) -> Iterator[tuple[int, Any]]:
    """Yield the tables with an entry for frames or exchanges of these names, with its name in each."""
    if connection is not None:
        yield CONNECTIONS, connection
    yield KINDS, kind
    if topic is not None:
        yield TOPICS, topic
    if producer is not None:
        yield PRODUCERS, (topic, producer)
    if subscription is not None:
        yield SUBSCRIPTIONS, (topic, subscription)


def _in_order(some: list[Any], others: list[Any]) -> list[Any]:
    """Merge two lists by the places at the beginning of their items."""
    return sorted((*some, *others), key=itemgetter(0)) if some else others


def _others(name: object) -> ReportRecord:
    return {"others": True} if name is None else {}


def _slow_exchange(request: str, row: ExchangeRow) -> ReportRecord:
    """Return the record of a slow exchange, with the names of its frames."""
    return {
        "request": request or None,
        "latency_ns": row.latency_ns,
        "frame": frame_name(row.file, row.packet, row.sub),
        "response": row.response,
        "response_frame": None if row.response_packet is None else frame_name(row.response_file, row.response_packet, row.response_sub),
        "time": row.time,
        "connection": row.connection,
        "topic": cut(row.topic),
        "producer_name": cut(row.producer_name),
        "subscription": cut(row.subscription),
        "status": row.status,
    }


__all__ = ["SECTIONS", "Statistics"]
