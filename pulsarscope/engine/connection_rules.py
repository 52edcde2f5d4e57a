"""The rules of one connection: passes its rows to the handlers of each rule, and their effects to the rule engine."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from sys import intern
from typing import Any, Protocol

import msgspec

from pulsarscope.dissect.contract.dissector import Dissector
from pulsarscope.dissect.contract.dissector_rules import Rules
from pulsarscope.dissect.contract.generic_codes import GENERIC_CODES, RULE_FAILED
from pulsarscope.dissect.contract.legs import ANCHOR
from pulsarscope.dissect.contract.rules import (
    BatchHandler,
    ConnectionRule,
    Fact,
    FramesInColumns,
    Handler,
    Handlers,
    KeyRule,
    PackedFact,
    ReportedFinding,
    ReportFinding,
    UndecidedFacts,
    Where,
    where_of,
)
from pulsarscope.dissect.plugins.isolation import failure
from pulsarscope.model.bounded_tables import NOTHING
from pulsarscope.model.findings import COPIED, LOSS_CODES, ONE_SIDED, Finding
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FindingRow, FrameRow, JourneyRow, Row
from pulsarscope.model.thresholds import Thresholds

REPORTED_MAX = 52
"""Findings of one code that a connection's rules can look up: as many as both streams report individually, and their totals."""

PLANS_MAX = 256
"""Sets of commands in batches that are cached with the rules that handle them."""

SEQUENCES_MAX, SEQUENCE_ROWS_MAX = 1_024, 64
"""Sequences of commands that are cached likewise, and rows of one sequence: many short connections have the same."""

BATCH_MIN = 24
"""Minimum number of rows that a rule gets as a batch: for fewer, its handlers take no longer."""

ALL = range(1 << 30)
"""Positions of all rules."""

Calls = Sequence[tuple[int, Handler]]
"""Handlers of a row, each with the position of its rule."""


Plan = list[tuple[int, dict[int, Handler], frozenset[int], bool]]
"""Positions of rules in order, each with its handlers by the identity of the calls, these identities, and whether all are passive."""


Steps = list[tuple[int, dict[int, Handler], Sequence[int], bool]]
"""Positions of rules in order, each with its handlers, the indexes of the rows that it handles, and whether all are passive."""


Order = tuple[int, int]
"""Position of a row among the current ones, and of the rule."""


class _FailedRule(ConnectionRule):
    """Placeholder of a rule that raised: without state or handlers, it reports nothing."""

    def __init__(self) -> None:
        """Keep no state."""


