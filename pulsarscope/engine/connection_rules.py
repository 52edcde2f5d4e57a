"""The rules of one connection: passes its rows to the handlers of each rule, and their effects to the rule engine."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from functools import partial
from sys import intern
from typing import Any, NamedTuple, Protocol

import msgspec

from pulsarscope.dissect.contract.generic_codes import RULE_FAILED
from pulsarscope.dissect.contract.rules import (
    BatchFact,
    BatchHandler,
    ConnectionRule,
    Fact,
    FramesInColumns,
    Handler,
    PackedFact,
    ReportedFinding,
    UndecidedFacts,
    Where,
    where_of,
)
from pulsarscope.engine.rule_set import Calls, RuleSet
from pulsarscope.model.bounded_tables import NOTHING
from pulsarscope.model.findings import COPIED, LOSS_CODES, ONE_SIDED
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FindingRow, FrameRow, Row
from pulsarscope.model.thresholds import Thresholds

REPORTED_MAX = 104
"""Findings of one code that a connection's rules can look up: as many as both streams report individually, and their totals."""

BATCH_MIN = 24
"""Minimum number of rows that a rule gets as a batch: for fewer, its handlers take no longer."""

ALL = range(1 << 30)
"""Positions of all rules."""

Order = tuple[int, int]
"""Position of a row among the current ones, and of the rule."""


class _FailedRule(ConnectionRule):
    """Placeholder of a rule that raised: without state or handlers, it reports nothing."""

    def __init__(self) -> None:
        """Keep no state."""


class RuleOutput(Protocol):
    """The part of the rule engine that the rules of a connection use."""

    lost: bool
    """True when bytes of the capture are missing so far."""

    def report_of(self, order: Order, dissector: str, code: str, where: Where, text: str, evidence: dict[str, Any]) -> None:
        """Make a finding, with its place among the effects of the current rows."""

    def emit_packed_of(self, number: int, name: str, facts: UndecidedFacts | list[PackedFact]) -> None:
        """Take facts of the rule at a position that cause no finding on their own."""

    def emit_facts_of(self, order: Order, name: str, keys: Sequence[str], fact: Fact) -> None:
        """Take the same fact for each of these keys, like `emit_fact_of`."""

    def emit_fact_of(self, order: Order, name: str, key: str, fact: Fact) -> None:
        """Take a fact, with its place among the effects of the current rows."""


