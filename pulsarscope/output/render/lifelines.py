"""The lifelines of `follow`, from left to right: clients, a proxy, the broker, other clients, and each bookie."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from pulsarscope.model.flow import CLIENT, SERVER
from pulsarscope.model.records import FrameRow

TEXT_MIN = 36
"""Least cells between two lifelines with the text of frames."""

PROXY_GAP = 18
"""Cells from a proxy to the broker. Few are enough, because a forwarded frame has its text on the way to the proxy."""

STORAGE_GAP = 13
"""Cells from one bookie to the next."""

STORAGES_MAX = 5
"""Bookies with a lifeline each; a message is stored on two or three."""

PROXY = "proxy"

Ends = Callable[[str], tuple[str, str]]
"""Client and server of a connection."""


class Lifelines:
    """Names and positions of the lifelines."""

    def __init__(self, frames: Sequence[FrameRow], dissector: Callable[[str | None], Any], ends: Ends, *, several: bool = True) -> None:
        """Decide the layout by the first frames; `several`: draw more than the two sides of a connection."""
        self._dissector, self._ends_of = dissector, ends
        self._left: set[str | None] = set()
        """Connections between the first two lifelines."""
        self._inner: dict[str, str] = {}
        self._storages: dict[str, int] = {}
        """Lifelines of the storage servers."""
        self.legend: list[str] = []
        """Legend of the bookies, when there are several."""
        connections = list(dict.fromkeys(row.connection for row in frames))
        clients, server = self._sides(connections[0] if connections else None)
        self.titles = [clients, server]
        self.several = several and len(connections) > 1
        if not self.several:
            return
        storages = [name for name in connections if self.stores(name)]
        others = [name for name in connections if name not in storages]
        self._inner = inner_legs(frames, ends)
        if others:
            first = self._inner.get(others[0] or "", others[0])
            self._left = {first, *self._inner.values()}
            clients, server = self._sides(first)
            self.titles = [clients, *([PROXY] if self._inner else []), server]
            if any(name not in self._left and name not in self._inner for name in others):
                self.titles.append(clients)
        else:
            self.titles = [clients]
        self._server = 1 + bool(self._inner) if others else 0
        self._add_storages(storages)

    def _add_storages(self, connections: Sequence[str | None]) -> None:
        servers = list(dict.fromkeys(self._ends_of(name or "")[1] for name in connections))
        begin = len(self.titles)
        for number, server in enumerate(servers[:STORAGES_MAX]):
            self._storages[server] = begin + number
        noun = self._sides(connections[0])[1] if connections else ""
        if len(servers) == 1:
            self.titles.append(noun)
            return
        self.titles += [f"{noun} {number}" for number in range(1, len(self._storages) + 1)]
        self.legend = [f"{noun} {number} is {server}" for number, server in enumerate(self._storages, 1)]
        if len(servers) > STORAGES_MAX:
            self.titles[-1] += ", …"

    def _sides(self, connection: str | None) -> tuple[str, str]:
        dissector = self._dissector(connection)
        return (CLIENT, SERVER) if dissector is None else dissector.sides

    def stores(self, connection: str | None) -> bool:
        """Return True for a connection of a broker to a storage server."""
        dissector = self._dissector(connection)
        return dissector is not None and dissector.stores

    def of(self, connection: str | None) -> tuple[int, int]:
        """Return the lifelines of the client and the server of a connection."""
        if not self.several:
            return 0, 1
        if self.stores(connection):
            last = len(self.titles) - 1
            return self._server, self._storages.get(self._ends_of(connection or "")[1], last)
        if connection in self._inner:
            return self._server - 1, self._server
        if connection in self._left:
            return 0, 1
        return min(self._server + 1, len(self.titles) - 1), self._server

    def gaps(self, room: int) -> list[int] | None:
        """Return the cells between lifelines in `room` cells; None if they are too few for the text of frames."""
        count = len(self.titles)
        if not self.several:
            return [room - 2]
        fixed: list[int | None] = [None] * (count - 1)
        if self._inner:
            fixed[1] = PROXY_GAP
        for at in self._storages.values():
            if at - 1 in self._storages.values():
                fixed[at - 1] = STORAGE_GAP
        left = room - count - sum(gap or 0 for gap in fixed)
        texts = fixed.count(None)
        if left < texts * TEXT_MIN:
            return None
        gaps = []
        for gap in fixed:
            if gap is None:
                gap, texts = left // texts, texts - 1  # noqa: PLW2901 - an equal share of the rest
                left -= gap
            gaps.append(gap)
        return gaps


def inner_legs(frames: Sequence[FrameRow], ends: Ends) -> dict[str, str]:
    """Return the outer leg of each connection on which a proxy forwards the frames of another one.

    Both have equal frames, and those of the client come first on the outer leg. Consumers can have equal frames without a proxy, so legs
    must also have a host in common, or carry a request and its answer, or lie between the same hosts as legs that do.
    """
    votes: Counter[tuple[str, str]] = Counter()
    asked: Counter[tuple[str, str]] = Counter()
    for at, row in enumerate(frames):
        for later in frames[at + 1 :]:
            if not _are_equal(row, later):
                continue
            pair = (row.connection or "", later.connection or "")
            pair = pair if row.direction == CLIENT else pair[::-1]
            votes[pair] += 1
            votes[pair[::-1]] -= 1
            asked[pair] += row.direction == SERVER and row.latency_ns is not None
    likely = {pair: (ends(pair[0]), ends(pair[1])) for pair, number in votes.items() if number > 0}
    likely = {pair: both for pair, both in likely.items() if both[0][0] != both[1][0] and both[0][1] != both[1][1]}
    proxies = {_between(*both) for pair, both in likely.items() if asked[pair]}
    found: dict[str, str] = {}
    for (outer, inner), ((client, proxy), (behind, broker)) in likely.items():
        is_one = _between((client, proxy), (behind, broker)) in proxies or _host(proxy) == _host(behind) != _host(client)
        if is_one and inner not in found and outer not in found:
            found[inner] = outer
    return found


def _between(outer: tuple[str, str], inner: tuple[str, str]) -> tuple[str, str, str]:
    """Return what all paths through one proxy to a broker share: the proxy's endpoint, its host on the inner side, and the broker."""
    return outer[1], _host(inner[0]), inner[1]


def _are_equal(row: FrameRow, later: FrameRow) -> bool:
    """Return True for equal frames of two connections."""
    return (
        row.connection != later.connection
        and row.command is not None
        and (row.dissector, row.command, row.direction, row.size, row.fields)
        == (later.dissector, later.command, later.direction, later.size, later.fields)
    )


def _host(endpoint: str) -> str:
    return endpoint.rpartition(":")[0]
