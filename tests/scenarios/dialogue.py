"""Frames given to sessions one by one, by default each in its own packet, and the resulting rows or findings."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from typing_extensions import Self

from pulsarscope.dissect.contract.capabilities import GivenSchema, PayloadDecoder
from pulsarscope.dissect.contract.dissector import Dissector
from pulsarscope.dissect.contract.dissector_rules import Rules
from pulsarscope.dissect.contract.frames import FrameBatch, KeptBytes, Origin
from pulsarscope.dissect.contract.session import SessionContext, SessionSettings
from pulsarscope.dissect.framing.splitter import StreamSplitter
from pulsarscope.engine.row_batch import Closed
from pulsarscope.engine.rule_engine import RuleEngine
from pulsarscope.engine.session_rows import SessionRows
from pulsarscope.model.flow import CLIENT, SERVER
from pulsarscope.model.records import ROWS, ConnectionRow, ExchangeRow, FindingRow, FrameRow, JourneyRow, MessageRow, Row
from pulsarscope.protocols.pulsar.dissector import PulsarDissector
from pulsarscope.protocols.pulsar.rules import RULES
from tests.scenarios.conversation import MILLISECOND, START_NS

AnyRow = TypeVar("AnyRow", bound=Row)
Steps = TypeVar("Steps", bound="_FrameSteps")

DISSECTOR = PulsarDissector(show_secrets=True)
STEP_NS = 1000
"""Time between the packets of a dialogue."""


def frames_of(dissector: Dissector, data: bytes, stream: int, connection: str) -> FrameBatch:
    """The frame of these bytes, from the client (stream 0) or the server."""
    origin = Origin(None, connection, dissector.name)
    splitter = StreamSplitter(dissector, KeptBytes(payload=True), origin=origin, stream=stream, synced=True)
    batch = FrameBatch()
    splitter.feed(0, 0, [(data, 0, 0, 0)], batch)
    splitter.finish(0, batch)
    batch.assign((CLIENT, SERVER))
    return batch.part(0, 1)


class _FrameSteps:
    """Sessions by connection, and the packets and times of their frames."""

    def __init__(self, start_ns: int, step_ns: int) -> None:
        self.packet = 0
        self._step_ns = step_ns
        self._origin_ns = start_ns
        """Time of packet 0, delayed by every wait."""
        self._sessions: dict[str, SessionRows] = {}

    def client(self, *frames: bytes, on: str = "0:1", packet: int | None = None, time: int | None = None) -> Self:
        """Feed frames of the client, each in the next packet, or all in the given one."""
        self._send(0, frames, on, packet, time)
        return self

    def server(self, *frames: bytes, on: str = "0:1", packet: int | None = None, time: int | None = None) -> Self:
        """Feed frames of the broker."""
        self._send(1, frames, on, packet, time)
        return self

    def wait(self, nanoseconds: int) -> Self:
        """Let time pass."""
        self._origin_ns += nanoseconds
        return self

    @property
    def time(self) -> int:
        """Time of the last packet, including all later waits."""
        return self._time_of(self.packet)

    def _time_of(self, packet: int) -> int:
        return self._origin_ns + packet * self._step_ns

    def _context(self, connection: str) -> SessionContext:
        raise NotImplementedError

    def _rows(self) -> list[Any]:
        return []

    def _take(self, rows: list[Any]) -> None:
        """Take the rows of a frame."""

    def _session(self, connection: str) -> SessionRows:
        if connection not in self._sessions:
            self._sessions[connection] = SessionRows(DISSECTOR, self._context(connection))
        return self._sessions[connection]

    def _send(self, stream: int, frames: tuple[bytes, ...], on: str, packet: int | None, time: int | None) -> None:
        session = self._session(on)
        for sub, data in enumerate(frames, 1):
            if packet is None:
                self.packet += 1
            batch = frames_of(DISSECTOR, data, stream, on)
            frame = batch.rows[0]
            frame.packet = self.packet if packet is None else packet
            frame.sub = 1 if packet is None else sub
            frame.time = self._time_of(frame.packet) if time is None else time
            rows = self._rows()
            session.observe(batch, rows)
            self._take(rows)


class Dialogue(_FrameSteps):
    """Rows of a single session.

    Usage: `Dialogue().client(frame).server(frame).end()`; packet n has time n × STEP_NS.
    """

    def __init__(
        self,
        *kinds: str,
        payloads: bool = False,
        payload: str | None = None,
        private_keys: tuple[RSAPrivateKey, ...] = (),
        columns: tuple[str, ...] | None = None,
        schemas: tuple[GivenSchema, ...] = (),
        decoders: tuple[tuple[str, PayloadDecoder], ...] = (),
        names: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(0, STEP_NS)
        settings = SessionSettings(frozenset(kinds or ROWS), payloads, payload, columns, private_keys, schemas, decoders, names)
        context = SessionContext(Origin(None, "0:1", DISSECTOR.name), settings)
        self.session = self._sessions["0:1"] = SessionRows(DISSECTOR, context)
        self.rows: list[Any] = []

    def end(self) -> Dialogue:
        """End the connection."""
        self.session.finish(self.rows)
        return self

    def _rows(self) -> list[Any]:
        return self.rows

    @property
    def state(self) -> Any:
        """The session of the dissector."""
        return self.session._session

    def of(self, kind: type[AnyRow]) -> list[AnyRow]:
        """Rows of a kind so far."""
        return [row for row in self.rows if isinstance(row, kind)]

    @property
    def frames(self) -> list[FrameRow]:
        """Frame rows so far."""
        return self.of(FrameRow)

    @property
    def messages(self) -> list[MessageRow]:
        """Message rows so far."""
        return self.of(MessageRow)

    @property
    def exchanges(self) -> list[ExchangeRow]:
        """Exchange rows so far."""
        return self.of(ExchangeRow)

    @property
    def codes(self) -> list[str | None]:
        """Codes of the findings so far."""
        return [row.code for row in self.of(FindingRow)]

    def described(self) -> ConnectionRow:
        """A connection row filled in by the session."""
        row = ConnectionRow()
        self.session.describe(row)
        return row


def dissector_with(rules: Rules, name: str = DISSECTOR.name) -> PulsarDissector:
    """A dissector with these rules."""
    dissector = PulsarDissector()
    dissector.name, dissector.rules = name, rules
    return dissector


class RuleDialogue(_FrameSteps):
    """Findings of rules in the dialogues of several connections.

    Usage: `RuleDialogue().client(frame).wait(SECOND).server(frame).end()`; packets are one millisecond apart. `on` names
    the connection of a step, "0:1" by default.
    """

    def __init__(self, rules: Rules = RULES, *, journeys: bool = False, thresholds: Mapping[str, float] = MappingProxyType({})) -> None:
        super().__init__(START_NS, MILLISECOND)
        self.findings: list[FindingRow] = []
        self.journeys: list[JourneyRow] = []
        self._endpoints: dict[str, tuple[str, str]] = {}
        names = _DissectorNames(self._endpoints)
        self._rule_engine = RuleEngine([dissector_with(rules)], self._endpoints, names, thresholds=thresholds, journeys=journeys)

    def report(self, code: str, text: str = "", evidence: dict[str, Any] | None = None, on: str = "0:1") -> RuleDialogue:
        """Feed a finding of the TCP layer about a connection."""
        self._session(on)
        self._take([FindingRow(None, 0, self.packet, None, self.time, on, None, code, "note", "tcp", text, evidence or {})])
        return self

    def close(self, on: str = "0:1", *findings: FindingRow) -> RuleDialogue:
        """End a connection with these findings of the TCP layer."""
        rows: list[Any] = [*findings]
        self._sessions.pop(on).finish(rows)
        rows.append(Closed(ConnectionRow(None, 0, 1, None, START_NS, on, start=START_NS, end=self.time, client_bytes=0, server_bytes=0)))
        self._take(rows)
        return self

    def end(self) -> list[FindingRow]:
        """End the capture, and return all findings."""
        for on in list(self._sessions):
            self.close(on)
        self._rule_engine.finish()
        self._take([])
        return self.findings

    def codes(self) -> list[str | None]:
        """End the capture, and return the codes of all findings."""
        return [row.code for row in self.end()]

    def _context(self, connection: str) -> SessionContext:
        self._endpoints[connection] = (f"10.0.0.{len(self._endpoints) + 1}:40000", "10.0.0.99:6650")
        return SessionContext(Origin(None, connection, DISSECTOR.name), SessionSettings(frozenset(ROWS)))

    def _take(self, rows: list[Any]) -> None:
        if rows:
            self._rule_engine.feed(rows)
        for _, row in self._rule_engine.take():
            (self.journeys if type(row) is JourneyRow else self.findings).append(row)


class _DissectorNames(dict[str, str]):
    """The name of the dissector, for every connection."""

    def __init__(self, names: dict[str, Any]) -> None:
        super().__init__()
        self._names = names

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __getitem__(self, name: str) -> str:
        return DISSECTOR.name
