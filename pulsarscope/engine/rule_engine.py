"""Runs the rules of the dissectors over rows, in the order in which they come."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from types import MappingProxyType
from typing import Any

import msgspec

from pulsarscope.dissect.contract.dissector import Dissector
from pulsarscope.dissect.contract.legs import ANCHOR, AnchorRow
from pulsarscope.dissect.contract.rules import UNREAD, Fact, KeyRule, PackedFact, ReportFinding, RuleFact, UndecidedFacts, Where, where_of
from pulsarscope.engine.column_rows import OrderedKeys
from pulsarscope.engine.connection_rules import ConnectionRules, Order, WaitingRows
from pulsarscope.engine.expected_findings import ExpectedFindings, Located
from pulsarscope.engine.facts import FactRule, Facts
from pulsarscope.engine.options import Options
from pulsarscope.engine.ordering import REPORTED, RowKey
from pulsarscope.engine.packed_facts import unpack
from pulsarscope.engine.row_batch import Closed, KeyedFact, PackedFacts
from pulsarscope.engine.rule_set import make_rule_set
from pulsarscope.model.bounded_tables import NOTHING
from pulsarscope.model.findings import CAPTURE_CODES, LOSS_CODES
from pulsarscope.model.ordered_rows import split
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FindingRow, FrameRow, JourneyRow, MessageRow, finding_row

EmitFact = Callable[[str, str, Fact], None]
"""Function that takes a fact: (name of the rule, key, fact)."""

CollectFacts = Callable[[PackedFacts], object]
"""Function that takes packed facts, with their rules by number, and the keys of their rows."""

NO_KEY: RowKey = ()
"""Key of a fact in a run that is not shared."""

STRETCH_MIN = 32
"""Minimum number of frames in columns that are offered to rules as columns: fewer take longer this way than as rows."""

JUDGED_EARLY = "judged_early"
"""Evidence key of the finding that verdicts came too early."""


def _evaluate_nothing(_key: str, _facts: Sequence[Fact], _report: ReportFinding) -> None:
    """Report nothing: findings are not requested."""


class RuleEngine:
    """Feed it all rows of a run in order (frames, exchanges, messages, connections and findings), then finish it."""

    def __init__(
        self,
        dissectors: Iterable[Dissector],
        endpoints: Mapping[str, tuple[str, str]],
        dissector_of: Mapping[str, str],
        emit_fact: EmitFact | None = None,
        thresholds: Mapping[str, float] = MappingProxyType({}),
        *,
        collect: CollectFacts | None = None,
        findings: bool = True,
        journeys: bool = False,
    ) -> None:
        """Take the rules of the dissectors.

        Args:
            dissectors: the dissectors that connections may have.
            endpoints: client and server of each recognised connection.
            dissector_of: dissector name of each recognised connection.
            emit_fact: receives the facts of rules across connections, if another engine evaluates them.
            thresholds: values that replace those of the rules, by name.
            collect: receives them packed, instead of `emit_fact`.
            findings: report the findings of the rules.
            journeys: yield journey rows.
        """
        self.lost = False
        """True when the capture itself reports that packets of unspecified connections are missing."""
        self.rule_sets = {
            dissector.name: make_rule_set(dissector, thresholds, findings=findings, journeys=journeys) for dissector in dissectors
        }
        """Rules by dissector name."""
        public = {rule.name: name for rule_set in self.rule_sets.values() for name, rule in rule_set.keys.items() if rule.public}
        for rule_set in self.rule_sets.values():
            rule_set.key_names |= {rule: public[rule] for rule in rule_set.other_keys & public.keys() - rule_set.key_names.keys()}
        self._messages = any(rule_set.wants_messages for rule_set in self.rule_sets.values())
        self._endpoints = endpoints
        self._dissector_of = dissector_of
        self.connections: dict[str, ConnectionRules] = {}
        """Rules of connections that have not ended."""
        self._reports = findings
        self._rows: list[tuple[RowKey, Any]] = []
        self.key: RowKey = (0, 0)
        """Key of the row being dispatched, if rows have keys."""
        self.phase = 0
        """Phase of the effects of the rules."""
        self._keys_made = 0
        self._brought: list[tuple[Order, Callable[..., object] | None, Any]] = []
        """Effects of the current rows: the function that takes each, and its values; None for a packed fact."""
        self._expected = ExpectedFindings()
        self._ended: set[str] = set()
        """Connections that have ended in the current part: findings after their ends do not concern rules."""
        self._undecided: list[tuple[int, str, UndecidedFacts]] = []
        """Facts that the current rows caused, which cause no finding on their own, with position and name of their rule."""
        keys = {
            name: (self._fact_rule(name, rule, dissector), partial(self.report, dissector))
            for dissector, rule_set in self.rule_sets.items()
            for name, rule in rule_set.keys.items()
        }
        self.facts = Facts(keys, [rule_set.legs for rule_set in self.rule_sets.values() if rule_set.describe_legs is not None])
        """Facts of rules across connections."""
        self._alone = emit_fact is None and collect is None
        self._takes_packed = emit_fact is None
        self._collect: Callable[[Any], object] = collect or self.facts.add_each
        self.emit_fact = emit_fact or (self.facts.add if collect is None else self._collect_one)

    def _fact_rule(self, name: str, rule: KeyRule, dissector: str) -> FactRule:
        rule_set = self.rule_sets[dissector]
        evaluate = partial(rule_set.evaluate, rule) if self._reports else _evaluate_nothing
        if rule.journeys is None:
            return FactRule(name, rule.idle_ns, evaluate, rule.early, rule.decides, rule.compares, all_legs=rule.all_legs)
        report = partial(self.report, dissector)
        journeys = partial(rule_set.journeys, rule, add=self._add, report=report)
        return FactRule(name, rule.idle_ns, evaluate, rule.early, rule.decides, rule.compares, journeys, rule.all_legs)

    def _add(self, row: FindingRow | JourneyRow) -> None:
        self._rows.append((self.next_key(), row))

    @property
    def kinds(self) -> frozenset[str]:
        """Kinds of rows that must be fed."""
        kinds = {FrameRow.kind, ExchangeRow.kind, ConnectionRow.kind}
        if self._reports:
            kinds.add(FindingRow.kind)
        if self.facts.legs:
            kinds.add(ANCHOR)
        return frozenset(kinds | {MessageRow.kind} if self._messages else kinds)

    def report(self, dissector: str, code: str, where: Where, text: str, evidence: dict[str, Any]) -> None:
        """Make a finding of a dissector's rules. Raises an exception, in the rule, if it cannot be written."""
        self._add(self._finding(dissector, code, where, text, evidence))

    def report_of(self, order: Order, dissector: str, code: str, where: Where, text: str, evidence: dict[str, Any]) -> None:
        """Make a finding like `report`, with its place among the effects of the current rows."""
        self._brought.append((order, self._add, (self._finding(dissector, code, where, text, evidence),)))

    def emit_fact_of(self, order: Order, name: str, key: str, fact: Fact) -> None:
        """Take a fact, with its place among the effects of the current rows."""
        if self._takes_packed:
            self._brought.append((order, None, self.facts.packed(name, key, fact)))
        else:
            self._brought.append((order, self.emit_fact, (name, key, fact)))

    def emit_facts_of(self, order: Order, name: str, keys: Sequence[str], fact: Fact) -> None:
        """Take the same fact for each of these keys, like `emit_fact_of`."""
        if self._takes_packed:
            _, _, *values = self.facts.packed(name, keys[0], fact)
            self._brought += [(order, None, (name, key, *values)) for key in keys]
        else:
            self._brought += [(order, self.emit_fact, (name, key, fact)) for key in keys]

    def _collect_one(self, name: str, key: str, fact: Fact) -> None:
        """Collect a fact, with a key after all others of the row being dispatched."""
        rule, of_rule, packed, time, deciding, _ = self.facts.packed(name, key, fact)
        self._collect([(self.facts.numbers[rule], of_rule, packed, time, deciding, self.next_key())])

    def emit_packed_of(self, number: int, name: str, facts: UndecidedFacts | list[PackedFact]) -> None:
        """Take facts of the rule at a position that cause no finding on their own."""
        if isinstance(facts, list) and self._takes_packed:
            self._brought += [((fact[0], number), None, (name, *fact[1:], False, NO_KEY)) for fact in facts]
        elif isinstance(facts, list):
            self._brought += [((fact[0], number), self.emit_fact, (name, fact[1], unpack(fact[2])[0])) for fact in facts]
        elif facts:
            self._undecided.append((number, name, facts))

    def _finding(self, dissector: str, code: str, where: Where, text: str, evidence: dict[str, Any]) -> FindingRow:
        if not isinstance(text, str):
            raise TypeError(f"the text of {code} is {type(text).__name__}")
        msgspec.json.encode((text, evidence))
        return finding_row(self.rule_sets[dissector].finding(code, where, text, evidence), where.source, dissector)

    def set_key(self, key: RowKey) -> None:
        """Set the key of the row being dispatched."""
        self.key = key

    def next_key(self, key: RowKey | None = None) -> RowKey:
        """Return a key after all others with the same beginning: by default that of the row being dispatched, in the current phase."""
        self._keys_made = number = self._keys_made + 1
        key = key or self.key
        return (key[0] | self.phase, key[1], number) if len(key) == 2 else (*key, number)

    def begin_part(self, found: Iterable[Located], *, ends: bool = False) -> None:
        """Take the findings of the layers below about connections in a part. Its rows follow in any number of feeds, with keys if any.

        `ends`: the part has only ends of connections, for which all findings are known.
        """
        self.phase = 0 if ends else REPORTED
        self._ended.clear()
        given_up = []
        for each in found:
            if type(each.row) is not FindingRow:
                given_up.append(each.row)
            elif ends:
                self._note(each.row, each.sender)
            else:
                self._expected.add(each)
        if given_up:
            self.feed(given_up)

    def end_part(self, of_files: Sequence[FindingRow]) -> None:
        """Take the findings after all rows of a part, including those about whole files, which apply from the end of the file on."""
        for row, sender in [*self._expected.rest(), *((row, None) for row in of_files)]:
            self._note(row, sender)

    def _note(self, row: FindingRow, sender: str | None = None) -> None:
        """Tell the rules about a finding of the layers below, and whose stream it is about."""
        if row.connection is None:
            self.lost = self.lost or row.code in LOSS_CODES
        elif (rules := self._rules_of(row.connection)) is not None:
            rules.add_finding(row, sender)

    def feed(self, rows: Sequence[Any], keys: Iterable[RowKey] = ()) -> None:
        """Run the rules over rows, which may have keys: the keys of the findings and facts that they cause begin with these.

        The rows of each connection go to one rule after the other; the effects are then put in the order of the rows.
        """
        if len(rows) == 1 and type(rows[0]) is ConnectionRow:  # no rule sees it: connections end with `Closed`
            self.key = next(iter(keys), (0, 0))
            return
        keys = keys if isinstance(keys, Sequence) else [*keys]
        ordered, following = split(rows)
        if ordered is None:
            self._hand_out(enumerate(rows), keys)
        else:
            for connection, parts in ordered.stretches(STRETCH_MIN):
                for part in parts:
                    if isinstance(part, tuple):
                        self._hand_out(zip(part[1], part[0], strict=True), keys)
                    elif connection in self._expected:
                        of_part, positions = part.rows()
                        self._hand_out(zip(positions, of_part, strict=True), keys)
                    elif (rules := self._rules_of(connection)) is not None:
                        rules.handle_columns(part)
            self._hand_out(enumerate(following, 2 * len(ordered)), keys)
        self._give(keys, len(rows))

    def _hand_out(self, rows: Iterable[tuple[int, Any]], keys: Sequence[RowKey]) -> None:
        """Pass rows, each with its position, to the rules of their connections."""
        waiting: dict[str, WaitingRows] = {}
        name, of_connection, expected = None, None, False
        for position, row in rows:
            kind = type(row)
            if kind is not FrameRow and kind is not ExchangeRow and kind is not MessageRow and not isinstance(row, FrameRow):
                if kind is Closed:
                    self._close(row, position, keys, waiting)
                    name = of_connection = None
                elif kind is AnchorRow:
                    self._add_anchor(row, position)
                elif kind is FindingRow:
                    if (earlier := waiting.pop(row.connection or "", None)) is not None:
                        earlier.handle(STRETCH_MIN)
                    self._note(row)
                    name = of_connection = None
                continue
            if row.connection != name or expected:
                name = row.connection
                if expected := name in self._expected:
                    self._reach(name or "", position, keys, waiting)
                if (of_connection := waiting.get(name or "")) is None and (rules := self._rules_of(name)) is not None:
                    of_connection = waiting[name or ""] = WaitingRows(rules, [], [], [])
                if of_connection is not None:
                    of_rules, of_rows, of_positions, of_calls = of_connection
                    frames, exchanges = of_rules.rule_set.frames, of_rules.rule_set.exchanges
            if of_connection is not None:
                of_rows.append(row)
                of_positions.append(position)
                if kind is ExchangeRow:
                    of_calls.append(exchanges[row.request or ""])
                else:
                    of_calls.append(of_rules.rule_set.messages if kind is MessageRow else frames[row.command or ""])
        for of_connection in waiting.values():
            of_connection.handle(STRETCH_MIN)

    def _reach(self, name: str, position: int, keys: Sequence[RowKey], waiting: dict[str, WaitingRows]) -> None:
        """Tell the rules of a connection about findings up to the row at a position, after its rows before that."""
        if found := self._expected.due(name, keys[position][0] if keys else sys.maxsize):
            if (of_connection := waiting.pop(name, None)) is not None:
                of_connection.handle(STRETCH_MIN)
            for row, sender in found:
                self._note(row, sender)

    def _close(self, closed: Closed, position: int, keys: Sequence[RowKey], waiting: dict[str, WaitingRows]) -> None:
        """End the rules of a connection, after its rows."""
        name = closed.row.connection or ""
        if name in self._expected:
            self._reach(name, position, keys, waiting)
            self._expected.drop(name)
        if (of_connection := waiting.pop(name, None)) is not None:
            of_connection.handle(STRETCH_MIN)
        if (ended := self.connections.pop(name, None)) is not None:
            ended.closing = closed.closing
            ended.end(closed.row, position)
            self._ended.add(name)
        else:
            self._brought += [((position, 0), self.emit_fact, fact) for fact in self._unread(closed.row)]

    def _add_anchor(self, row: AnchorRow, position: int) -> None:
        rules = self._rules_of(row.connection)
        if rules is None or (name := rules.rule_set.legs) not in self.facts.legs:
            return
        if self._alone:
            self.facts.anchors.append(((position, 0), self.facts.legs[name].add_row, (row,)))
        else:
            self._brought.append(((position, 0), self.emit_fact, (name, row.key, row.fact)))

    def _give(self, keys: Sequence[RowKey], count: int) -> None:
        """Pass on the effects of rows, in order."""
        brought, undecided, self._brought, self._undecided = self._brought, self._undecided, [], []
        if self.facts.anchors:
            brought += self.facts.join_anchors(brought, alone=not undecided)
        if undecided and not brought and not keys and len({rule for _, rule, _ in undecided}) == 1:  # as below, without a call for each
            self.key = (0, 0)
            of_rule = [facts for _, _, facts in undecided]
            self.facts.add_undecided(undecided[0][1], of_rule[0].merged(of_rule))
            return
        if not self._alone and isinstance(keys, OrderedKeys):
            placed = keys.placed(brought, undecided, self.phase, self._keys_made + 1, self.facts.numbers)
            if placed is not None:
                self._collect(placed[0])
                self._keys_made += placed[1]
                self.key = keys[-1] if count else self.key
                return
        for number, rule, facts in undecided:
            brought += [((fact[0], number), None, (rule, *fact[1:], False, NO_KEY)) for fact in facts]
        brought.sort(key=itemgetter(0))
        if not keys:
            self.key = (0, 0) if count or brought else self.key
            self._carry_out(brought)
            return
        collect, number_of = self._collect, self.facts.numbers
        placed_facts: list[KeyedFact] = []
        for (position, _), take, values in brought:
            self.key = key = keys[position]
            if take is None:
                rule, of_rule, packed, time, deciding, _ = values
                self._keys_made = number = self._keys_made + 1  # same as `next_key`, without the call
                place = (key[0] | self.phase, key[1], number) if len(key) == 2 else (*key, number)
                placed_facts.append((number_of[rule], of_rule, packed, time, deciding, place))
                continue
            if placed_facts:
                collect(placed_facts)
                placed_facts = []
            take(*values)
        if placed_facts:
            collect(placed_facts)
        if count:
            self.key = keys[-1]

    def _carry_out(self, brought: Sequence[tuple[Order, Callable[..., object] | None, Any]]) -> None:
        """Pass on the effects of rows without keys: consecutive facts at once."""
        facts: list[KeyedFact] = []
        for _, take, values in brought:
            if take is None:
                facts.append(values)
                continue
            if facts:
                self.facts.add_each(facts)
                facts = []
            take(*values)
        if facts:
            self.facts.add_each(facts)

    def take(self) -> list[tuple[RowKey, Any]]:
        """Remove and return the findings and journeys since the last call, each with its key."""
        rows, self._rows = self._rows, []
        return rows

    def finish(self) -> None:
        """Evaluate the keys that still wait: the capture has ended. Report it if the bound on facts may have changed a verdict."""
        self.facts.finish()
        self.report_legs()
        parted, unknown = self.facts.evaluated_in_parts()
        if not parted and not unknown:
            return
        early = {name.partition(":")[2]: number for name, number in parted.items()}
        rules = ", ".join(f"{name} {number:,}" for name, number in early.items())
        text = f"{sum(parted.values()):,} verdicts across connections came before all facts did" + (f" ({rules})" if rules else "")
        text += f", and perhaps {unknown:,} more" if unknown else ""
        text += f": facts that wait for a verdict take at most {self.facts.max_bytes >> 20} MiB."
        evidence = {JUDGED_EARLY: early, "unknown": unknown, "bytes": self.facts.max_bytes}
        self._rows.append((self.next_key(), finding_row(CAPTURE_CODES["memory-cap"].at(text, evidence), None)))

    def settle(self, time: int) -> None:
        """Report the findings that are due at this time of a live capture, in nanoseconds since the epoch."""
        self.facts.settle(time)
        self.report_legs(complete=True)

    def report_legs(self, *, complete: bool = False) -> None:
        """Report the legs of paths; with `complete`, only those that nothing can be added to."""
        for dissector, rule_set in self.rule_sets.items():
            if rule_set.describe_legs is not None:
                for legs in self.facts.legs[rule_set.legs].joined(complete=complete):
                    if self._reports:
                        self.report(dissector, *rule_set.describe_legs(legs))

    def emit_unread(self, row: ConnectionRow) -> None:
        """Emit a fact for a connection without a known protocol on which the server sent nothing, or that cannot be read."""
        for fact in self._unread(row):
            self.emit_fact(*fact)

    def _unread(self, row: ConnectionRow) -> Iterator[RuleFact]:
        if row.dissector is not None or row.opened != "syn" or not (row.tls or not row.server_bytes):
            return
        values = {name: getattr(row, name) for name in ("server", "client_bytes", "server_bytes", "closed", "closed_by", "end", "tls")}
        for rule_set in self.rule_sets.values():
            for name in rule_set.unread:
                yield rule_set.key_names[name], row.client.rpartition(":")[0], Fact(where_of(row), UNREAD, values)

    def _rules_of(self, name: str | None) -> ConnectionRules | None:
        """Return the rules of a connection, if it has a dissector."""
        rules = self.connections.get(name or "")
        if rules is None and name is not None and name in self._dissector_of and name not in self._ended:
            rules = self.connections[name] = ConnectionRules(name, self._endpoints[name], self, self.rule_sets[self._dissector_of[name]])
        return rules


def rule_engine(
    dissectors: Iterable[Dissector],
    options: Options,
    endpoints: Mapping[str, tuple[str, str]] = NOTHING,
    dissector_of: Mapping[str, str] = NOTHING,
    emit_fact: EmitFact | None = None,
    collect: CollectFacts | None = None,
) -> RuleEngine:
    """Return the rule engine of a run with these options; see `RuleEngine`."""
    journeys = JourneyRow.kind in options.records
    made = dissectors, endpoints, dissector_of, emit_fact, options.thresholds
    return RuleEngine(*made, collect=collect, findings=options.rules, journeys=journeys)
