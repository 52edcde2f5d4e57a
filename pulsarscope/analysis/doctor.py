"""Runs the rules of the dissectors over rows, in the order in which the rows come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pulsarscope.analysis.facts import Facts
from pulsarscope.findings import join_codes
from pulsarscope.records import ConnectionRow, ExchangeRow, FindingRow, FrameRow, MessageRow
from pulsarscope.wire.rules import ConnectionRule, Fact, KeyRule, Rules, Where, where_of

LOSS_CODES = frozenset({"stream-gap", "midstream-start", "memory-cap", "packets-dropped"})
"""Findings that say that something is missing: what was not seen may have been said."""


class Patient:
    """One connection: its rules, and their voice (see `wire.rules.Voice`)."""

    def __init__(
        self, connection: str, endpoints: tuple[str, str], doctor: Doctor, makers: Sequence[Callable[[Any], ConnectionRule]]
    ) -> None:
        self.connection = connection
        self.client, self.server = endpoints
        self.lost = False
        self._doctor = doctor
        self.last = Where(None, 0, 0, 0, 0, connection)
        self.rules = [make(self) for make in makers]
        self.frames: dict[str, list[Callable[[Any], None]]] = {}
        self.exchanges: dict[str, list[Callable[[Any], None]]] = {}
        self.messages = [rule.messages for rule in self.rules if rule.messages is not None]

    def say(self, code: str, where: Where, text: str, evidence: dict[str, Any]) -> None:
        """See `Voice`."""
        self._doctor.say(code, where, text, evidence)

    def tell(self, rule: str, key: str, where: Where, what: str, values: dict[str, Any]) -> None:
        """See `Voice`."""
        self._doctor.facts.add(rule, key, Fact(where, what, values))

    def frame_handlers(self, command: str) -> list[Callable[[Any], None]]:
        """Who wants frames of this command."""
        found = self.frames.get(command)
        if found is None:
            found = self.frames[command] = _handlers([rule.frames for rule in self.rules], command)
        return found

    def exchange_handlers(self, request: str) -> list[Callable[[Any], None]]:
        """Who wants exchanges of this request."""
        found = self.exchanges.get(request)
        if found is None:
            found = self.exchanges[request] = _handlers([rule.exchanges for rule in self.rules], request)
        return found


def _handlers(tables: Iterable[Mapping[str, Callable[[Any], None]]], name: str) -> list[Callable[[Any], None]]:
    return [handler for table in tables if (handler := table.get(name) or table.get("*")) is not None]


class Doctor:
    """Feed it all rows of a run in their order (frames, exchanges, messages, connections and findings), then finish it."""

    def __init__(self, rules: Mapping[str, Rules], endpoints: Mapping[str, tuple[str, str]], dissector_of: Mapping[str, str]) -> None:
        """`rules` by dissector name; client and server, and the name of its dissector, of each connection that is recognised."""
        self._rules = rules
        self._codes = join_codes(found.codes for found in rules.values())
        self._endpoints = endpoints
        self._dissector_of = dissector_of
        self._patients: dict[str, Patient] = {}
        self._said: list[FindingRow] = []
        keys: dict[str, KeyRule] = {rule.name: rule for found in rules.values() for rule in found.keys}
        self.facts = Facts(keys, self.say)

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of rows that must be fed."""
        kinds = {FrameRow.kind, ExchangeRow.kind, ConnectionRow.kind, FindingRow.kind}
        return frozenset(kinds | {MessageRow.kind} if any(found.messages for found in self._rules.values()) else kinds)

    def say(self, code: str, where: Where, text: str, evidence: dict[str, Any]) -> None:
        """Make a finding."""
        known = self._codes[code]
        source, file, packet, sub, time, connection = where
        row = FindingRow(source, file, packet, sub, time, connection, code, known.severity, known.layer, text, evidence, known.hint)
        self._said.append(row)

    def feed(self, rows: Iterable[Any]) -> list[FindingRow]:
        """The findings that these rows bring about."""
        patients = self._patients
        latest = None
        for row in rows:
            kind = type(row)
            name = getattr(row, "connection", None)
            if name is None:
                continue
            patient = patients.get(name)
            if patient is None:
                if name not in self._dissector_of:
                    continue
                patient = patients[name] = Patient(name, self._endpoints[name], self, self._rules[self._dissector_of[name]].connection)
            if kind is FindingRow:
                patient.lost = patient.lost or row.code in LOSS_CODES
            elif kind is ConnectionRow:
                self._end(patients.pop(name), row)
            elif isinstance(row, FrameRow):
                latest = row
                patient.last = where_of(row)
                for handler in patient.frame_handlers(row.command or ""):
                    handler(row)
            elif kind is ExchangeRow:
                for handler in patient.exchange_handlers(row.request or ""):
                    handler(row)
            elif kind is MessageRow:
                for handler in patient.messages:
                    handler(row)
        if latest is not None:
            self.facts.advance(latest.time or 0)
        return self._take()

    def finish(self) -> list[FindingRow]:
        """The capture has ended: the keys that still wait are judged."""
        self.facts.finish()
        return self._take()

    def _end(self, patient: Patient, row: ConnectionRow) -> None:
        for rule in patient.rules:
            rule.end(row, patient.last)

    def _take(self) -> list[FindingRow]:
        said, self._said = self._said, []
        return said
