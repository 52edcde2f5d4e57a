"""Runs the rules of the dissectors over rows, in the order in which the rows come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import repeat
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from pulsarscope.dissect.contract import GENERIC_CODES, Dissector
from pulsarscope.dissect.isolation import RULE_FAILED, failure
from pulsarscope.dissect.legs import ANCHOR, AnchorRow, digest
from pulsarscope.dissect.rules import (
    UNREAD,
    ConnectionRule,
    Fact,
    Handler,
    Handlers,
    KeyRule,
    ReportedFinding,
    ReportFinding,
    Rules,
    Where,
    where_of,
)
from pulsarscope.engine.facts import FactRule, Facts
from pulsarscope.engine.options import Options
from pulsarscope.engine.ordering import RowKey
from pulsarscope.model.findings import CAPTURE_CODES, LOSS_CODES, ONE_SIDED, Finding
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FindingRow, FrameRow, JourneyRow, MessageRow, Row, finding_row
from pulsarscope.model.tables import NOTHING
from pulsarscope.model.thresholds import Thresholds

REPORTED_MAX = 52
"""Findings of one code that a connection's rules can look up: as many as both streams say one by one, and how many more there are."""


EmitFact = Callable[[str, str, Fact], None]
"""(name of the rule, key, fact)."""


class Closed(NamedTuple):
    """The end of a connection, among rows. Its row comes later, when late packets are counted; thousands may wait for that."""

    row: ConnectionRow
    closing: tuple[str, int] | None = None
    """The first FIN or RST and its time, of a connection that is closed."""


Calls = Sequence[tuple[int, Handler]]
"""Handlers of a row, each with the position of its rule."""


class _FailedRule(ConnectionRule):
    """The place of a rule that raised: without state, its handlers have nothing to report."""

    def __init__(self) -> None:
        """Hold nothing."""


class _RuleSet:
    """The rules of a dissector, and their handlers by row: the same for all connections."""

    def __init__(self, dissector: Dissector, rules: Rules, thresholds: Mapping[str, float]) -> None:
        self.dissector = dissector
        self.codes = {**GENERIC_CODES, **rules.codes}
        self.thresholds = Thresholds(rules.thresholds, thresholds)
        self._deciding = {
            code: self.thresholds.evidence(*(threshold.name for threshold in rules.thresholds if code in threshold.codes))
            for code in {code for threshold in rules.thresholds for code in threshold.codes}
        }
        self.wants_messages = rules.messages
        self.unread = rules.unread
        self.describe_legs = rules.legs
        self.legs = f"{dissector.name}:{ANCHOR}"
        """Name that the anchors of its connections have among the facts."""
        self.needs_both = rules.needs_both
        self.keys = {f"{dissector.name}:{rule.name}": rule for rule in rules.keys}
        """Rules across connections; their own names are unique within a dissector only."""
        self.tells = rules.tells
        self.key_names = {rule.name: name for name, rule in self.keys.items()}
        self.rules = rules.connection
        self.frames = _Calls([rule.frames for rule in rules.connection])
        self.exchanges = _Calls([rule.exchanges for rule in rules.connection])
        self.messages = [(number, rule.messages) for number, rule in enumerate(rules.connection) if rule.messages is not None]

    def evaluate(self, rule: KeyRule, key: str, facts: Sequence[Fact], report: ReportFinding) -> None:
        """Evaluate the facts of one key; an exception of the rule is a finding at the last fact."""
        try:
            rule.evaluate(key, facts, report, self.thresholds)
        except Exception as error:  # noqa: BLE001 - other people's code
            report(RULE_FAILED, facts[-1].where, *self.failed(rule.name, error))

    def journeys(self, rule: KeyRule, key: str, facts: Sequence[Fact], add: Callable[[JourneyRow], None], report: ReportFinding) -> None:
        """Add the journeys in all facts of one key; as `evaluate`."""
        try:
            for row in rule.journeys(key, facts) if rule.journeys is not None else ():
                row.dissector = self.dissector.name
                add(row)
        except Exception as error:  # noqa: BLE001 - other people's code
            report(RULE_FAILED, facts[-1].where, *self.failed(rule.name, error))

    def finding(self, code: str, where: Where, text: str, evidence: dict[str, Any]) -> Finding:
        """Return a finding of the rules. Its evidence names the thresholds of its code, unless the rule says which ones decided."""
        _, file, packet, sub, time, connection = where
        decided = evidence | self._deciding.get(code, {}) | evidence
        if not decided.get("threshold", True):
            del decided["threshold"]
        return self.codes[code].at(text, decided, file=file, packet=packet, sub=sub, time=time, connection=connection)

    def failed(self, rule: str, error: Exception) -> tuple[str, dict[str, Any]]:
        """Return text and evidence of the finding about a rule that raised."""
        failed = failure(self.dissector, rule if rule == "rules" else f"the rule {rule}", error)
        return f"{failed.text[0].upper()}{failed.text[1:]}.", failed._asdict()