class RuleSet:
    """The rules of a dissector, and their handlers by row: the same for all connections."""

    def __init__(self, dissector: Dissector, rules: Rules, thresholds: Mapping[str, float]) -> None:
        self.dissector = dissector
        self.codes = {**GENERIC_CODES, **rules.codes}
        self.thresholds = Thresholds(rules.thresholds, thresholds)
        self._table = rules.thresholds
        self._deciding: dict[str, dict[str, Any]] = {}
        """Thresholds of the codes reported so far, for the evidence."""
        self.wants_messages = rules.messages
        self.unread = rules.unread
        self.describe_legs = rules.legs
        self.stretches = rules.stretches
        self.legs = f"{dissector.name}:{ANCHOR}"
        """Name of the anchors of its connections among the facts."""
        self.needs_both = rules.needs_both
        self.keys = {f"{dissector.name}:{rule.name}": rule for rule in rules.keys}
        """Rules across connections; their own names are unique only within a dissector."""
        self.other_keys = rules.other_keys
        self.key_names = {rule.name: name for name, rule in self.keys.items()}
        self.rules = rules.connection
        self.frames, self.exchanges = _calls_of(rules.connection)
        ending = [(number, rule) for number, rule in enumerate(rules.connection) if rule.end is not ConnectionRule.end]
        self.ending = [(number, rule if rule.passive is None else None) for number, rule in ending]
        """Positions of the rules that act at the end of a connection, each with its class if it is made for this."""
        self.messages = [(number, rule.messages) for number, rule in enumerate(rules.connection) if rule.messages is not None]
        self._plans: dict[frozenset[int], Plan] = {}
        self._steps: dict[tuple[int, ...], Steps] = {}

    def numbers(self, frames: Iterable[str], exchanges: Iterable[str]) -> list[int]:
        """Return the positions of the rules that handle frames of these commands, or exchanges with these requests."""
        calls = [*(self.frames[command] for command in frames), *(self.exchanges[request] for request in exchanges)]
        return sorted({number for each in calls for number, _ in each})

    def calls(self, row: Row) -> Calls:
        """Return the handlers of a frame or exchange row."""
        return self.exchanges[row.request or ""] if type(row) is ExchangeRow else self.frames[getattr(row, "command", "") or ""]

    def steps(self, of_rows: Sequence[int], calls: Sequence[Calls]) -> Steps:
        """Return the steps of rules for rows with these calls, whose identities are `of_rows`."""
        sequence = tuple(of_rows) if len(of_rows) <= SEQUENCE_ROWS_MAX else ()
        if (steps := self._steps.get(sequence)) is None:
            chosen: dict[frozenset[int], Sequence[int]] = {}
            steps = []
            for number, handlers, kinds, passive in self._plan(frozenset(of_rows), calls):
                if (indexes := chosen.get(kinds)) is None:
                    indexes = chosen[kinds] = [at for at, kind in enumerate(of_rows) if kind in kinds]
                steps.append((number, handlers, indexes, passive))
            if sequence and len(self._steps) < SEQUENCES_MAX:
                self._steps[sequence] = steps
        return steps

    def _plan(self, identities: frozenset[int], calls: Sequence[Calls]) -> Plan:
        """Return the rules that handle rows with these calls, in any order."""
        if (plan := self._plans.get(identities)) is None:
            by_rule: dict[int, dict[int, Handler]] = {}
            for identity, each in {id(each): each for each in calls}.items():
                for number, handler in each:
                    by_rule.setdefault(number, {})[identity] = handler
            plan = [
                (number, handlers, frozenset(handlers), set(handlers.values()) <= (self.rules[number].passive or frozenset()))
                for number, handlers in sorted(by_rule.items())
            ]
            if len(self._plans) < PLANS_MAX:
                self._plans[identities] = plan
        return plan

    def evaluate(self, rule: KeyRule, key: str, facts: Sequence[Fact], report: ReportFinding) -> None:
        """Evaluate the facts of one key; an exception of the rule becomes a finding at the last fact."""
        try:
            rule.evaluate(key, facts, report, self.thresholds)
        except Exception as error:  # noqa: BLE001 - other people's code
            report(RULE_FAILED, facts[-1].where, *self.failed(rule.name, error))

    def journeys(self, rule: KeyRule, key: str, facts: Sequence[Fact], add: Callable[[JourneyRow], None], report: ReportFinding) -> None:
        """Add the journeys in all facts of one key; otherwise like `evaluate`."""
        try:
            for row in rule.journeys(key, facts) if rule.journeys is not None else ():
                row.dissector = self.dissector.name
                add(row)
        except Exception as error:  # noqa: BLE001 - other people's code
            report(RULE_FAILED, facts[-1].where, *self.failed(rule.name, error))

    def finding(self, code: str, where: Where, text: str, evidence: dict[str, Any]) -> Finding:
        """Return a finding of the rules. Its evidence names the thresholds of its code, unless the rule states which ones decided."""
        _, file, packet, sub, time, connection = where
        if (deciding := self._deciding.get(code)) is None:
            names = [threshold.name for threshold in self._table if code in threshold.codes]
            deciding = self._deciding[code] = self.thresholds.evidence(*names) if names else {}
        decided = evidence | deciding | evidence
        if not decided.get("threshold", True):
            del decided["threshold"]
        return self.codes[code].at(text, decided, file=file, packet=packet, sub=sub, time=time, connection=connection)

    def failed(self, rule: str, error: Exception) -> tuple[str, dict[str, Any]]:
        """Return text and evidence of the finding about a rule that raised."""
        failed = failure(self.dissector, rule if rule == "rules" else f"the rule {rule}", error)
        return f"{failed.text[0].upper()}{failed.text[1:]}.", failed._asdict()


