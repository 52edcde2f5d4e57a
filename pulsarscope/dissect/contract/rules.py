"""The types of rules: a dissector brings them, the rule engine runs them.

A rule has one of two scopes. A `ConnectionRule` is made for one connection and sees its rows in order. A `KeyRule` looks across
connections: connection rules leave facts for it, each under a key (a ledger:entry, a topic, a producer's name, a client's host), and it
judges the facts of one key, sorted by (source, file, packet, sub), so that every way of running gives it the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

from pulsarscope.model.frame_name import frame_name
from pulsarscope.model.records import ConnectionRow, JourneyRow, Row
from pulsarscope.model.thresholds import Thresholds


class Where(NamedTuple):
    """A place in the capture: that of a frame, or of the packet of one."""

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
    """Return the place of a row; an exchange has that of its request."""
    # As the class makes it, without the call in between: there are several for each frame.
    return tuple.__new__(Where, (row.source, row.file or 0, row.packet or 0, row.sub or 0, row.time or 0, row.connection or ""))


class Fact(NamedTuple):
    """A statement of a connection rule for a key rule, which looks across connections. Facts sort by their place."""

    where: Where
    what: str
    """A word of the rule's own."""
    values: dict[str, Any]
    """Plain values: text, numbers, lists and dicts of them."""


RuleFact = tuple[str, str, Fact]
"""Fact behind the name of the key rule and the key that it is for."""

UNREAD = "unread"

OUTER = "outer"
"""Name of a value of facts of inner legs, see `KeyRule.all_legs`."""


class ReportedFinding(NamedTuple):
    """A finding of the layers below about a connection."""

    where: Where
    text: str
    evidence: dict[str, Any]


ReportFinding = Callable[[str, Where, str, dict[str, Any]], None]
"""(code, where, text, evidence): a finding. The text is one sentence with the numbers; `frames` in the evidence are names of frames."""


PackedFact = tuple[int, str, bytes, int]
"""A fact on a frame in columns: position of the frame, key, packed form, time."""


class FramesInColumns(Protocol):
    """Frames of one connection in columns, behind each other; dissectors add what their rules read (`ConnectionRule.columns`)."""

    @property
    def command(self) -> str:
        """The command that gives them their name."""

    @property
    def position(self) -> int:
        """Position of the first frame among all rows at hand."""

    def __len__(self) -> int: ...

    def commands(self) -> tuple[Iterable[str], Iterable[str]]:
        """Return the commands of the frames, and the requests of their exchanges."""

    def rows(self) -> tuple[Sequence[Row], Sequence[int]]:
        """Return the rows, and their positions among all rows at hand."""

    def row(self, place: int, /) -> tuple[Sequence[Row], Sequence[int]]:
        """Return the row at a place, and that of its exchange, if it ends one, with their positions."""

    def where_of(self, place: int, /) -> tuple[str | None, int, int, int, int, str]:
        """Return the place of a frame in the capture, as the parts of a `Where`; those of negative places count from the end."""


StretchesOf = Callable[[Sequence[Row], Sequence[int], int], Iterable[tuple[int, FramesInColumns]]]
"""Function of (rows, their positions, least) that gives frames in columns, at least so many, that stand for the rows from an index on."""