class ConnectionRules:
    """The rules of one connection, and their `dissect.contract.rules.RuleContext`."""

    __slots__ = (
        "_at",
        "_indexes",
        "_last",
        "_latest",
        "_number",
        "_output",
        "_positions",
        "_reported",
        "_rows",
        "_rules",
        "_stretches",
        "client",
        "closing",
        "rule_set",
        "server",
    )

    def __init__(self, connection: str, endpoints: tuple[str, str], output: RuleOutput, rule_set: RuleSet) -> None:
        self.client, self.server = endpoints[0], intern(endpoints[1])
        self.rule_set = rule_set
        self.closing: tuple[str, int] | None = None
        self._output = output
        self._reported: dict[str, list[ReportedFinding]] = NOTHING
        self._rules: list[ConnectionRule | None] = [None] * len(rule_set.rules)
        self._last = Where(None, 0, 0, 0, 0, connection)
        """Place of the last frame before the current rows."""
        self._latest = self._last
        """Place that was requested last: rules keep it, for each of very many connections."""
        self._rows: Sequence[Row] = ()
        """Current rows, one of which is being handled."""
        self._positions: Sequence[int] = ()
        """Positions of the current rows among those of all connections."""
        self._at = self._number = 0
        """Index of the row being handled, and position of the rule."""
        self._indexes: Sequence[int] = ()
        """Indexes of the rows of the current batch among the current rows."""
        self._stretches = rule_set.stretches

    @property
    def connection(self) -> str:
        """See `RuleContext`."""
        return self._last.connection

    @property
    def thresholds(self) -> Thresholds:
        """See `RuleContext`."""
        return self.rule_set.thresholds

    @property
    def lost(self) -> bool:
        """See `RuleContext`."""
        return self._output.lost or (bool(self._reported) and not LOSS_CODES.isdisjoint(self._reported))

    @property
    def last(self) -> Where:
        """See `RuleContext`."""
        rows = self._rows
        for at in range(min(self._at, len(rows) - 1), -1, -1):
            if isinstance(rows[at], FrameRow):
                where = where_of(rows[at])
                if where != self._latest:
                    self._latest = where
                return self._latest
        return self._last

    def add_finding(self, row: FindingRow, sender: str | None) -> None:
        """Keep a finding of the layers below about the connection, or the stream of one side."""
        self._reported = self._reported or {}
        reported = self._reported.setdefault(row.code, [])
        if len(reported) < REPORTED_MAX:
            reported.append(ReportedFinding(where_of(row), sender, dict(row.evidence or {})))

    def reported(self, code: str) -> Sequence[ReportedFinding]:
        """See `RuleContext`."""
        return self._reported.get(code, ())

    def report(self, code: str, where: Where, text: str, evidence: dict[str, Any]) -> None:
        """See `RuleContext`."""
        if ONE_SIDED in self._reported and code in self.rule_set.needs_both:
            return
        order = self._positions[self._at], self._number
        self._output.report_of(order, self.rule_set.dissector.name, code, where, text, evidence)

    def emit_fact(self, rule: str, key: str, where: Where, what: str, values: dict[str, Any]) -> None:
        """See `RuleContext`."""
        name = self.rule_set.key_names.get(rule)
        if name is not None:
            fact = tuple.__new__(Fact, (where, what, values))  # same as calling the class, without a call in between
            self._output.emit_fact_of((self._positions[self._at], self._number), name, key, fact)
        elif rule not in self.rule_set.other_keys:
            raise KeyError(f"no key rule {rule}")

    def emit_facts(self, rule: str, keys: Sequence[str], where: Where, what: str, values: dict[str, Any]) -> None:
        """See `RuleContext`."""
        name = self.rule_set.key_names.get(rule)
        if name is not None:
            self._output.emit_facts_of((self._positions[self._at], self._number), name, keys, Fact(where, what, values))
        elif rule not in self.rule_set.other_keys:
            raise KeyError(f"no key rule {rule}")

    def emit_batch(self, rule: str, facts: Sequence[BatchFact]) -> None:
        """See `RuleContext`."""
        name, emit, number = self.rule_set.key_names[rule], self._output.emit_fact_of, self._number
        positions, indexes = self._positions, self._indexes
        for index, key, *fact in facts:
            emit((positions[indexes[index]], number), name, key, tuple.__new__(Fact, fact))

    def handle_columns(self, stretch: FramesInColumns) -> None:
        """Pass frames in columns to the rules that accept them, and their rows to all others."""
        frames, exchanges = stretch.commands()
        left: set[int] = set()
        for number in self.rule_set.numbers(frames, exchanges):
            self._number, self._rows, self._positions, self._at = number, (), (stretch.position,), 0
            kind = self.rule_set.rules[number]
            if (columns := kind.columns.get(stretch.command)) is None:
                left.add(number)
                continue
            try:
                rule = self._rules[number]
                if rule is None:
                    rule = self._rules[number] = kind(self)
                if not (isinstance(rule, _FailedRule) or columns(rule, stretch, partial(self._hand_one, rule, stretch))):
                    left.add(number)
            except Exception as error:  # noqa: BLE001 - other people's code
                self._fail(number, error, self._where_in(stretch))
        if left:
            rows, positions = stretch.rows()
            self.handle(rows, positions, [*map(self.rule_set.calls, rows)], left)
        self._last = Where(*stretch.where_of(-1))
        self._rows = self._positions = ()

    def _where_in(self, stretch: FramesInColumns) -> Where:
        """Return the place of the row being handled, or else of the first frame."""
        return where_of(self._rows[self._at]) if self._rows else Where(*stretch.where_of(0))

    def _hand_one(self, rule: ConnectionRule, stretch: FramesInColumns, place: int) -> None:
        """Pass the frame at a place, and the exchange that it ends, to the handlers of a rule."""
        self._rows, self._positions = stretch.row(place)
        for at, row in enumerate(self._rows):
            self._at = at
            if type(row) is ExchangeRow:
                handler = rule.exchanges.get(row.request or "") or rule.exchanges.get("*")
            else:
                handler = rule.frames.get(getattr(row, "command", "")) or rule.frames.get("*")
            if handler is not None:
                handler(rule, row)
        self._rows, self._positions, self._at = (), (stretch.position,), 0

    def emit_packed(self, rule: str, facts: UndecidedFacts | list[PackedFact]) -> None:
        """See `RuleContext`."""
        self._output.emit_packed_of(self._number, self.rule_set.key_names[rule], facts)

    def handle_all(self, rows: Sequence[Row], positions: Sequence[int], calls: Sequence[Calls], least: int) -> None:
        """Pass rows to their handlers; runs of at least `least` rows that can be put into columns are passed as columns."""
        begin = 0
        try:
            for start, stretch in () if self._stretches is None or len(rows) < least else self._stretches(rows, positions, least):
                if begin < start:
                    self.handle(rows[begin:start], positions[begin:start], calls[begin:start])
                begin = start + len(stretch)
                self.handle_columns(stretch)
        except Exception as error:  # noqa: BLE001 - other people's code: what handles rows catches its own
            self._stretches = None
            self._number, self._rows, self._positions, self._at = 0, rows, positions, min(begin, len(rows) - 1)
            self.report(RULE_FAILED, where_of(rows[self._at]), *self.rule_set.failed("rules", error))
        if begin < len(rows):
            self.handle(rows[begin:], positions[begin:], calls[begin:]) if begin else self.handle(rows, positions, calls)

    def handle(self, rows: Sequence[Row], positions: Sequence[int], calls: Sequence[Calls], chosen_rules: Container[int] = ALL) -> None:
        """Pass rows to their handlers, rule by rule: rules do not see each other's state."""
        self._rows, self._positions = rows, positions
        rules, kinds, of_rows = self._rules, self.rule_set.rules, [*map(id, calls)]
        batches: dict[int, Sequence[Row]] = {}
        for number, handlers, indexes, passive in self.rule_set.steps(of_rows, calls):
            if chosen_rules is not ALL and number not in chosen_rules:
                continue
            rule = rules[number]
            if passive and rule is None:
                continue
            self._number, self._at = number, indexes[0]
            try:
                if rule is None:
                    rule = rules[number] = kinds[number](self)
                if len(indexes) >= BATCH_MIN and (batch := type(rule).batch) is not None:
                    if (of_batch := batches.get(id(indexes))) is None:  # several rules handle the same rows
                        of_batch = batches[id(indexes)] = rows if len(indexes) == len(rows) else [*map(rows.__getitem__, indexes)]
                    self._hand_out(batch, rule, handlers, indexes, of_rows, of_batch)
                    continue
                for at in indexes:
                    self._at = at
                    handlers[of_rows[at]](rule, rows[at])
            except Exception as error:  # noqa: BLE001 - other people's code
                self._fail(number, error, where_of(rows[self._at]))
        self._at = len(rows) - 1
        self._last = self.last
        self._rows = self._positions = ()

    def _hand_out(
        self,
        batch: BatchHandler,
        rule: ConnectionRule,
        handlers: Mapping[int, Handler],
        indexes: Sequence[int],
        of_rows: Sequence[int],
        of_batch: Sequence[Row],
    ) -> None:
        """Pass the rows with these indexes, all at once, to a rule that takes batches."""
        rows, self._indexes = self._rows, indexes

        def handle(number: int) -> None:
            self._at = at = indexes[number]
            handlers[of_rows[at]](rule, rows[at])

        batch(rule, of_batch, handle)

    def _fail(self, number: int, error: Exception, where: Where) -> None:
        """Report an exception of the rule at this position, and disable the rule."""
        if isinstance(self._rules[number], _FailedRule):
            return
        self._rules[number] = _FailedRule()
        self.report(RULE_FAILED, where, *self.rule_set.failed(self.rule_set.rules[number].__name__, error))

    def end(self, row: ConnectionRow, position: int) -> None:
        """End the rules of the connection, and drop them: they refer to it, and the cycle collector runs rarely."""
        if COPIED in self._reported and self.last.time:
            row = msgspec.structs.replace(row, end=self.last.time)  # copies of its packets may have another clock
        self._positions, self._at = (position,), 0
        last, rules = self.last, self._rules
        for number, made in self.rule_set.ending:
            self._number, rule = number, rules[number]
            try:
                if rule is not None:
                    rule.end(row, last)
                elif made is not None:
                    made(self).end(row, last)
            except Exception as error:  # noqa: BLE001 - other people's code
                self._fail(number, error, last)
        self._rules.clear()


class WaitingRows(NamedTuple):
    """Rows of one connection, with their positions among the current ones, and their handlers."""

    rules: ConnectionRules
    rows: list[Row]
    positions: list[int]
    calls: list[Calls]

    def handle(self, least: int) -> None:
        """Pass the rows to their handlers; for `least` see `ConnectionRules.handle_all`."""
        self.rules.handle_all(self.rows, self.positions, self.calls, least)
