"""Legs of a path: connections that carry the same frames, one on either side of a proxy or TCP load balancer.

A session reports pairs of frames, one of each direction, that all legs of its connection's path have: anchors. Two connections are legs if
both have an anchor, and the frames of one lie between those of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from pulsarscope.dissect.contract.exchange import Placed
from pulsarscope.dissect.contract.rules import Fact, Where, where_of
from pulsarscope.model.bounded_tables import remember
from pulsarscope.model.digests import short_digest
from pulsarscope.model.frame_name import frame_name
from pulsarscope.model.limits import ANCHOR_NANOSECONDS_MAX, ANCHORS_MAX, ANCHORS_OF_KEY_MAX, ANCHORS_WAITING_MAX, LEGS_MAX
from pulsarscope.model.platform import load_native
from pulsarscope.model.records import FrameRow

ANCHOR = "anchor"
"""Kind of the rows of anchors, which no output shows; also the name of their facts."""

_VALUES = "first", "unique", "pushed", "client", "server"
"""Names of the values in an anchor's fact."""

ENOUGH = 3
"""Weight at which two connections count as legs: one anchor that no other connections can have, or three others. A request counts two if
the inner leg begins at the host where the outer one ends. Equal frames that do not enclose each other count against it."""


class Anchor(NamedTuple):
    """Two frames of a connection, the second an answer to the first: an event of a session."""

    content: tuple[object, ...]
    """Content that all legs of the path have: commands, ids, names."""
    first: Placed
    last: FrameRow
    unique: bool = False
    """True when no other connections can have such frames."""
    pushed: bool = False
    """True when the server sent the first of the two."""


class AnchorRow(NamedTuple):
    """An anchor among the rows of all connections, placed after its last frame."""

    key: str
    """Digest of its content."""
    packed: _Packed
    """Its fact, in the form that tables of legs store. A run may have two tables."""
    time: int
    """Time of the last frame."""
    connection: str
    """Name as in rows."""
    server: str
    """Endpoint of the server."""

    @property
    def fact(self) -> Fact:
        """Fact at the place of the last frame; its values are first (place and time), unique, pushed, client and server."""
        return _unpack(self.packed)


def anchor_row(anchor: Anchor, ends: tuple[str, str]) -> AnchorRow:
    """Return the row of an anchor of a connection with these ends (client, server)."""
    first, (client, server) = anchor.first, ends
    began = [first.file, first.packet, first.sub, first.time]
    values = {"first": began, "unique": anchor.unique, "pushed": anchor.pushed, "client": client, "server": server}
    try:
        content = _encode(anchor.content)
    except (OverflowError, UnicodeEncodeError):
        content = repr(anchor.content).encode("utf-8", "backslashreplace")
    return _row_of(short_digest(content), Fact(where_of(anchor.last), ANCHOR, values))


def _row_of(key: str, fact: Fact) -> AnchorRow:
    return AnchorRow(key, _pack(fact), fact.where.time, fact.where.connection, fact.values["server"])


class Legs(msgspec.Struct):
    """Two connections: the inner one forwards the frames of the outer one."""

    outer: Where
    """Last frame of the first common anchor, in the outer connection."""
    inner: Where
    outer_ends: tuple[str, str]
    """(client, server)."""
    inner_ends: tuple[str, str]
    weight: int = 0
    first: tuple[str, str] = ("", "")
    """Names of the first frames of that anchor, in the outer and in the inner connection."""
    anchors: int = 0
    """Number of common anchors, up to `ANCHORS_MAX`."""
    times: list[tuple[int, int, int]] = []
    """Exchanges that the client began: nanoseconds from the outer leg to the inner one, from request to answer there, and back to the outer
    leg."""
    reported: bool = False

    def add(self, outer: Fact, inner: Fact) -> None:
        """Add an anchor that both connections have."""
        begun, passed = outer.values["first"], inner.values["first"]
        if not self.anchors:
            self.first = frame_name(*begun[:3]), frame_name(*passed[:3])
        self.anchors += 1
        if inner.values["pushed"]:
            self.weight += 1
        else:
            related = _host(self.outer_ends[1]) == _host(self.inner_ends[0])
            self.weight += ENOUGH if inner.values["unique"] else 1 + related
            self.times.append((passed[3] - begun[3], inner.where.time - passed[3], outer.where.time - inner.where.time))


INNER = "inner"
"""Name of the fact that a connection is an inner leg, for processes that evaluate facts but not anchors."""

JOINED = "joined"
"""Server of all of them; None if there are several. One server has many clients that send the same, and these are not legs of each
other."""

