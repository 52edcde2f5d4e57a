"""Rules that judge what was said: small ones, which a dissector brings and the analysis engine runs.

A rule has one of two scopes. A `ConnectionRule` is made for one connection and sees its rows in order. A `KeyRule` looks across
connections: connection rules leave facts for it, each under a key (a ledger:entry, a topic, a producer's name, a client's host), and it
judges the facts of one key, sorted by (source, file, packet, sub), so that every way of running gives it the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

from pulsarscope.model.findings import Code
from pulsarscope.model.records import ConnectionRow, Row


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
        return f"{self.file}:{self.packet}.{self.sub}"


def where_of(row: Row) -> Where:
    """The place of a row."""
    # As the class makes it, without the call in between: there are several for each frame.
    return tuple.__new__(Where, (row.source, row.file or 0, row.packet or 0, row.sub or 0, row.time or 0, row.connection or ""))


class Fact(NamedTuple):
    """What a frame tells a rule that looks across connections. Facts sort by their place."""

    where: Where
    what: str
    """A word of the rule's own."""
    values: dict[str, Any]
    """Plain values: text, numbers, lists and dicts of them."""


class ReportedFinding(NamedTuple):
    """A finding of the layers below about a connection."""

    where: Where
    text: str
    evidence: dict[str, Any]


ReportFinding = Callable[[str, Where, str, dict[str, Any]], None]
"""(code, where, text, evidence): a finding. The text is one sentence with the numbers; `frames` in the evidence are names of frames."""


class RuleContext(Protocol):
    """What the engine gives a connection rule: how to speak, and what is known of the connection."""

    connection: str
    client: str
    """Endpoint."""
    server: str

    @property
    def lost(self) -> bool:
        """Whether bytes of this connection are missing so far, or it was seen from the middle: what is absent may have been said."""

    def reported(self, code: str) -> Sequence[ReportedFinding]:
        """The findings of this code that the layers below have said about this connection: the first few of them."""

    def report(self, code: str, where: Where, text: str, evidence: dict[str, Any]) -> None:
        """A finding."""

    def emit_fact(self, rule: str, key: str, where: Where, what: str, values: dict[str, Any]) -> None:
        """A fact for the key rule of this name."""


Handler = Callable[[Any, Any], None]
"""A method of a rule: (the rule, a row)."""

Handlers = Mapping[str, Handler]
"""By the name of what they handle; "*" stands for all other names."""


class ConnectionRule:
    """Judges one connection; it is made when the first row comes that it handles, or at the end of the connection.

    Its state is bounded by constants with a reason each, and holds no row: an output may change it. It can be pickled, as a session can.
    """

    frames: ClassVar[Handlers] = {}
    """Of FrameRow by command: only these frames are seen."""
    exchanges: ClassVar[Handlers] = {}
    """Of ExchangeRow by request command; "*" stands for responses without a request, too."""
    messages: ClassVar[Handler | None] = None
    """Of MessageRow; None: none are needed, and payloads are not opened for this rule."""

    def __init__(self, context: RuleContext) -> None:
        """`context`: speaks for the connection."""

    def end(self, row: ConnectionRow, last: Where) -> None:
        """The connection has ended, or the capture has; `last` is the place of its last row."""


class KeyRule(NamedTuple):
    """Judges the facts of one key across connections."""

    name: str
    idle_ns: int
    """A key without a fact for so long of capture time is judged and forgotten; later facts begin anew."""
    evaluate: Callable[[str, Sequence[Fact], ReportFinding], None]
    """Called with the facts of a key, sorted."""
    early: bool = False
    """What it says of some facts stays true whatever follows them: when someone watches, a key is judged as soon as it is quiet, and once
    more in the end, for what else there is to say."""


class Rules(NamedTuple):
    """The rules of a dissector."""

    codes: dict[str, Code]
    """The finding codes that they say."""
    connection: tuple[type[ConnectionRule], ...] = ()
    keys: tuple[KeyRule, ...] = ()
    messages: bool = False
    """Whether any rule wants MessageRows: payloads are then opened."""
