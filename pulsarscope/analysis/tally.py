"""Counts of frames, messages, bytes and exchanges, and bounded tables of counts by name."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from itertools import islice
from typing import Any, Generic, TypeVar

import msgspec

from pulsarscope.dissect.contract.capabilities import ReportFold
from pulsarscope.model.flow import CLIENT, SERVER
from pulsarscope.model.latency import Latencies
from pulsarscope.model.limits import STATISTICS_ITEMS_MAX, STATISTICS_NAME_MAX_CHARACTERS, STATISTICS_NAMES_MAX
from pulsarscope.model.units import SECOND

SIDES = (CLIENT, SERVER)

ReportRecord = dict[str, Any]
"""A row of a section of a report. Times are nanoseconds since the epoch, absent values None."""


class Tally:
    """Counts under one name; pairs are (sent by the client, sent by the server)."""

    __slots__ = ("errors", "exchanges", "frames", "latencies", "messages", "sizes", "unanswered", "unrequested")

    def __init__(self) -> None:
        self.frames = [0, 0]
        self.messages = [0, 0]
        self.sizes = [0, 0]
        """Bytes of complete frames."""
        self.exchanges = 0
        """Requests, answered or not."""
        self.errors = 0
        self.unanswered = 0
        self.unrequested = 0
        """Responses whose request was not seen."""
        self.latencies = Latencies()

    def add_frames(self, direction: str | None, frames: int, messages: int, size: int) -> None:
        """Add frames of one direction, with their messages and bytes."""
        side = direction == SERVER
        self.frames[side] += frames
        self.messages[side] += messages
        self.sizes[side] += size

    def add_exchange(self, status: str | None, latency: int | None) -> None:
        """Add an exchange, with its latency in nanoseconds if it counts."""
        self.add_exchanges(status, 1, None)
        if latency is not None and status != "unrequested":
            self.latencies.add(latency)

    def add_exchanges(self, status: str | None, count: int, latencies: Latencies | None) -> None:
        """Add exchanges of one status, with their latencies if they count."""
        if status == "unrequested":
            self.unrequested += count
            return
        self.exchanges += count
        if status == "error":
            self.errors += count
        elif status == "unanswered":
            self.unanswered += count
        if latencies is not None:
            self.latencies.merge(latencies)

    def merge(self, other: Tally) -> None:
        """Add the counts of another tally."""
        for side in (0, 1):
            self.add_frames(SIDES[side], other.frames[side], other.messages[side], other.sizes[side])
        self.exchanges += other.exchanges
        self.errors += other.errors
        self.unanswered += other.unanswered
        self.unrequested += other.unrequested
        self.latencies.merge(other.latencies)

    def counts(self) -> ReportRecord:
        """Return the counts as part of a record."""
        return {
            "client_frames": self.frames[0],
            "server_frames": self.frames[1],
            "client_messages": self.messages[0],
            "server_messages": self.messages[1],
            "client_bytes": self.sizes[0],
            "server_bytes": self.sizes[1],
            "exchanges": self.exchanges,
            "errors": self.errors,
            "unanswered": self.unanswered,
        }

    def rates(self, span: int) -> ReportRecord:
        """Return messages and bytes of both directions per second, over `span` nanoseconds."""
        return {"messages_per_second": per_second(sum(self.messages), span), "bytes_per_second": per_second(sum(self.sizes), span)}


def table_records(fold: ReportFold, outer_of: Collection[str]) -> list[ReportRecord]:
    """Return the records of a table, except connections that are inner legs, and a record that counts rows without one."""
    records = [record for record in fold.records() if record.get("connection") not in outer_of]
    return [*records, {"others": True, "rows": fold.left_out}] if fold.left_out else records


def per_second(count: int, span: int) -> float | None:
    """Return a rate with three decimals; None for an empty span."""
    return round(count * SECOND / span, 3) if span > 0 else None


def completed(record: ReportRecord) -> ReportRecord:
    """Return a record with the bytes of both directions, and the duration of a connection."""
    if "client_bytes" in record:
        record = {**record, "bytes": record["client_bytes"] + record["server_bytes"]}
    if "closed" in record and record["start"] is not None and record["end"] is not None:
        return {**record, "lasted": record["end"] - record["start"]}
    return {"lasted": None, **record}


TallyName = TypeVar("TallyName", bound=Hashable)


class TallyTable(Generic[TallyName]):
    """Tallies by name: the first names have a tally each, all later ones share `others`."""

    def __init__(self) -> None:
        self.named: dict[TallyName, Tally] = {}
        self.others: Tally | None = None
        """The shared tally, None while every name has its own."""

    @property
    def is_full(self) -> bool:
        """Return True when further names share a tally."""
        return len(self.named) >= STATISTICS_NAMES_MAX

    def of(self, name: TallyName) -> Tally:
        """Return the tally of a name."""
        if (tally := self.named.get(name)) is None:
            if self.is_full:
                self.others = self.others or Tally()
                return self.others
            tally = self.named[name] = Tally()
        return tally

    def merge(self, other: TallyTable[TallyName]) -> None:
        """Add the counts of another table."""
        for name, tally in other.named.items():
            self.of(name).merge(tally)
        if other.others is not None:
            self.others = self.others or Tally()
            self.others.merge(other.others)

    def busiest(self) -> Iterator[tuple[TallyName | None, Tally]]:
        """Yield all tallies, those with the most messages, bytes and exchanges first; the shared one comes last, without a name."""
        amounts = {name: (sum(tally.messages), sum(tally.sizes), tally.exchanges) for name, tally in self.named.items()}
        yield from sorted(self.named.items(), key=lambda item: amounts[item[0]], reverse=True)
        if self.others is not None:
            yield None, self.others


GroupKey = TypeVar("GroupKey", bound=Hashable)


class ExchangeCounts(msgspec.Struct):
    """Exchanges that are counted together."""

    place: int
    """Place of the first one."""
    count: int = 0
    latencies: Latencies | None = None
    """Latencies that count; None if there are none."""


def add_counts(groups: dict[GroupKey, list[int]], key: GroupKey, place: int, counts: Sequence[int]) -> None:
    """Add frames, messages and bytes to those of a key, which keeps the place of the first."""
    if (known := groups.get(key)) is None:
        groups[key] = [place, *counts]
    else:
        known[1] += counts[0]
        known[2] += counts[1]
        known[3] += counts[2]


def add_exchange(groups: dict[GroupKey, ExchangeCounts], key: GroupKey, place: int, latency: int | None) -> None:
    """Add an exchange to those of a key, with its latency if it counts."""
    if (known := groups.get(key)) is None:
        known = groups[key] = ExchangeCounts(place)
    known.count += 1
    if latency is not None:
        if known.latencies is None:
            known.latencies = Latencies()
        known.latencies.add(latency)


def cut(name: str | None) -> str | None:
    """Return a name of bounded length."""
    return name and name[:STATISTICS_NAME_MAX_CHARACTERS]


def shorten(value: Any) -> Any:
    """Return a plain value with texts, lists and objects of bounded size."""
    if isinstance(value, str):
        return cut(value)
    if isinstance(value, dict):
        return {cut(name): shorten(item) for name, item in islice(value.items(), STATISTICS_ITEMS_MAX)}
    return [shorten(item) for item in value[:STATISTICS_ITEMS_MAX]] if isinstance(value, list) else value
