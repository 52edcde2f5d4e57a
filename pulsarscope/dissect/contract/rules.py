"""The types of rules: a dissector provides them, the rule engine runs them.

A rule has one of two scopes. A `ConnectionRule` is made for one connection and sees its rows in order. A `KeyRule` looks across
connections: connection rules emit facts for it, each under a key (a ledger:entry, a topic, a producer's name, a client's host), and it
evaluates the facts of one key, sorted by (source, file, packet, sub), so that it sees the same in every way of running.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

from pulsarscope.model.frame_name import frame_name
from pulsarscope.model.records import ConnectionRow, JourneyRow, Row
from pulsarscope.model.thresholds import Thresholds


class Where(NamedTuple):
    """A place in the capture: that of a frame, or of its packet."""

    source: str | None
    file: int
    packet: int
    sub: int
    time: int
    connection: str

    @property
    def name(self) -> str:
        """file:packet.sub, as frames are named."""
        return frame_name(self.file, self.packet, self.sub)


def where_of(row: Row) -> Where:
    """Return the place of a row; for an exchange, that of its request."""
    # Same as calling the class, without the call in between: there are several for each frame.
    return tuple.__new__(Where, (row.source, row.file or 0, row.packet or 0, row.sub or 0, row.time or 0, row.connection or ""))


def name_of(row: Row) -> str:
    """Return the name of a row's place, see `where_of`."""
    return frame_name(row.file or 0, row.packet or 0, row.sub or 0)


class Fact(NamedTuple):
    """A statement of a connection rule for a key rule, which looks across connections. Facts sort by their place."""

    where: Where
    what: str
    """A word that the rule chooses."""
    values: dict[str, Any]
    """Plain values: text, numbers, lists and dicts of them."""


RuleFact = tuple[str, str, Fact]
"""A fact, preceded by the name of its key rule and its key."""

UNREAD = "unread"

OUTER = "outer"
"""Name of a value in facts of inner legs, see `KeyRule.all_legs`."""


class ReportedFinding(NamedTuple):
    """A finding of the layers below about a connection."""

    where: Where
    sender: str | None
    """Endpoint whose stream it is about, None if it is about both."""
    evidence: dict[str, Any]


ReportFinding = Callable[[str, Where, str, dict[str, Any]], None]
"""(code, where, text, evidence): reports a finding. The text is one sentence with the numbers; `frames` in the evidence are names of
frames."""


BatchFact = tuple[int, str, Where, str, dict[str, Any]]
"""A fact on a row of a batch: index of the row, key, and the rest of the arguments of `RuleContext.emit_fact`."""

PackedFact = tuple[int, str, bytes, int]
"""A fact on a frame in columns: position of the frame, key, packed form, time."""


class FramesInColumns(Protocol):
    """Consecutive frames of one connection in columns; dissectors add what their rules read (`ConnectionRule.columns`)."""

    @property
    def command(self) -> str:
        """The command under which handlers of these frames are registered."""

    @property
    def position(self) -> int:
        """Position of the first frame among all current rows."""

    def __len__(self) -> int: ...

    def commands(self) -> tuple[Iterable[str], Iterable[str]]:
        """Return the commands of the frames, and the requests of their exchanges."""

    def rows(self) -> tuple[Sequence[Row], Sequence[int]]:
        """Return the rows, and their positions among all current rows."""

    def row(self, place: int, /) -> tuple[Sequence[Row], Sequence[int]]:
        """Return the row at a place and that of its exchange, if it ends one, with their positions."""

    def where_of(self, place: int, /) -> tuple[str | None, int, int, int, int, str]:
        """Return the place of a frame in the capture, as the parts of a `Where`; negative places count from the end."""


StretchesOf = Callable[[Sequence[Row], Sequence[int], int], Iterable[tuple[int, FramesInColumns]]]
"""Function of (rows, their positions, least) that yields frames in columns, at least `least` at a time, for rows from an index on."""