_NOWHERE = Where(None, 0, 0, 0, 0, "")
"""A place before all frames."""

DescribeLegs = Callable[[Legs], tuple[str, Where, str, dict[str, Any]]]
"""Returns code, place, text and evidence of the finding about two legs."""


class _Equal(msgspec.Struct):
    """Equal anchors that wait for those of other legs."""

    server: str | None
    """Server of all of them; None when there are several. One server has many clients that send the same, and these are not legs of each
    other."""
    anchors: list[_Packed]


WAITING_LIMITS = ANCHOR_NANOSECONDS_MAX, ANCHORS_WAITING_MAX, ANCHORS_OF_KEY_MAX
"""Minimum time for which an anchor waits, maximum number that wait, and maximum number with the same content."""

_Packed = bytes | Fact
"""A waiting anchor. There are very many, and most have no equals."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


def _pack(anchor: Fact) -> _Packed:
    """Return an anchor in a fifth of the memory, unless MessagePack cannot hold its values; see `engine.packed_facts`."""
    try:
        return _encode((anchor.where, *map(anchor.values.__getitem__, _VALUES)))
    except (OverflowError, UnicodeEncodeError):
        return anchor


def _unpack(packed: _Packed) -> Fact:
    """Return the unpacked anchor."""
    if not isinstance(packed, bytes):
        return packed
    where, *values = _decode(packed)
    return Fact(Where(*where), ANCHOR, dict(zip(_VALUES, values, strict=True)))


class WaitingAnchors:
    """Anchors that wait for those of other legs; the compiled reader has a class of the same name for this."""

    def __init__(self) -> None:
        self._recent: dict[str, _Packed | _Equal] = {}
        """Latest anchors by content: a single one, or equal ones."""
        self._older: dict[str, _Packed | _Equal] = {}
        """Anchors before these, kept so that each waits for the minimum time at least."""
        self._began = 0
        self._count = 0
        """Number of the latest anchors."""

    @classmethod
    def of_compiled(cls, compiled: Any) -> WaitingAnchors:
        """Return the waiting anchors of the compiled reader."""
        waiting = cls()
        recent, older, waiting._began, waiting._count = compiled.state()
        waiting._recent, waiting._older = (
            {key: anchors[0] if alone else _Equal(server, anchors) for key, server, anchors, alone in table} for table in (recent, older)
        )
        return waiting

    def add(self, key: str, packed: _Packed, time: int, server: str, limits: tuple[int, int, int]) -> Sequence[_Packed] | None:
        """Add an anchor to those that wait; return earlier waiting ones with its content, unless all have its server.

        `limits`: minimum time to wait, nanoseconds; maximum number that wait; maximum number with the same content.
        """
        longest, most, of_key = limits
        if time - self._began > longest or self._count >= most:
            self._older, self._recent, self._began, self._count = self._recent, {}, time, 0
        others: list[_Packed] = []
        for waiting in (self._older.get(key), self._recent.get(key)):
            if isinstance(waiting, _Equal):
                others += [] if waiting.server == server else waiting.anchors
            elif waiting is not None:
                others.append(waiting)
        self._keep(key, server, packed, of_key)
        return others

    def _keep(self, key: str, server: str, packed: _Packed, most: int) -> None:
        """Keep an anchor among the latest ones. Equal older ones stay where they are."""
        equal = self._recent.get(key)
        if equal is None:
            self._recent[key] = packed
            self._count += 1
            return
        if not isinstance(equal, _Equal):
            equal = self._recent[key] = _Equal(_unpack(equal).values["server"], [equal])
        if equal.server != server:
            equal.server = None
        before = len(equal.anchors)
        equal.anchors.append(packed)
        del equal.anchors[:-most]
        self._count += len(equal.anchors) - before


class LegTable:
    """Pairs of legs. It takes the anchors of all connections in the order of their last frames."""

    def __init__(self) -> None:
        native, _ = load_native()
        self.waiting: Any = WaitingAnchors() if native is None else native.WaitingAnchors()
        """Anchors that wait for those of other legs."""
        self._pairs: dict[tuple[str, str], Legs] = {}
        """Pairs by outer and inner connection, including pairs about which too little is known."""
        self._parted: dict[frozenset[str], int] = {}
        """Number of anchors that count against two connections being legs."""
        self.outer_of: dict[str, str] = {}
        """The outer leg of each inner leg."""

    def add(self, key: str, anchor: Fact) -> list[str]:
        """Take an anchor by its fact; see `add_row`."""
        return self.add_row(_row_of(key, anchor))

    def add_row(self, row: AnchorRow) -> list[str]:
        """Take an anchor, and join its connection with others that have it; return the connections newly known as inner legs."""
        key, packed, time, _, server = row
        others = self.waiting.add(key, packed, time, server, WAITING_LIMITS)
        return self.join(row, others) if others else []

    def join(self, row: AnchorRow, others: Sequence[_Packed]) -> list[str]:
        """Do the same as `add_row` for an anchor that waits, and `others` with its content that waited before."""
        return [*self._compare(row.fact, others)]

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle, for processes with and without the compiled reader."""
        waiting = self.waiting if isinstance(self.waiting, WaitingAnchors) else WaitingAnchors.of_compiled(self.waiting)
        return {**self.__dict__, "waiting": waiting}

    def _compare(self, anchor: Fact, waiting: Sequence[_Packed]) -> Iterator[str]:
        """Join the connection of an anchor with those of equal ones; yield the connections newly known as inner legs."""
        for other in map(_unpack, waiting):
            if abs(anchor.where.time - other.where.time) > ANCHOR_NANOSECONDS_MAX or not _may_be_legs(anchor, other):
                continue
            around, between = (anchor, other) if _encloses(anchor, other) else (other, anchor)
            outer, inner = (between, around) if anchor.values["pushed"] else (around, between)
            if not _encloses(around, between):
                self._part(outer, inner)
            elif self._join(outer, inner):
                yield inner.where.connection

    def weight(self, outer: str, inner: str) -> int:
        """Return the evidence for two connections being legs, minus the evidence against it."""
        legs = self._pairs.get((outer, inner))
        return 0 if legs is None else legs.weight

    def presume(self, outer: str, inner: str) -> None:
        """Treat two connections as legs, although too little is known about them."""
        remember(self.outer_of, inner, outer, LEGS_MAX)

    def _join(self, outer: Fact, inner: Fact) -> bool:
        names = outer.where.connection, inner.where.connection
        legs = self._pairs.get(names)
        if legs is None:
            legs = Legs(outer.where, inner.where, _ends(outer), _ends(inner), -self._parted.get(frozenset(names), 0))
            remember(self._pairs, names, legs, LEGS_MAX)
        if legs.anchors < ANCHORS_MAX:
            legs.add(outer, inner)
        if legs.weight < ENOUGH or names[1] in self.outer_of or self.outer_of.get(names[0]) == names[1]:
            return False
        remember(self.outer_of, names[1], names[0], LEGS_MAX)
        return True

    def _part(self, one: Fact, other: Fact) -> None:
        """Count against two connections that their equal frames cross instead of enclosing each other."""
        names = one.where.connection, other.where.connection
        remember(self._parted, frozenset(names), self._parted.get(frozenset(names), 0) + 1, LEGS_MAX)
        for pair in (names, names[::-1]):
            if (legs := self._pairs.get(pair)) is not None:
                legs.weight -= 1

    def inner(self) -> Iterator[tuple[str, Fact]]:
        """Yield the outer leg of each inner leg, with a fact `INNER`."""
        for inner, outer in self.outer_of.items():
            yield outer, Fact(_NOWHERE._replace(connection=inner), INNER, {})

    def suspend(self) -> Fact:
        """Return a fact `JOINED` with this table."""
        return Fact(_NOWHERE, JOINED, {"table": self})

    def joined(self, *, complete: bool = False) -> Iterator[Legs]:
        """Yield the pairs of legs not yet yielded, in the order in which they were found; with `complete`, only those with all anchors."""
        for inner, outer in self.outer_of.items():
            legs = self._pairs.get((outer, inner))
            if legs is not None and not legs.reported and (legs.anchors >= ANCHORS_MAX or not complete):
                legs.reported = True
                yield legs


def _may_be_legs(anchor: Fact, other: Fact) -> bool:
    """Return True for anchors of two connections that have no end in common."""
    mine, theirs = anchor.values, other.values
    return anchor.where.source == other.where.source and mine["client"] != theirs["client"] and mine["server"] != theirs["server"]


def _encloses(anchor: Fact, other: Fact) -> bool:
    """Return True when the frames of the other anchor lie between those of the anchor."""
    begun, passed = anchor.values["first"], other.values["first"]
    return begun[:2] < passed[:2] and (other.where.file, other.where.packet) < (anchor.where.file, anchor.where.packet)


def _ends(fact: Fact) -> tuple[str, str]:
    return fact.values["client"], fact.values["server"]


def _host(endpoint: str) -> str:
    return endpoint.rpartition(":")[0]
