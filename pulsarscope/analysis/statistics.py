"""Statistics of a run: counts, rates and latencies by connection, topic, producer, subscription, command and request.

Only columns that rows of every protocol have are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappush, heapreplace
from operator import itemgetter
from types import MappingProxyType
from typing import Any

import msgspec

from pulsarscope.analysis.series import TimeSeries
from pulsarscope.analysis.tally import ExchangeGroup, ReportRecord, Tally, TallyTable, add_counts, add_latencies, cut, per_second
from pulsarscope.model.flow import CLIENT
from pulsarscope.model.frame_name import frame_name
from pulsarscope.model.latency import OCTAVE_BITS, Latencies
from pulsarscope.model.limits import SLOWEST_MAX, STATISTICS_NAMES_MAX
from pulsarscope.model.ordered_rows import split
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FindingRow, FrameRow

SECTIONS = ("total", "connections", "topics", "producers", "subscriptions", "commands", "exchanges", "slowest", "intervals")
"""Sections in order; `intervals` only with an interval."""

ZERO_WINDOW = "zero-window"
"""Code of the finding that a receiver closed its window; its evidence has a count."""

INCOMPLETE = frozenset({"skipped", "truncated"})
"""Statuses of rows that are not complete frames: connections count their bytes as skipped, unfinished or missing."""

EXCHANGE_GROUP_PARTS = 2
"""Parts of what stands for a group of exchanges: names and latencies. One of frames has three: names, numbers, and times."""

_FrameGroup = tuple[str | None, str | None, str | None, str | None, str | None, str | None]
_SlowExchange = tuple[int, int, ReportRecord]
"""Latency, number of the exchange, and its record: ordered without a look into the record."""


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

        `carriers` are commands known to send messages, `outer_of` the outer leg of each connection that is an inner one.
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
        """Number of connections of no recognised protocol."""
        self._filtered = filtered
        self._ended: dict[str, ConnectionRow] = {}
        self._tcp = Counter[str]()
        self._tcp_of_others = Counter[str]()
        self._zero_windows = Counter[str]()
        """Counts by connection; findings may come before and after its row."""
        self.carriers: set[str] = set() if carriers is None else carriers
        """Commands with which clients sent messages: the answers tell the latency of sending."""
        self._slowest: dict[str, list[_SlowExchange]] = {}
        self._places = 0
        """Places of rows so far: they number the exchanges."""

    @property
    def span(self) -> int:
        """Nanoseconds from the first to the last row."""
        return 0 if self.start is None or self.end is None else self.end - self.start

    def feed(self, rows: Iterable[Any]) -> None:
        """Count rows."""
        self._feed(enumerate(rows), ())

    def feed_batch(self, rows: Sequence[Any]) -> None:
        """Count the rows of a batch, also those in the columns of a compiled reader (`model.ordered_rows`); then without intervals."""
        ordered, following = split(rows)
        if ordered is not None:
            self._feed(*ordered.counted(OCTAVE_BITS, SLOWEST_MAX))
        self.feed(following)

    def _feed(self, rows: Iterable[tuple[int, Any]], slowest: Sequence[tuple[int, ExchangeRow]]) -> None:
        """Count rows, and groups of frames and their exchanges of which these are the slowest; each with its place."""
        groups: dict[_FrameGroup, list[int]] = {}
        exchanges: list[tuple[int, Any]] = []
        place = -1
        ended: list[ConnectionRow] = []
        times: list[int | None] = []
        series = self.series
        for place, row in rows:
            if isinstance(row, FrameRow):
                if row.status in INCOMPLETE:
                    continue
                key = (row.connection, row.direction, row.command, row.topic, row.producer_name, row.subscription)
                if (counts := groups.get(key)) is None:
                    counts = groups[key] = [0, 0, 0]
                counts[0] += 1
                if row.num_messages is not None:
                    counts[1] += max(row.num_messages, 0)
                counts[2] += row.size
                if row.topics is not None:
                    for topic, share in row.topics.items():
                        self.topics.of(cut(topic) or "").add_frames(row.direction, 1, share["messages"], share["bytes"])
                times.append(row.time)
                if series is not None:
                    series.frame(row)
            elif isinstance(row, ExchangeRow):
                exchanges.append((place, row))
                times.append(row.time)
            elif isinstance(row, tuple):
                if len(row) == EXCHANGE_GROUP_PARTS:
                    names, latencies = row
                    exchanges.append((place, (names, Latencies.counted(*latencies))))
                    continue
                names, numbers, span = row
                groups[names] = [*map(sum, zip(groups.get(names, (0, 0, 0)), numbers, strict=True))]
                times += span
            elif isinstance(row, ConnectionRow):
                ended.append(row)
            elif isinstance(row, FindingRow) and row.code == ZERO_WINDOW and row.connection is not None:
                self._count_zero_window(row.connection, row.evidence or {})
        if known := [time for time in times if time is not None]:
            self._extend_span(min(known))
            self._extend_span(max(known))
        self._count_frames(groups)
        self._count_exchanges(exchanges, slowest)  # after the frames, which tell the commands that send messages
        self._places += place + 1
        for row in ended:
            self._count_connection(row)

    def feed_inner(self, rows: Iterable[Any]) -> None:
        """Count frames and exchanges of inner legs: by connection, because all else has them from the outer leg."""
        for row in rows:
            if isinstance(row, ExchangeRow):
                self.connections.of(row.connection).add_exchange(row.status, row.latency_ns if row.request in self.carriers else None)
            elif isinstance(row, FrameRow) and row.status not in INCOMPLETE:
                self.connections.of(row.connection).add_frames(row.direction, 1, max(row.num_messages or 0, 0), row.size)

    def merge(self, other: Statistics) -> None:
        """Add the frames and exchanges of other statistics, without the slowest ones and what rows of connections say."""
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

    def _count_frames(self, groups: dict[_FrameGroup, list[int]]) -> None:
        """Add groups of equal frames, with frames, messages and bytes, to the tallies of all their names.

        Connections are counted apart from all other names: where they are short, most groups differ in them alone.
        """
        by_connection: dict[tuple[str, str | None], list[int]] = {}
        by_names: dict[tuple[str | None, ...], list[int]] = {}
        for (connection, *names), counts in groups.items():
            if connection is not None:
                add_counts(by_connection, (connection, names[0]), counts)
            add_counts(by_names, tuple(names), counts)
        for (name, direction), (frames, messages, size) in by_connection.items():
            self.connections.of(name).add_frames(direction, frames, messages, size)
        for (direction, command, topic, producer, subscription), (frames, messages, size) in by_names.items():
            tallies = [self.total, self.commands.of((cut(command) or "", direction or ""))]
            for tally in tallies + self._tallies(cut(topic), producer, subscription):
                tally.add_frames(direction, frames, messages, size)
            if messages and command is not None and direction == CLIENT and len(self.carriers) < STATISTICS_NAMES_MAX:
                self.carriers.add(command)

    def _tallies(self, topic: str | None, producer: str | None, subscription: str | None) -> list[Tally]:
        """Return the tallies of the names that are known."""
        tallies = []
        if topic is not None:
            tallies.append(self.topics.of(topic))
        if producer is not None:
            tallies.append(self.producers.of((topic, cut(producer) or "")))
        if subscription is not None:
            tallies.append(self.subscriptions.of((topic, cut(subscription) or "")))
        return tallies

    def _count_exchanges(self, rows: Iterable[tuple[int, Any]], slowest: Sequence[tuple[int, ExchangeRow]]) -> None:
        """Add exchanges: rows, and latencies of groups.

        Latencies of a connection, topic or producer are those of messages: rare, slow requests would distort them.
        """
        by_connection: dict[tuple[str, str | None, str | None], ExchangeGroup] = {}
        by_names: dict[tuple[str | None, ...], ExchangeGroup] = {}
        ranked = [*slowest]
        for place, row in rows:
            if isinstance(row, tuple):
                (connection, *names), latencies = row
                values: tuple[int | None, ...] = ()
            else:
                connection, latencies, values = row.connection, None, (row.latency_ns,)
                names = [row.request, row.status, row.topic, row.producer_name, row.subscription]
                ranked.append((place, row))
                if self.series is not None:
                    self.series.exchange(row)
            if connection is not None:
                add_latencies(by_connection, (connection, names[0], names[1]), values, latencies)
            add_latencies(by_names, tuple(names), values, latencies)
        for place, row in sorted(ranked, key=itemgetter(0)) if slowest else ranked:
            if row.latency_ns is not None:
                self._rank(row.latency_ns, self._places + place, row)
        for (name, command, status), group in by_connection.items():
            group.add_to([self.connections.of(name)], status, with_latencies=(cut(command) or "") in self.carriers)
        for (command, status, topic, producer, subscription), group in by_names.items():
            request = cut(command) or ""
            group.add_to([self.families.of(request)], status, with_latencies=True)
            tallies = [self.total, *self._tallies(cut(topic), producer, subscription)]
            group.add_to(tallies, status, with_latencies=request in self.carriers)

    def _rank(self, latency: int, number: int, row: ExchangeRow) -> None:
        """Keep the exchange, the one of this number, if it is among the slowest with its request; of equal ones the first."""
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
        counts = _tcp_counts(row)
        if name in self.connections.named:
            self._ended[name] = row
        else:
            self._tcp_of_others.update(counts)
        self._tcp.update(counts)
        self._tcp["connections"] += 1
        self._tcp["midstream"] += row.opened == "midstream"

    def _count_zero_window(self, connection: str, evidence: dict[str, Any]) -> None:
        if connection in self._zero_windows or len(self._zero_windows) < STATISTICS_NAMES_MAX:
            self._zero_windows[connection] += evidence.get("count", 1)

    def sections(self, names: Iterable[str]) -> dict[str, list[ReportRecord]]:
        """Return the records of the named sections, of `SECTIONS`. A record with `others` true has no name and stands for many."""
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
            row = self._ended.get(name or "", ConnectionRow())
            tcp = _tcp_counts(row)
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


def _others(name: object) -> ReportRecord:
    return {"others": True} if name is None else {}


def _tcp_counts(row: ConnectionRow) -> dict[str, int]:
    return {
        "retransmitted": row.retransmitted or 0,
        "out_of_order": row.out_of_order or 0,
        "missing_bytes": (row.client_missing or 0) + (row.server_missing or 0),
    }


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