def _rule_set(dissector: Dissector, thresholds: Mapping[str, float], *, findings: bool, journeys: bool) -> _RuleSet:
    """Return the rules of a dissector; when it fails to give them, one that raises its exception about each connection."""
    try:
        return _RuleSet(dissector, dissector.rules.chosen(findings=findings, journeys=journeys), thresholds)
    except Exception as error:  # noqa: BLE001 - other people's code

        def fail(_rule: Any, _row: Any, error: Exception = error) -> None:
            raise error.with_traceback(None)  # else it would hold the frames of every connection

        return _RuleSet(dissector, Rules({}, (type("rules", (ConnectionRule,), {"frames": {"*": fail}}),)), {})


def _evaluate_nothing(_key: str, _facts: Sequence[Fact], _report: ReportFinding) -> None:
    """Report nothing: findings are not asked for."""


class _Calls(dict[str, Calls]):
    """By command; for one that no rule names stand those that want all others."""

    def __init__(self, tables: Sequence[Handlers]) -> None:
        names = {"*"}.union(*tables)
        super().__init__(
            {name: [(at, handler) for at, table in enumerate(tables) if (handler := table.get(name) or table.get("*"))] for name in names}
        )

    def __missing__(self, name: str) -> Calls:
        return self["*"]


class ConnectionRules:
    """The rules of one connection, and their `dissect.rules.RuleContext`."""

    __slots__ = ("_lost", "_reported", "_rule_engine", "_rules", "client", "closing", "connection", "last", "rule_set", "server")

    def __init__(self, connection: str, endpoints: tuple[str, str], rule_engine: RuleEngine, rule_set: _RuleSet) -> None:
        self.connection = connection
        self.client, self.server = endpoints
        self.rule_set = rule_set
        self.closing: tuple[str, int] | None = None
        self._lost = False
        self._rule_engine = rule_engine
        self._reported: dict[str, list[ReportedFinding]] = NOTHING
        self.last = Where(None, 0, 0, 0, 0, connection)
        """Place of its last frame."""
        self._rules: list[ConnectionRule | None] = [None] * len(rule_set.rules)

    @property
    def thresholds(self) -> Thresholds:
        """See `RuleContext`."""
        return self.rule_set.thresholds

    @property
    def lost(self) -> bool:
        """See `RuleContext`."""
        return self._lost or self._rule_engine.lost

    def add_finding(self, row: FindingRow) -> None:
        """Keep a finding of the layers below about the connection."""
        self._lost = self._lost or row.code in LOSS_CODES
        self._reported = self._reported or {}
        reported = self._reported.setdefault(row.code or "", [])
        if len(reported) < REPORTED_MAX:
            reported.append(ReportedFinding(where_of(row), row.text or "", dict(row.evidence or {})))

    def reported(self, code: str) -> Sequence[ReportedFinding]:
        """See `RuleContext`."""
        return self._reported.get(code, ())

    def report(self, code: str, where: Where, text: str, evidence: dict[str, Any]) -> None:
        """See `RuleContext`."""
        if ONE_SIDED in self._reported and code in self.rule_set.needs_both:
            return
        self._rule_engine.report(self.rule_set.dissector.name, code, where, text, evidence)

    def emit_fact(self, rule: str, key: str, where: Where, what: str, values: dict[str, Any]) -> None:
        """See `RuleContext`."""
        name = self.rule_set.key_names.get(rule)
        if name is not None:
            self._rule_engine.emit_fact(name, key, Fact(where, what, values))
        elif rule not in self.rule_set.tells:
            raise KeyError(f"no key rule {rule}")

    def dispatch(self, calls: Calls, row: Row) -> None:
        """Hand a row to its handlers."""
        rules = self._rules
        number = 0
        try:
            for number, handle in calls:
                handle(rules[number] or self._rule(number), row)
        except Exception as error:  # noqa: BLE001 - other people's code
            self._fail(number, error, where_of(row))
            self.dispatch([call for call in calls if call[0] > number], row)

    def _fail(self, number: int, error: Exception, where: Where) -> None:
        """Report an exception of the rule at this position, which says no more."""
        if isinstance(self._rules[number], _FailedRule):
            return
        self._rules[number] = _FailedRule()
        self.report(RULE_FAILED, where, *self.rule_set.failed(self.rule_set.rules[number].__name__, error))

    def end(self, row: ConnectionRow) -> None:
        """End the rules of the connection, and drop them: they refer to it, and the collector of cycles runs seldom."""
        for number in range(len(self._rules)):
            self._end_rule(number, row)
        self._rules.clear()

    def _end_rule(self, number: int, row: ConnectionRow) -> None:
        try:
            (self._rules[number] or self._rule(number)).end(row, self.last)
        except Exception as error:  # noqa: BLE001 - other people's code
            self._fail(number, error, self.last)

    def _rule(self, number: int) -> ConnectionRule:
        """Return the rule at this position, made on first use: there may be thousands of connections, and each meets few rules."""
        rule = self._rules[number]
        if rule is None:
            rule = self._rules[number] = self.rule_set.rules[number](self)
        return rule


