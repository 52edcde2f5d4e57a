"""The rules of a dissector, and their handlers by row: the same for all connections."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

from pulsarscope.dissect.contract.dissector import Dissector
from pulsarscope.dissect.contract.dissector_rules import Rules
from pulsarscope.dissect.contract.generic_codes import GENERIC_CODES, RULE_FAILED
from pulsarscope.dissect.contract.legs import ANCHOR
from pulsarscope.dissect.contract.rules import ConnectionRule, Fact, Handler, Handlers, KeyRule, ReportFinding, Where
from pulsarscope.dissect.plugins.isolation import failure
from pulsarscope.model.findings import Finding
from pulsarscope.model.records import ExchangeRow, JourneyRow, Row
from pulsarscope.model.thresholds import Thresholds

PLANS_MAX = 256
"""Sets of commands in batches that are cached with the rules that handle them."""

SEQUENCES_MAX, SEQUENCE_ROWS_MAX = 1_024, 64
"""Sequences of commands that are cached likewise, and rows of one sequence: many short connections have the same."""

Calls = Sequence[tuple[int, Handler]]
"""Handlers of a row, each with the position of its rule."""


Plan = list[tuple[int, dict[int, Handler], frozenset[int], bool]]
"""Positions of rules in order, each with its handlers by the identity of the calls, these identities, and whether all are passive."""


Ending = Sequence[tuple[int, type[ConnectionRule] | None]]
"""Positions of the rules that act at the end of a connection, each with its class if it is made for this."""


Steps = list[tuple[int, dict[int, Handler], Sequence[int], bool]]
"""Positions of rules in order, each with its handlers, the indexes of the rows that it handles, and whether all are passive."""


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
        self.ending: Ending = [(number, rule if rule.passive is None else None) for number, rule in ending]
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
            of_kind: dict[int, list[int]] = {}
            for at, kind in enumerate(of_rows):
                of_kind.setdefault(kind, []).append(at)
            every = frozenset(of_kind)
            chosen: dict[frozenset[int], Sequence[int]] = {every: range(len(of_rows))}
            steps = []
            for number, handlers, kinds, passive in self._plan(every, calls):
                if (indexes := chosen.get(kinds)) is None:
                    indexes = chosen[kinds] = sorted(chain.from_iterable(map(of_kind.__getitem__, kinds)))
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
