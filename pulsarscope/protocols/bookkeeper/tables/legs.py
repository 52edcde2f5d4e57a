"""The legs of publishing: through proxies, in the broker, at the bookies, and back; each bookie; and the slowest leg.

Publish → first ADD, first ADD → answer that completes the ack quorum, that answer → receipt. The time in which a proxy forwards the publish
and its receipt is separate if both of its sides are in the capture. All times are capture times, so that the legs of an entry add up to its
time from publish to receipt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from heapq import heappush, heappushpop
from typing import Any

import msgspec

from pulsarscope.dissect.contract.capabilities import BoundedFold, ReadReceipt, ReportColumn, ReportTable
from pulsarscope.model.bounded_tables import OldestFirst, remember
from pulsarscope.model.latency import Latencies
from pulsarscope.model.limits import STATISTICS_NAMES_MAX, TABLE_ENTRIES_MAX
from pulsarscope.model.records import FrameRow
from pulsarscope.protocols.bookkeeper.commands import ADD, EOK, response
from pulsarscope.protocols.bookkeeper.session import LEDGERS_MAX

LEGS = ("proxy", "broker", "bookies", "answer")

SLOWEST_MAX = 5
"""Slowest entries kept for each topic."""

_ADDED = response(ADD)
_ALL = "publish"
"""Name of the time from publish to receipt, among the names of legs."""

_Write = tuple[int, int, str]
"""Times of an ADD and its answer, and the bookie."""


class _Receipt(msgspec.Struct, frozen=True):
    """A published and confirmed entry."""

    topic: str | None
    sent: int
    received: int
    frame: str
    """Name of the frame that published it."""
    inner: tuple[int, int] | None = None
    """Times at which the last proxy on the path forwarded it and got its receipt."""


_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(tuple[int, int, str, tuple[int, int] | None]).decode


class _Entry(msgspec.Struct, gc=False):
    """An entry that waits for its other parts. There are very many of these, most with only a receipt."""

    topic: str | None = None
    packed: bytes | _Receipt | None = None
    """The receipt without its topic, packed unless it has a time that MessagePack cannot hold."""
    writes: Sequence[_Write] = ()

    @property
    def receipt(self) -> _Receipt | None:
        """The receipt; None until it arrives."""
        return _Receipt(self.topic, *_unpack(self.packed)) if isinstance(self.packed, bytes) else self.packed

    @receipt.setter
    def receipt(self, receipt: _Receipt) -> None:
        self.topic = receipt.topic
        try:
            self.packed = _pack((receipt.sent, receipt.received, receipt.frame, receipt.inner))
        except OverflowError:
            self.packed = receipt

    def add(self, asked: int, answered: int, bookie: str) -> None:
        """Add an ADD and its answer."""
        write = asked, answered, bookie
        if isinstance(self.writes, list):
            self.writes.append(write)
        else:
            self.writes = [write]


class _Topic:
    """The entries of a topic that have a receipt and at least one ADD."""

    def __init__(self) -> None:
        self.receipts = self.joined = self.hidden = 0
        self.times: dict[str, Latencies] = {name: Latencies() for name in (_ALL, *LEGS)}
        self.longest: Counter[str] = Counter()
        """Number of entries by their longest leg."""
        self.slowest: list[tuple[int, int, dict[str, Any]]] = []
        self.bookies: dict[str, _Bookie] = {}


class _Bookie:
    """The ADDs of a topic's entries at one bookie."""

    def __init__(self) -> None:
        self.latencies = Latencies()
        self.last = self.hidden = 0
        """Entries for which it answered last of several bookies; among these, entries whose receipt did not wait for it."""


