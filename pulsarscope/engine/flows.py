"""The driver of a cluster's tasks, by flow: each task has all packets of some 4-tuples, and no others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from io import BytesIO
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec

from pulsarscope.capture import Block, Inputs
from pulsarscope.dissect.contract.legs import ANCHOR, INNER, JOINED
from pulsarscope.dissect.contract.rules import Fact, RuleFact
from pulsarscope.engine.engine import Engine
from pulsarscope.engine.facts import Facts
from pulsarscope.engine.options import Options
from pulsarscope.engine.packed_facts import collected, end_of, of_leg, stretches
from pulsarscope.engine.row_batch import RowBatch, Totals
from pulsarscope.engine.rule_engine import EmitFact, rule_engine
from pulsarscope.inputs.key_logs import KeyLogs, Position, add_key_log
from pulsarscope.model.findings import Finding
from pulsarscope.model.flow import reverse_key
from pulsarscope.model.limits import IDLE_CONNECTION_NANOSECONDS
from pulsarscope.model.records import ConnectionRow, FindingRow, JourneyRow, Row
from pulsarscope.model.text import printable

__all__ = [
    "OF_LEGS",
    "Fact",
    "FlowRun",
    "RuleFact",
    "check_options",
    "evaluate",
    "fact_rules",
    "join_legs",
    "of_paths",
    "settled_before",
    "strangers",
    "with_secrets",
]


def check_options(options: Options) -> None:
    """Raise UsageError when a run is impossible with these options: before anything starts, not in a task."""
    Engine(Inputs([], 0, []), options)


OF_LEGS = f":{ANCHOR}"
"""Suffix of the names that anchors have among facts."""

LATE_NANOSECONDS = 600_000_000_000
"""Greatest age of packets in a file of a stream relative to earlier files: some files are rotated later, or take longer to arrive."""


class FlowRun:
    """The decoding of some flows by one process of a cluster: one after the other, each with all its packets and then its end."""

    def __init__(self, inputs: Inputs, options: Options, emit_fact: EmitFact, lossy: int | None = None) -> None:
        """Prepare; nothing is read yet.

        Args:
            inputs: captures of the whole run.
            options: options of the whole run.
            emit_fact: receives the facts of rules across connections.
            lossy: the first file with a finding that packets of unspecified connections are missing; None if no file has one.
        """
        self.totals = Totals()
        self._engine = Engine(inputs, options, totals=self.totals, emit_fact=emit_fact)
        self._inputs = inputs
        self._kinds = options.records
        self._lossy = lossy

    def flow(self, blocks: Iterable[Block]) -> Iterator[list[Any]]:
        """Yield all rows of blocks with the packets of one 4-tuple of one source, in order."""
        for block in blocks:
            self._enter(block.file)
            yield from _rows(self._engine.feed(block))
        self._enter(len(self._inputs.paths))
        yield from _rows(self._engine.end())

    def report(self, findings: Sequence[Finding]) -> list[Any]:
        """Return rows of findings that concern no connection."""
        return self._engine.report(findings).rows

    def select(self, rows: Sequence[Row]) -> list[Any]:
        """Return the requested rows among those that `strangers` found."""
        connections = [row for row in rows if isinstance(row, ConnectionRow)]
        self.totals.connections += len(connections)
        self._engine.emit_unread(connections)
        return [row for row in self._engine.count(rows) if row.kind in self._kinds]

    def _enter(self, file: int) -> None:
        """Pass the findings at the ends of earlier files to the engine."""
        self._engine.set_loss(lost=self._lossy is not None and self._lossy < file)


def _rows(batches: Iterable[RowBatch]) -> Iterator[list[Any]]:
    return (batch.rows for batch in batches)


def strangers(inputs: Inputs, options: Options, blocks: Iterable[Block]) -> dict[bytes, list[Row] | None]:
    """Return all rows of each 4-tuple without any connection of a known protocol, by the lower flow key; None for the other 4-tuples.

    They are valid if no other file has packets of the 4-tuple. A 4-tuple with TLS gets None: the TLS may carry a known protocol.

    Args:
        inputs: captures of the whole run.
        options: options of the whole run.
        blocks: packets of one file.
    """
    kinds = frozenset({ConnectionRow.kind, FindingRow.kind})
    engine = Engine(inputs, msgspec.structs.replace(options, records=kinds, payloads=False, payload=None, rules=False))
    flow_of: dict[str, bytes] = {}
    rows_of: dict[bytes, list[Row] | None] = {}

    def take(batches: Iterable[RowBatch]) -> None:
        for batch in batches:
            for row in batch.rows:
                if row.connection is not None and (rows := rows_of[flow := flow_of[row.connection]]) is not None:
                    rows.append(row)
                    if isinstance(row, ConnectionRow) and (row.dissector is not None or row.tls is not None):
                        rows_of[flow] = None

    for block in blocks:
        for key in [key for key in block.flows if rows_of.get(min(key, reverse_key(key)), ()) is None]:
            del block.flows[key]
        block.control &= block.flows.keys()
        batches = engine.feed(msgspec.structs.replace(block, findings=[]))
        for event in engine.events:
            key = event.key
            flow_of[event.name] = flow = min(key, reverse_key(key))
            rows_of.setdefault(flow, [])
        take(batches)
        for name in engine.endpoints:
            rows_of[flow_of[name]] = None
    take(engine.end())
    return rows_of


def with_secrets(inputs: Inputs, options: Options, found: Iterable[tuple[Position, bytes]]) -> Options:
    """Return the options with the secrets found in captures, in order, and with the findings about them."""
    secrets = deepcopy(options.key_logs.secrets)
    findings = [*options.key_logs.findings]
    for position, log in found:
        findings += add_key_log(secrets, BytesIO(log), printable(inputs.paths[position[0]]), position)
    return msgspec.structs.replace(options, key_logs=KeyLogs(secrets, tuple(findings)))


def fact_rules(options: Options) -> Facts:
    """Return the rules across connections of a run, without facts."""
    return rule_engine(options.dissectors(show_secrets=options.show_secrets), options).facts


def evaluate(
    facts: Iterable[RuleFact], options: Options, newest: int | None = None, wait: EmitFact | None = None
) -> Iterator[FindingRow | JourneyRow]:
    """Yield the findings and journeys of key rules, from (rule, key, fact), sorted by rule, key and place of the fact.

    In a stream that has reached the time `newest`, more facts of a key may follow: `wait` receives the facts to be evaluated with those.
    """
    rules = rule_engine(options.dissectors(show_secrets=options.show_secrets), options)
    for (rule, key), emitted in groupby(facts, itemgetter(0, 1)):
        idle_ns = rules.facts.idle_ns(rule)
        for stretch in stretches(collected((fact for _, _, fact in emitted), idle_ns), idle_ns):
            if wait is not None and newest is not None and not _is_settled(stretch, idle_ns, newest):
                for fact in stretch:
                    wait(rule, key, fact)
            else:
                rules.facts.evaluate(rule, key, stretch)
                yield from (row for _, row in rules.take())


def join_legs(anchors: Iterable[RuleFact], options: Options, emit: EmitFact, *, goes_on: bool = False) -> Iterator[FindingRow | JourneyRow]:
    """Yield the findings about legs of paths, from (rule, key, fact) of anchors, sorted by place; `emit` receives facts of inner legs.

    In a stream that goes on, it also receives the state so far: add it to the anchors of the next batch.
    """
    rules = rule_engine(options.dissectors(show_secrets=options.show_secrets), options)
    tables = rules.facts.legs
    for rule, key, fact in anchors:
        if fact.what == JOINED:
            tables[rule] = fact.values["table"]
        elif fact.what != INNER:
            tables[rule].add(key, fact)
    rules.report_legs(complete=goes_on)
    for rule, table in tables.items():
        for outer, fact in table.inner():
            emit(rule, outer, fact)
        if goes_on:
            emit(rule, "", table.suspend())
    yield from (row for _, row in rules.take())


def of_paths(facts: Iterable[RuleFact], joined: Iterable[RuleFact]) -> Iterator[RuleFact]:
    """Yield the facts to evaluate: no anchors, and those of inner legs marked. `joined` is what `join_legs` emitted."""
    outer_of = {fact.where.connection: outer for _, outer, fact in joined if fact.what == INNER}
    for rule, key, fact in facts:
        if not rule.endswith(OF_LEGS):
            outer = outer_of.get(fact.where.connection)
            yield rule, key, fact if outer is None else of_leg(fact, outer)


def settled_before(idle_ns: int, newest: int) -> int:
    """Return the time before which no future fact can be in a stretch, in a stream that has reached the time `newest`.

    Facts of the end of a connection come when it is over, with the time of its last packet.
    """
    return newest - idle_ns - IDLE_CONNECTION_NANOSECONDS - LATE_NANOSECONDS


def _is_settled(stretch: Sequence[Fact], idle_ns: int, newest: int) -> bool:
    """Return True when no future fact can belong to a stretch."""
    return max(map(end_of, stretch)) < settled_before(idle_ns, newest)