class RuleEngine:
    """Feed it all rows of a run in their order (frames, exchanges, messages, connections and findings), then finish it."""

    def __init__(
        self,
        dissectors: Iterable[Dissector],
        endpoints: Mapping[str, tuple[str, str]],
        dissector_of: Mapping[str, str],
        emit_fact: EmitFact | None = None,
        thresholds: Mapping[str, float] = MappingProxyType({}),
        *,
        findings: bool = True,
        journeys: bool = False,
    ) -> None:
        """Take the rules of the dissectors.

        Args:
            dissectors: all that connections may have.
            endpoints: client and server of each connection that is recognised.
            dissector_of: name of the dissector of each of them.
            emit_fact: takes the facts of rules across connections, when another engine evaluates them.
            thresholds: values that replace those of the rules, by name.
            findings: report those of the rules.
            journeys: give rows of the kind journey.
        """
        self.lost = False
        """The capture itself says that it lacks packets, of whichever connection."""
        self.rule_sets = {
            dissector.name: _rule_set(dissector, thresholds, findings=findings, journeys=journeys) for dissector in dissectors
        }
        """By dissector name."""
        public = {rule.name: name for rule_set in self.rule_sets.values() for name, rule in rule_set.keys.items() if rule.public}
        for rule_set in self.rule_sets.values():
            rule_set.key_names |= {rule: public[rule] for rule in rule_set.tells & public.keys() - rule_set.key_names.keys()}
        self._messages = any(rule_set.wants_messages for rule_set in self.rule_sets.values())
        self._endpoints = endpoints
        self._dissector_of = dissector_of
        self.connections: dict[str, ConnectionRules] = {}
        """Connections that have not ended."""
        self._reports = findings
        self._rows: list[tuple[RowKey, Any]] = []
        self.key: RowKey = (0, 0)
        """Key of the row that is dispatched, if rows have keys."""
        self.phase = 0
        """Phase of what the rules bring about."""
        self._keys_made = 0
        keys = {
            name: (self._fact_rule(name, rule, dissector), partial(self.report, dissector))
            for dissector, rule_set in self.rule_sets.items()
            for name, rule in rule_set.keys.items()
        }
        self.facts = Facts(keys, [rule_set.legs for rule_set in self.rule_sets.values() if rule_set.describe_legs is not None])
        """Of rules across connections."""
        self._alone = emit_fact is None
        self.emit_fact = self.facts.add if emit_fact is None else emit_fact

    def _fact_rule(self, name: str, rule: KeyRule, dissector: str) -> FactRule:
        rule_set = self.rule_sets[dissector]
        evaluate = partial(rule_set.evaluate, rule) if self._reports else _evaluate_nothing
        if rule.journeys is None:
            return FactRule(name, rule.idle_ns, evaluate, rule.early, all_legs=rule.all_legs)
        report = partial(self.report, dissector)
        return FactRule(
            name, rule.idle_ns, evaluate, rule.early, partial(rule_set.journeys, rule, add=self._add, report=report), rule.all_legs
        )

    def _add(self, row: JourneyRow) -> None:
        self._rows.append((self.next_key(), row))

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of rows that must be fed."""
        kinds = {FrameRow.kind, ExchangeRow.kind, ConnectionRow.kind}
        if self._reports:
            kinds.add(FindingRow.kind)
        if self.facts.legs:
            kinds.add(ANCHOR)
        return frozenset(kinds | {MessageRow.kind} if self._messages else kinds)

    def report(self, dissector: str, code: str, where: Where, text: str, evidence: dict[str, Any]) -> None:
        """Make a finding of a dissector's rules. Raises an exception, to the rule, when it cannot be written."""
        if not isinstance(text, str):
            raise TypeError(f"the text of {code} is {type(text).__name__}")
        msgspec.json.encode((text, evidence))
        finding = self.rule_sets[dissector].finding(code, where, text, evidence)
        self._rows.append((self.next_key(), finding_row(finding, where.source, dissector)))

    def next_key(self, key: RowKey | None = None) -> RowKey:
        """Return a key behind all others that begin like this one: by default that of the row that is dispatched, in the present phase."""
        self._keys_made = number = self._keys_made + 1
        key = key or self.key
        return (key[0] | self.phase, key[1], number) if len(key) == 2 else (*key, number)

    def feed(self, rows: Sequence[Any], keys: Iterable[RowKey] = repeat((0, 0))) -> None:
        """Run the rules over rows, which may have keys: those of the findings and facts that they bring about begin like them."""
        # Findings of the layers below come behind the rows, maybe behind the end, of the connection that they are about.
        for row in [row for row in rows if type(row) is FindingRow]:
            rules = self._rules_of(row.connection)
            if rules is not None:
                rules.add_finding(row)
            elif row.connection is None:
                self.lost = self.lost or row.code in LOSS_CODES
        for row, self.key in zip(rows, keys, strict=False):
            kind = type(row)
            if isinstance(row, FrameRow):
                if (rules := self._rules_of(row.connection)) is not None:
                    rules.last = where_of(row)
                    rules.dispatch(rules.rule_set.frames[row.command or ""], row)
            elif kind is ExchangeRow:
                if (rules := self._rules_of(row.connection)) is not None:
                    rules.dispatch(rules.rule_set.exchanges[row.request or ""], row)
            elif kind is MessageRow:
                if (rules := self._rules_of(row.connection)) is not None:
                    rules.dispatch(rules.rule_set.messages, row)
            elif kind is AnchorRow:
                if (rules := self._rules_of(row.connection)) is not None and rules.rule_set.legs in self.facts.legs:
                    name = rules.rule_set.legs
                    if self._alone:
                        self.facts.legs[name].add(*row)
                    else:
                        self.emit_fact(name, digest(row.content), row.fact)
            elif kind is Closed:
                if (rules := self.connections.pop(row.row.connection or "", None)) is not None:
                    rules.closing = row.closing
                    rules.end(row.row)
                else:
                    self.emit_unread(row.row)

    def take(self) -> list[tuple[RowKey, Any]]:
        """Return the findings and journeys since the last call, each with its key."""
        rows, self._rows = self._rows, []
        return rows

    def finish(self) -> None:
        """Evaluate the keys that still wait: the capture has ended. Report it when the bound on facts may have changed a verdict."""
        self.facts.finish()
        self.report_legs()
        parted, unknown = self.facts.parted, self.facts.unknown
        if not parted and not unknown:
            return
        early = {name.partition(":")[2]: number for name, number in sorted(parted.items())}
        rules = ", ".join(f"{name} {number:,}" for name, number in early.items())
        text = f"{parted.total():,} stories told across connections were judged before their end" + (f" ({rules})" if rules else "")
        text += f"; of {unknown:,} more that is not known" if unknown else ""
        text += f": what waits for a verdict takes at most {self.facts.max_bytes >> 20} MiB."
        evidence = {"judged_early": early, "unknown": unknown, "bytes": self.facts.max_bytes}
        self._rows.append((self.next_key(), finding_row(CAPTURE_CODES["memory-cap"].at(text, evidence), None)))

    def settle(self, time: int) -> None:
        """Report what this time of a live capture brings about, nanoseconds since the epoch."""
        self.facts.settle(time)
        self.report_legs(complete=True)

    def report_legs(self, *, complete: bool = False) -> None:
        """Report the legs of paths; `complete`: those of which nothing more comes."""
        for dissector, rule_set in self.rule_sets.items():
            if rule_set.describe_legs is not None:
                for legs in self.facts.legs[rule_set.legs].joined(complete=complete):
                    if self._reports:
                        self.report(dissector, *rule_set.describe_legs(legs))

    def emit_unread(self, row: ConnectionRow) -> None:
        """Emit a fact of a connection without a known protocol on which a server said nothing, or what cannot be read."""
        if row.dissector is not None or row.opened != "syn" or not (row.tls or not row.server_bytes):
            return
        values = {name: getattr(row, name) for name in ("server", "client_bytes", "server_bytes", "closed", "closed_by", "end", "tls")}
        for rule_set in self.rule_sets.values():
            if rule_set.unread is not None:
                key = row.client.rpartition(":")[0]
                self.emit_fact(rule_set.key_names[rule_set.unread], key, Fact(where_of(row), UNREAD, values))

    def _rules_of(self, name: str | None) -> ConnectionRules | None:
        """Return the rules of a connection, if it has a dissector."""
        rules = self.connections.get(name or "")
        if rules is None and name is not None and name in self._dissector_of:
            rules = self.connections[name] = ConnectionRules(name, self._endpoints[name], self, self.rule_sets[self._dissector_of[name]])
        return rules


def rule_engine(
    dissectors: Iterable[Dissector],
    options: Options,
    endpoints: Mapping[str, tuple[str, str]] = NOTHING,
    dissector_of: Mapping[str, str] = NOTHING,
    emit_fact: EmitFact | None = None,
) -> RuleEngine:
    """Return the rule engine of a run with these options; see `RuleEngine`."""
    journeys = JourneyRow.kind in options.records
    return RuleEngine(dissectors, endpoints, dissector_of, emit_fact, options.thresholds, findings=options.rules, journeys=journeys)
