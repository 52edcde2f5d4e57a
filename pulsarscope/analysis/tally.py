"""Counts of frames, messages, bytes and exchanges, and bounded tables of them by name."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import islice
from typing import Any, Generic, TypeVar

from pulsarscope.analysis.latency import Latencies
from pulsarscope.model.flow import CLIENT, SERVER
from pulsarscope.model.limits import STATISTICS_ITEMS_MAX, STATISTICS_NAME_MAX_CHARACTERS, STATISTICS_NAMES_MAX
from pulsarscope.model.records import ExchangeRow

SIDES = (CLIENT, SERVER)
SECOND = 1_000_000_000

Record = dict[str, Any]
"""One row of a section: what JSON shows as an object. Times are nanoseconds since the epoch, absent values None."""


class Tally:
    """What was counted under one name; pairs are (sent by the client, sent by the server)."""

    __slots__ = ("errors", "exchanges", "frames", "latencies", "messages", "sizes", "unanswered", "unrequested")

    def __init__(self) -> None:
        self.frames = [0, 0]
        self.messages = [0, 0]
        self.sizes = [0, 0]
        """Bytes of whole frames."""
        self.exchanges = 0
        """Requests, answered or not."""
        self.errors = 0
        self.unanswered = 0
        self.unrequested = 0
        """Responses whose request was not seen."""
        self.latencies = Latencies()

    def add_frames(self, direction: str | None, frames: int, messages: int, size: int) -> None:
        """So many frames of one direction."""
        side = direction == SERVER
        self.frames[side] += frames
        self.messages[side] += messages
        self.sizes[side] += size

    def add_exchange(self, row: ExchangeRow, *, timed: bool = True) -> None:
        """An exchange; its latency too if it is `timed`."""
        if row.status == "unrequested":
            self.unrequested += 1
            return
        self.exchanges += 1
        if row.status == "error":
            self.errors += 1
        elif row.status == "unanswered":
            self.unanswered += 1
        if timed and row.latency_ns is not None:
            self.latencies.add(row.latency_ns)

    def merge(self, other: Tally) -> None:
        """All that another counted."""
        for side in (0, 1):
            self.add_frames(SIDES[side], other.frames[side], other.messages[side], other.sizes[side])
        self.exchanges += other.exchanges
        self.errors += other.errors
        self.unanswered += other.unanswered
        self.unrequested += other.unrequested
        self.latencies.merge(other.latencies)

    def counts(self) -> Record:
        """The counts."""
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

    def rates(self, span: int) -> Record:
        """Messages and bytes of both directions by the second of `span` nanoseconds."""
        return {
            "messages_per_second": per_second(sum(self.messages), span),
            "bytes_per_second": per_second(sum(self.sizes), span),
        }


def per_second(count: int, span: int) -> float | None:
    """A rate with three decimals; None when no time has passed."""
    return round(count * SECOND / span, 3) if span > 0 else None


def spread(latencies: Latencies) -> Record:
    """How latencies spread."""
    return {
        "p50_ns": latencies.percentile(50),
        "p90_ns": latencies.percentile(90),
        "p99_ns": latencies.percentile(99),
        "max_ns": latencies.largest,
    }


Name = TypeVar("Name", bound=Hashable)


class Tallies(Generic[Name]):
    """Tallies by name: the first names met have one each, all later ones share `others`."""

    def __init__(self) -> None:
        self.named: dict[Name, Tally] = {}
        self.others: Tally | None = None
        """None while every name has its own."""

    def of(self, name: Name) -> Tally:
        """Where to count what happens under a name."""
        tally = self.named.get(name)
        if tally is None:
            if len(self.named) >= STATISTICS_NAMES_MAX:
                self.others = self.others or Tally()
                return self.others
            tally = self.named[name] = Tally()
        return tally

    def merge(self, other: Tallies[Name]) -> None:
        """All that another counted."""
        for name, tally in other.named.items():
            self.of(name).merge(tally)
        if other.others is not None:
            self.others = self.others or Tally()
            self.others.merge(other.others)

    def busiest(self) -> Iterator[tuple[Name | None, Tally]]:
        """All of them, those with the most messages, bytes and exchanges first; what the others share comes last, without a name."""
        yield from sorted(self.named.items(), key=lambda item: _business(item[1]), reverse=True)
        if self.others is not None:
            yield None, self.others


def _business(tally: Tally) -> tuple[int, int, int]:
    return sum(tally.messages), sum(tally.sizes), tally.exchanges


def cut(name: str | None) -> str | None:
    """A name short enough to keep."""
    if name is None or len(name) <= STATISTICS_NAME_MAX_CHARACTERS:
        return name
    return name[:STATISTICS_NAME_MAX_CHARACTERS]


def shorten(value: Any) -> Any:
    """A plain value with texts short enough to keep, and lists and objects of so many of them."""
    if isinstance(value, str):
        return cut(value)
    if isinstance(value, dict):
        return {cut(name): shorten(one) for name, one in islice(value.items(), STATISTICS_ITEMS_MAX)}
    return [shorten(one) for one in value[:STATISTICS_ITEMS_MAX]] if isinstance(value, list) else value