class UndecidedFacts(Protocol):
    """Facts on frames in columns that bring no finding on their own: a sequence of the compiled reader."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> PackedFact: ...

    def __iter__(self) -> Iterator[PackedFact]: ...

    @staticmethod
    def merged(batches: Sequence[UndecidedFacts]) -> UndecidedFacts:
        """Return the facts of several batches, in the order of their positions."""


class RuleContext(Protocol):
    """The connection as a rule sees it, and the ways to report."""

    connection: str
    client: str
    """Endpoint."""
    server: str

    @property
    def thresholds(self) -> Thresholds:
        """Limits that decide findings, with the values of this run."""

    @property
    def last(self) -> Where:
        """Place of the latest frame, that of the row at hand included."""

    closing: tuple[str, int] | None
    """At the end of the rule: the first "fin" or "rst", and its time. Frames of the other side may follow it."""

    @property
    def lost(self) -> bool:
        """Bytes of this connection are missing so far, or it was seen from the middle: what is absent may have been sent."""

    def reported(self, code: str) -> Sequence[ReportedFinding]:
        """Return the first few findings of this code that the layers below have reported about the connection."""

    def report(self, code: str, where: Where, text: str, evidence: dict[str, Any]) -> None:
        """Report a finding."""

    def emit_fact(self, rule: str, key: str, where: Where, what: str, values: dict[str, Any]) -> None:
        """Emit a fact for the key rule of this name."""

    def emit_facts(self, rule: str, keys: Sequence[str], where: Where, what: str, values: dict[str, Any]) -> None:
        """Emit one and the same fact for several keys, at least one."""

    def emit_packed(self, rule: str, facts: UndecidedFacts | list[PackedFact]) -> None:
        """Emit facts on frames in columns for the key rule of this name: it decides by others."""


Handler = Callable[[Any, Any], None]
"""A method of a rule: (the rule, a row)."""

Handlers = Mapping[str, Handler]
"""Handlers by the name of what they handle: "" is that of frames without a command, "*" stands for all other names."""

BatchHandler = Callable[[Any, Sequence[Any], Callable[[int], None]], None]
"""A method of a rule: (the rule, rows, the function that hands the row with an index to its handler)."""


ColumnsHandler = Callable[[Any, Any, Callable[[int], None]], bool]
"""A method of a rule: (the rule, frames in columns, the function that hands the frame at a place, and its exchange, to their handlers)."""

ColumnsHandlers = Mapping[str, ColumnsHandler]
"""By the command that gives frames in columns their name."""


class ConnectionRule:
    """A rule about one connection; it is made when the first row comes that it handles, or for its `end`, if it has one; see `passive`.

    Its state is bounded by constants with a reason each, and holds no row: an output may change it. It can be pickled, as a session can.
    """

    __slots__ = ()

    frames: ClassVar[Handlers] = {}
    """Handlers of FrameRow by command: only these frames are seen."""
    exchanges: ClassVar[Handlers] = {}
    """Handlers of ExchangeRow by request command; "*" stands for responses without a request, too."""
    messages: ClassVar[Handler | None] = None
    """Handler of MessageRow; None: payloads are not opened for this rule."""
    batch: ClassVar[BatchHandler | None] = None
    """Takes many rows at once, in their order, all with a handler, and does what the handlers do of each: a call for a row costs more than
    what most rules do of one. Where it has something to report, to emit or to ask the context, it leaves the row to its handler. Few rows
    that come together go to their handlers."""

    passive: ClassVar[frozenset[Handler] | None] = None
    """Handlers that do nothing to a rule that has met no other row: for these alone it is not made, nor for its `end`, which then does
    nothing either. None: it is made for all, and for its `end`."""

    columns: ClassVar[ColumnsHandlers] = {}
    """Each does what the handlers do of frames in columns (a dissector's own), all with a handler, and returns True; or nothing, and
    returns False: they then come as rows, as they do to a rule without one."""

    def __init__(self, context: RuleContext) -> None:
        """Begin; `context` is the connection."""

    def end(self, row: ConnectionRow, last: Where) -> None:
        """End: the connection is over, or the capture is; `last` is the place of its last row."""


class KeyRule(NamedTuple):
    """A rule about the facts of one key across connections."""

    name: str
    idle_ns: int
    """Silence of capture time that parts the facts of a key: those before and behind it are evaluated apart."""
    evaluate: Callable[[str, Sequence[Fact], ReportFinding, Thresholds], None]
    """Function of (key, facts sorted by place, report, thresholds)."""
    public: bool = False
    """Connection rules of other dissectors emit facts for it, too, by its name; no two public ones have the same."""
    early: bool = False
    """Findings about some facts stay true whatever follows them: in a live run a key is evaluated as soon as it is quiet, and again in the
    end for further findings."""
    decides: Callable[[Fact], bool] | None = None
    """Tells the facts that findings need: a key of which no fact is one is not evaluated, and there may be very many. None: all are."""
    compares: bool = False
    """Findings come of several facts, too, of which none decides: only a key with one such fact alone is not evaluated."""
    journeys: Callable[[str, Sequence[Fact]], Iterable[JourneyRow]] | None = None
    """Function of (key, facts) that gives its rows of the kind journey; only called when those are asked for. The key is then not evaluated
    before `limits.JOURNEY_IDLE_NANOSECONDS`."""
    all_legs: bool = False
    """True to get the facts of inner legs of a path through a proxy, too: `OUTER` among their values is the connection of the outer leg."""
