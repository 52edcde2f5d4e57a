"""Frames of several connections, told step by step and brought before the rules: what they find."""

from __future__ import annotations

from typing import Any

from pulsarscope.dissect.frames import Origin
from pulsarscope.dissect.rules import Rules
from pulsarscope.dissect.session import SessionContext
from pulsarscope.engine.pairing import Pairing
from pulsarscope.engine.rule_engine import Closed, RuleEngine
from pulsarscope.engine.session_rows import SessionRows
from pulsarscope.model.records import ROWS, ConnectionRow, FindingRow
from pulsarscope.protocols.pulsar.dissector import PulsarDissector
from pulsarscope.protocols.pulsar.rules import RULES
from tests.scenarios.dialogue import DISSECTOR, frames_of

MILLISECOND = 1_000_000
SECOND = 1_000 * MILLISECOND
START = 1_700_000_000 * SECOND
"""The capture's first moment: the default publish_time of encoded messages."""


def ruled(rules: Rules, name: str = DISSECTOR.name) -> PulsarDissector:
    """A dissector with these rules."""
    dissector = PulsarDissector()
    dissector.name, dissector.rules = name, rules
    return dissector


class Examination:
    """Usage: `Examination().client(frame).wait(SECOND).server(frame).end()`; each frame has a packet of its own, one millisecond on.

    Connections are named by `on`; that of the steps that name none is "0:1".
    """

    def __init__(self, rules: Rules = RULES) -> None:
        self.packet = 0
        self.time = START
        self.found: list[FindingRow] = []
        self._sessions: dict[str, Any] = {}
        self._endpoints: dict[str, tuple[str, str]] = {}
        self._doctor = RuleEngine([ruled(rules)], self._endpoints, _Always(self._endpoints))

    def client(self, *frames: bytes, on: str = "0:1") -> Examination:
        """The client sends these."""
        return self._give(0, frames, on)

    def server(self, *frames: bytes, on: str = "0:1") -> Examination:
        """The broker sends these."""
        return self._give(1, frames, on)

    def wait(self, nanoseconds: int) -> Examination:
        """Time passes."""
        self.time += nanoseconds
        return self

    def hear(self, code: str, text: str = "", evidence: dict[str, Any] | None = None, on: str = "0:1") -> Examination:
        """A layer below finds something about a connection."""
        self._session(on)
        row = FindingRow(None, 0, self.packet, None, self.time, on, None, code, "note", "tcp", text, evidence or {})
        self._doctor.feed([row])
        self._take()
        return self

    def close(self, on: str = "0:1", *found: FindingRow) -> Examination:
        """A connection ends; what is found at its end stands behind its row."""
        rows: list[Any] = []
        self._sessions.pop(on).finish(rows)
        rows.append(Closed(ConnectionRow(None, 0, 1, None, START, on, start=START, end=self.time)))
        self._doctor.feed([*rows, *found])
        self._take()
        return self

    def end(self) -> list[FindingRow]:
        """The capture ends: all findings."""
        for on in list(self._sessions):
            self.close(on)
        self._doctor.finish()
        self._take()
        return self.found

    def codes(self) -> list[str | None]:
        """The capture ends: codes of all findings."""
        return [row.code for row in self.end()]

    def _session(self, on: str) -> Any:
        if on not in self._sessions:
            self._endpoints[on] = (f"10.0.0.{len(self._endpoints) + 1}:40000", "10.0.0.99:6650")
            context = SessionContext(Origin(None, on, DISSECTOR.name), frozenset(ROWS), Pairing(), payload=None, payloads=False)
            self._sessions[on] = SessionRows(DISSECTOR, context)
        return self._sessions[on]

    def _take(self) -> None:
        self.found += [row for _, row in self._doctor.take()]

    def _give(self, stream: int, frames: tuple[bytes, ...], on: str) -> Examination:
        session = self._session(on)
        for data in frames:
            self.packet += 1
            self.time += MILLISECOND
            batch = frames_of(DISSECTOR, data, stream, on)
            frame = batch.rows[0]
            frame.packet, frame.sub, frame.time = self.packet, 1, self.time
            rows: list[Any] = []
            session.observe(batch, rows)
            self._doctor.feed(rows)
            self._take()
        return self


class _Always(dict[str, str]):
    """The name of the dissector, of every connection."""

    def __init__(self, names: dict[str, Any]) -> None:
        super().__init__()
        self._names = names

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __getitem__(self, name: str) -> str:
        return DISSECTOR.name