class LegsFold(BoundedFold):
    """A fold over the answers to ADDs and the receipts."""

    def __init__(self, receipts: Sequence[ReadReceipt]) -> None:
        self._read_receipts = receipts
        self._entries: OldestFirst[tuple[int, int], _Entry] = OldestFirst()
        self._topics: dict[str | None, _Topic] = {}
        self._quorums: dict[int, int] = {}
        """Least number of answers before a receipt, by ledger: the ack quorum."""

    def feed(self, rows: Iterable[Any], endpoints: Mapping[str, tuple[str, str]]) -> None:
        """Take rows (see `ReportFold`)."""
        for row in rows:
            if not isinstance(row, FrameRow) or row.latency_ns is None:
                continue
            if row.command == _ADDED:
                fields = row.fields or {}
                if fields.get("status") == EOK and {"ledger", "entry"} <= fields.keys():
                    bookie = endpoints.get(row.connection, ("", "?"))[1]
                    self._entry((fields["ledger"], fields["entry"])).add(row.time - row.latency_ns, row.time, bookie)
                continue
            for read in self._read_receipts:
                if (place := read(row)) is not None:
                    self._receive(place, row, row.latency_ns)

    def _entry(self, place: tuple[int, int]) -> _Entry:
        entry = self._entries.get(place)
        if entry is None:
            if len(self._entries) >= TABLE_ENTRIES_MAX:
                self._count(*self._entries.pop_oldest())
            entry = self._entries.add(place, _Entry())
        return entry

    def feed_inner(self, rows: Iterable[Any], endpoints: Mapping[str, tuple[str, str]]) -> None:
        """Take rows of inner legs (see `LegFold`)."""
        self.feed(rows, endpoints)

    def _receive(self, place: tuple[int, int], row: FrameRow, latency: int) -> None:
        entry = self._entry(place)
        receipt = _Receipt(row.topic, row.time - latency, row.time, row.request or "")
        entry.receipt = receipt if (before := entry.receipt) is None else _joined(before, receipt)
        answers = sum(answered <= row.time for _, answered, _ in entry.writes)
        if answers:
            remember(self._quorums, place[0], min(answers, self._quorums.get(place[0], answers)), LEDGERS_MAX)

    def _count(self, place: tuple[int, int], entry: _Entry) -> None:
        receipt = entry.receipt
        if receipt is None:
            return
        if (topic := self.item(self._topics, receipt.topic, _Topic)) is None:
            return
        topic.receipts += 1
        sent, received = receipt.inner or (receipt.sent, receipt.received)
        answers = sorted(answered for _, answered, _ in entry.writes if answered <= received)
        begun = min((asked for asked, _, _ in entry.writes), default=0)
        if not answers or begun < sent:
            return
        topic.joined += 1
        stored = answers[min(self._quorums.get(place[0], 1), len(answers)) - 1]
        whole = receipt.received - receipt.sent
        legs = dict(zip(LEGS, (whole - (received - sent), begun - sent, stored - begun, received - stored), strict=True))
        for name, time in (*legs.items(), (_ALL, whole)):
            if name != LEGS[0] or receipt.inner is not None:
                topic.times[name].add(time)
        topic.longest[max(legs, key=legs.__getitem__)] += 1
        self._count_bookies(topic, received, entry.writes)
        slow = whole, -topic.joined, _slow(place, receipt, legs, entry.writes)
        (heappush if len(topic.slowest) < SLOWEST_MAX else heappushpop)(topic.slowest, slow)

    def _count_bookies(self, topic: _Topic, received: int, writes: Sequence[_Write]) -> None:
        last = max(writes, key=lambda write: write[1])
        hidden = last[1] > received
        topic.hidden += hidden
        for write in writes:
            asked, answered, name = write
            if name not in topic.bookies and len(topic.bookies) >= STATISTICS_NAMES_MAX:
                continue
            bookie = topic.bookies.setdefault(name, _Bookie())
            bookie.latencies.add(answered - asked)
            bookie.last += write is last and len(writes) > 1
            bookie.hidden += write is last and hidden

    def records(self) -> list[dict[str, Any]]:
        """Return a record for each topic, followed by one for each of its bookies; slowest topics first."""
        while self._entries:
            self._count(*self._entries.pop_oldest())
        records = []
        for name, topic in sorted(self._topics.items(), key=lambda item: -(item[1].times[_ALL].percentile(99) or 0)):
            numbers = {"entries": topic.receipts, "joined": topic.joined, "hidden": topic.hidden, "slowest_of_joined": None}
            slowest = [record for _, _, record in sorted(topic.slowest, reverse=True, key=lambda slow: slow[:2])]
            shares = {f"{leg}_longest": topic.longest[leg] for leg in LEGS}
            records.append({"topic": name, "bookie": None, **numbers, **_percentiles(topic.times), **shares, "slowest": slowest})
            for bookie, writes in sorted(topic.bookies.items()):
                count = writes.latencies.count
                numbers = {"entries": count, "joined": count, "hidden": writes.hidden, "slowest_of_joined": writes.last}
                times = _percentiles({name: writes.latencies if name == "bookies" else Latencies() for name in (_ALL, *LEGS)})
                records.append({"topic": name, "bookie": bookie, **numbers, **times, **dict.fromkeys(shares), "slowest": []})
        return records


def _joined(one: _Receipt, other: _Receipt) -> _Receipt:
    """Return the joined receipts of two legs of a path through a proxy: the outer one, with the times of the innermost."""
    outer, inner = (one, other) if one.sent <= other.sent else (other, one)
    if inner.received > outer.received:
        return one
    innermost = max((each.inner or (each.sent, each.received) for each in (one, other)), key=lambda times: times[0])
    return msgspec.structs.replace(outer, inner=innermost)


def _percentiles(times: Mapping[str, Latencies]) -> dict[str, int | None]:
    return {name: value for leg, latencies in times.items() for name, value in latencies.percentiles(f"{leg}_").items()}


def _slow(place: tuple[int, int], receipt: _Receipt, legs: Mapping[str, int], writes: Sequence[_Write]) -> dict[str, Any]:
    """Return the record of one entry with its legs."""
    ledger, entry = place
    return {
        "entry": f"{ledger}:{entry}",
        "frame": receipt.frame,
        "time": receipt.sent,
        "publish_ns": receipt.received - receipt.sent,
        **{f"{leg}_ns": time for leg, time in legs.items()},
        "writes": [{"bookie": bookie, "latency_ns": answered - asked} for asked, answered, bookie in writes],
    }


def table(receipts: Sequence[ReadReceipt]) -> ReportTable:
    """Return the table."""
    return ReportTable(
        "legs",
        "Legs of publishing",
        "broker: to the first ADD; bookies: to the ack quorum; answer: to the receipt",
        (
            ReportColumn("topic", "topic", "topic"),
            ReportColumn("bookie", "bookie", "name"),
            ReportColumn("joined", "entries"),
            ReportColumn("publish_p50_ns", "publish p50", "duration"),
            ReportColumn("publish_p99_ns", "p99", "duration"),
            ReportColumn("proxy_p50_ns", "proxy p50", "duration", spare=True),
            ReportColumn("proxy_p99_ns", "p99", "duration", spare=True),
            ReportColumn("broker_p50_ns", "broker p50", "duration"),
            ReportColumn("broker_p99_ns", "p99", "duration"),
            ReportColumn("bookies_p50_ns", "bookies p50", "duration"),
            ReportColumn("bookies_p99_ns", "p99", "duration"),
            ReportColumn("answer_p50_ns", "answer p50", "duration"),
            ReportColumn("answer_p99_ns", "p99", "duration"),
            ReportColumn("slowest_of_joined", "slowest", spare=True),
            ReportColumn("hidden", "hidden", spare=True),
        ),
        partial(LegsFold, receipts),
    )