def make_rule_set(dissector: Dissector, thresholds: Mapping[str, float], *, findings: bool, journeys: bool) -> RuleSet:
    """Return the rules of a dissector; if it fails to provide them, one rule that raises its exception on each connection."""
    try:
        return RuleSet(dissector, dissector.rules.chosen(findings=findings, journeys=journeys), thresholds)
    except Exception as error:  # noqa: BLE001 - other people's code
        where = error.__traceback__

        def fail(_rule: Any, _row: Any, error: Exception = error) -> None:
            raise error.with_traceback(where)  # otherwise it would hold the frames of every connection

        return RuleSet(dissector, Rules({}, (type("rules", (ConnectionRule,), {"frames": {"*": fail}}),)), {})


class _Calls(dict[str, Calls]):
    """Handlers by command; commands that no rule names get the handlers for all others."""

    def __init__(self, tables: Sequence[Handlers]) -> None:
        calls: dict[str, list[tuple[int, Handler]]] = {name: [] for name in {"*"}.union(*tables)}
        for at, table in enumerate(tables):  # most rules name few of the many commands
            for name in calls if "*" in table else table:
                calls[name].append((at, table.get(name) or table["*"]))
        super().__init__(calls)

    def __missing__(self, name: str) -> Calls:
        return self["*"]


@lru_cache(maxsize=16)
def _calls_of(rules: tuple[type[ConnectionRule], ...]) -> tuple[_Calls, _Calls]:
    """Return the handlers of frames and exchanges, cached: making them for all rules of a dissector takes longer than a small capture."""
    return _Calls([rule.frames for rule in rules]), _Calls([rule.exchanges for rule in rules])


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
        "_last",
        "_latest",
        "_lost",
        "_number",
        "_output",
        "_positions",
        "_reported",
        "_rows",
        "_rules",
        "_stretches",
        "client",
        "closing",
        "connection",
        "rule_set",
        "server",
    )

    def __init__(self, connection: str, endpoints: tuple[str, str], output: RuleOutput, rule_set: RuleSet) -> None:
        self.connection = connection
        self.client, self.server = endpoints[0], intern(endpoints[1])
        self.rule_set = rule_set
        self.closing: tuple[str, int] | None = None
        self._lost = False
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
        self._stretches = rule_set.stretches

    @property
    def thresholds(self) -> Thresholds:
        """See `RuleContext`."""
        return self.rule_set.thresholds

    @property
    def lost(self) -> bool:
        """See `RuleContext`."""
        return self._lost or self._output.lost

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

    def add_finding(self, row: FindingRow) -> None:
        """Keep a finding of the layers below about the connection."""
        self._lost = self._lost or row.code in LOSS_CODES
        self._reported = self._reported or {}
        reported = self._reported.setdefault(row.code, [])
        if len(reported) < REPORTED_MAX:
            reported.append(ReportedFinding(where_of(row), row.text, dict(row.evidence or {})))

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
            for start, stretch in () if self._stretches is None else self._stretches(rows, positions, least):
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
                    self._hand_out(batch, rule, handlers, indexes, of_rows)
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
        self, batch: BatchHandler, rule: ConnectionRule, handlers: Mapping[int, Handler], indexes: Sequence[int], of_rows: Sequence[int]
    ) -> None:
        """Pass the rows with these indexes, all at once, to a rule that takes batches."""
        rows = self._rows

        def handle(number: int) -> None:
            self._at = at = indexes[number]
            handlers[of_rows[at]](rule, rows[at])

        batch(rule, rows if len(indexes) == len(rows) else [rows[at] for at in indexes], handle)

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