class UndecidedFacts(Protocol):
    """Facts on frames in columns that cause no finding on their own: a sequence of the compiled reader."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> PackedFact: ...

    def __iter__(self) -> Iterator[PackedFact]: ...

    @staticmethod
    def merged(batches: Sequence[UndecidedFacts]) -> UndecidedFacts:
        """Return the facts of several batches, in the order of their positions."""


class RuleContext(Protocol):
    """The connection as a rule sees it, and the ways to report."""

    client: str
    """Endpoint of the client."""
    server: str

    @property
    def connection(self) -> str:
        """Name of the connection."""

    @property
    def thresholds(self) -> Thresholds:
        """Limits that decide findings, with the values of this run."""

    @property
    def last(self) -> Where:
        """Place of the latest frame, including that of the current row."""

    closing: tuple[str, int] | None
    """At the end of the rule: the first "fin" or "rst", and its time. Frames of the other side may follow it."""

    @property
    def lost(self) -> bool:
        """True when bytes of this connection are missing so far, or it was seen from the middle: an absent frame may have been sent."""

    def reported(self, code: str) -> Sequence[ReportedFinding]:
        """Return the first few findings of this code that the layers below have reported about the connection."""

    def report(self, code: str, where: Where, text: str, evidence: dict[str, Any]) -> None:
        """Report a finding."""

    def emit_fact(self, rule: str, key: str, where: Where, what: str, values: dict[str, Any]) -> None:
        """Emit a fact for the key rule of this name."""

    def emit_facts(self, rule: str, keys: Sequence[str], where: Where, what: str, values: dict[str, Any]) -> None:
        """Emit the same fact for several keys, at least one."""

    def emit_batch(self, rule: str, facts: Sequence[BatchFact]) -> None:
        """Emit facts on rows of the batch that the rule is handling, for the key rule of this name."""

    def emit_packed(self, rule: str, facts: UndecidedFacts | list[PackedFact]) -> None:
        """Emit facts on frames in columns for the key rule of this name, which decides by other facts."""


Handler = Callable[[Any, Any], None]
"""A method of a rule: (the rule, a row)."""

Handlers = Mapping[str, Handler]
"""Handlers by what they handle: "" for frames without a command, "*" for all other names."""

BatchHandler = Callable[[Any, Sequence[Any], Callable[[int], None]], None]
"""A method of a rule: (the rule, rows, a function that passes the row at an index to its handler)."""


ColumnsHandler = Callable[[Any, Any, Callable[[int], None]], bool]
"""A method of a rule: (the rule, frames in columns, a function that passes the frame at a place, and its exchange, to their handlers)."""

ColumnsHandlers = Mapping[str, ColumnsHandler]
"""Handlers by the command under which frames in columns come."""


class ConnectionRule:
    """A rule about one connection. It is made for the first row that it handles, or for its `end`, if it has one; see `passive`.

    Its state is bounded by constants, each with a reason, and holds no rows, because outputs may change them. It can be pickled, like a
    session.
    """

    __slots__ = ()

    frames: ClassVar[Handlers] = {}
    """Handlers of FrameRow by command: only these frames are seen."""
    exchanges: ClassVar[Handlers] = {}
    """Handlers of ExchangeRow by request command; "*" also stands for responses without a request."""
    messages: ClassVar[Handler | None] = None
    """Handler of MessageRow; None: payloads are not opened for this rule."""
    batch: ClassVar[BatchHandler | None] = None
    """Takes many rows at once, in order, all of which have a handler, and does the same as the handlers: a call per row costs more than the
    work of most rules. If it has something to report, to emit or to ask the context, it leaves the row to its handler. When only a few rows
    come together, they go to their handlers."""

    passive: ClassVar[frozenset[Handler] | None] = None
    """Handlers that do nothing unless the rule has seen another row: for these alone it is not made, nor for its `end`, which then does
    nothing either. Empty: it is made for all its rows, but not for its `end` alone. None: it is made for both."""

    columns: ClassVar[ColumnsHandlers] = {}
    """Each does the same as the handlers for frames in columns (the dissector's own), all of which have a handler, and returns True; or it
    does nothing and returns False: the frames then come as rows, as they do without such a handler."""

    def __init__(self, context: RuleContext) -> None:
        """Begin a rule for the connection `context`."""

    def end(self, row: ConnectionRow, last: Where) -> None:
        """End the rule: the connection, or the capture, is over; `last` is the place of its last row."""


class KeyRule(NamedTuple):
    """A rule about the facts of one key across connections."""

    name: str
    idle_ns: int
    """Silence in capture time that separates the facts of a key: those before and after it are evaluated separately."""
    evaluate: Callable[[str, Sequence[Fact], ReportFinding, Thresholds], None]
    """Function of (key, facts sorted by place, report, thresholds)."""
    public: bool = False
    """True when connection rules of other dissectors also emit facts for it by name; names of public rules must be unique."""
    early: bool = False
    """True when findings about some facts remain true whatever follows: in a live run, a key is then evaluated as soon as it is quiet, and
    again at the end for further findings."""
    decides: Callable[[Fact], bool] | None = None
    """Recognises the facts that findings require: a key without such a fact is not evaluated, and there may be very many. None: all keys
    are evaluated."""
    compares: bool = False
    """True when several facts together may also cause findings, without one that decides: only a key with a single such fact is not
    evaluated."""
    journeys: Callable[[str, Sequence[Fact]], Iterable[JourneyRow]] | None = None
    """Function of (key, facts) that yields its journey rows; only called when journeys are requested. The key is then not evaluated before
    `limits.JOURNEY_IDLE_NANOSECONDS`."""
    all_legs: bool = False
    """True to also get the facts of inner legs of a path through a proxy: their value `OUTER` is the connection of the outer leg."""
