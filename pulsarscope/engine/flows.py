"""The composition flow by flow: what the tasks of a cluster do, of which each has all packets of some 4-tuples, and no others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from io import BytesIO
from itertools import groupby, takewhile
from operator import itemgetter
from typing import Any

import msgspec

from pulsarscope.analysis import LOSS_CODES, EmitFact, RuleEngine, keep
from pulsarscope.capture import Block, Inputs
from pulsarscope.dissect.rules import Fact
from pulsarscope.engine.local import Options, Run
from pulsarscope.engine.snapshot import Shared
from pulsarscope.inputs.key_logs import KeyLogs, take_key_log
from pulsarscope.inputs.tls_secrets import Position
from pulsarscope.model.findings import Finding
from pulsarscope.model.flow import reverse_key
from pulsarscope.model.limits import CLOSED_CONNECTIONS_MAX, IDLE_CONNECTION_NANOSECONDS
from pulsarscope.model.records import ConnectionRow, FindingRow, RawFrame, Row
from pulsarscope.model.text import printable
from pulsarscope.protocols import make_dissectors
from pulsarscope.tcp import Assembler

__all__ = ["LOSS_CODES", "Fact", "FlowRun", "Glance", "OpenFlow", "check_options", "evaluate", "with_secrets"]


def check_options(options: Options) -> None:
    """Raise UsageError when a run cannot be carried out with these options: before anything starts, not in some task."""
    Run(Inputs([], 0, []), options)


LATE_NANOSECONDS = 600_000_000_000
"""A file of a stream may have packets so much older than those of files before it: some are rotated later, or take longer on their way."""

CLOSED_FILES = CLOSED_CONNECTIONS_MAX.bit_length()
"""So many files of its source later no connection waits for stray packets any more: the bound is halved with each."""


class OpenFlow(msgspec.Struct, frozen=True):
    """A 4-tuple whose connection has not finished when a batch of a stream ends."""

    source: str | None
    time: int
    """Of its latest packet, nanoseconds since the epoch."""
    file: int
    """The last one with a packet of it."""
    closed: bool
    """Only stray packets may come."""
    state: bytes

    def is_over(self, newest: int, inputs: Inputs) -> bool:
        """Whether no packet of the connection can come, when its source has come to this time and these are the files so far."""
        silent = newest - self.time > IDLE_CONNECTION_NANOSECONDS + LATE_NANOSECONDS
        return silent or (self.closed and sum(1 for _ in _following(inputs, self.file, len(inputs.paths))) + 1 >= CLOSED_FILES)


def _following(inputs: Inputs, file: int, end: int) -> Iterator[int]:
    """The files behind this one, before that one, of the same source: in a stream the hosts take turns."""
    source = inputs.source(file)
    return (index for index in range(file + 1, end) if inputs.source(index) == source)


class FlowRun(Run):
    """One decode of some flows, one after the other, of which each has all its packets here: what one process of a cluster does.

    All packets of a flow, then its end; or, of a stream, those of a batch, and then `suspend` gives what the next batch can `resume`.
    """

    def __init__(self, inputs: Inputs, options: Options, emit_fact: EmitFact, lossy: int | None = None) -> None:
        """Nothing is read.

        Args:
            inputs: the captures of the whole run.
            options: those of the whole run.
            emit_fact: as for `Run`.
            lossy: the first file of which a finding says that it lacks packets of whatever connection; None: no file does.
        """
        super().__init__(inputs, options, emit_fact=emit_fact)
        self._lossy = lossy
        self._assembler = Assembler()
        self._file: int | None = None

    def flow(self, blocks: Iterable[Block]) -> Iterator[list[Row | RawFrame]]:
        """The rows of blocks with packets of one 4-tuple of one source, in order."""
        for block in blocks:
            file = self._file
            # The files between have nothing of the flow, but end, too.
            for index in [block.file] if file is None else _following(self.inputs, file, block.file + 1):
                self._enter(index)
                if file is not None:
                    yield from self.joined((self._ending(self._assembler.begin_file(index)),))
            self._file = block.file
            yield from self._rows(self._assembler.feed(block), block.findings)

    def end(self) -> Iterator[list[Row | RawFrame]]:
        """All packets of the flow were there: the rest of its rows."""
        self._enter(len(self.inputs.paths))
        yield from self.joined((self._ending(self._assembler.finish()),))
        self._assembler, self._file = Assembler(), None

    def suspend(self) -> OpenFlow | None:
        """What is open of the flow, behind the last packet of a file; None when nothing is. This run is done with it."""
        self._forget_ended()
        connection = self._assembler.open
        left = None
        if connection is not None:
            self._assembler.drop_delivered()
            source = self._timelines[connection.name].source
            state = self._shared(source).dumps((self._assembler, self._file, self._tables))
            left = OpenFlow(source, connection.end, self._file or 0, connection.ended, state)
        self._go_on_with(Assembler(), None, [{} for _ in self._tables])
        return left

    def resume(self, flow: OpenFlow) -> None:
        """Take up a flow that a run with the same options has suspended."""
        self._go_on_with(*self._shared(flow.source).loads(flow.state))

    def _shared(self, source: str | None) -> Shared:
        """What connections of a source refer to and each process makes for itself: settings, dissectors and what is in them."""
        settings = self._settings[source]
        named: dict[str, object] = {"settings": settings, "keys": settings.private_keys, "decoders": settings.payload_decoders}
        named |= {"rule engine": self._rule_engine, "secrets": self._secrets}
        if self._rule_engine is not None:
            named |= {f"rules of {name}": rule_set for name, rule_set in self._rule_engine.rule_sets.items()}
        for dissector in self.dissectors.values():
            named |= {dissector.name: dissector, **{f"{dissector.name} {name}": one for name, one in vars(dissector).items()}}
        return Shared(named)

    @property
    def _tables(self) -> tuple[dict[str, Any], ...]:
        """What there is by connection."""
        return self._timelines, self._recognised, {} if self._rule_engine is None else self._rule_engine.connections

    def _go_on_with(self, assembler: Assembler, file: int | None, tables: Sequence[Mapping[str, Any]]) -> None:
        self._assembler, self._file = assembler, file
        for mine, theirs in zip(self._tables, tables, strict=True):
            mine.clear()
            mine.update(theirs)

    def whole(self, findings: Sequence[Finding]) -> list[Row | RawFrame]:
        """Rows of findings about no connection."""
        return self._tallied(self._finding_rows(findings))

    def known(self, rows: Sequence[Row]) -> list[Row | RawFrame]:
        """Rows that `strangers` has found, as far as they are asked for."""
        self.connections += sum(type(row) is ConnectionRow for row in rows)
        return [row for row in self._tallied([*rows]) if not isinstance(row, RawFrame) and row.kind in self._options.records]

    def _enter(self, file: int) -> None:
        """What was said at the end of the files before is known."""
        if self._rule_engine is not None:
            self._rule_engine.lost = self._lossy is not None and self._lossy < file


class Glance(Run):
    """A first look into one file: which connections need not be decoded, because nobody knows their protocol."""

    def __init__(self, inputs: Inputs, options: Options) -> None:
        """`inputs` and `options` are those of the whole run."""
        kinds = frozenset({ConnectionRow.kind, FindingRow.kind})
        super().__init__(inputs, msgspec.structs.replace(options, records=kinds, payloads=False, payload=None, rules=False))

    def strangers(self, blocks: Iterable[Block]) -> dict[bytes, list[Row] | None]:
        """All rows of each 4-tuple without any connection of a known protocol, by the lower flow key; None for the other 4-tuples.

        They hold if no other file has packets of it. What is TLS may be more than is seen here.
        """
        assembler = Assembler()
        flow_of: dict[str, bytes] = {}
        found: dict[bytes, list[Row] | None] = {}

        def take(rows: Iterable[Row | RawFrame]) -> None:
            for row in rows:
                if isinstance(row, Row) and row.connection is not None:
                    flow = flow_of[row.connection]
                    kept = found[flow]
                    if kept is not None:
                        kept.append(row)
                        if isinstance(row, ConnectionRow) and (row.dissector is not None or row.tls is not None):
                            found[flow] = None

        for block in blocks:
            for key in [key for key in block.flows if found.get(min(key, reverse_key(key)), ()) is None]:
                del block.flows[key]
            block.control &= block.flows.keys()
            events = assembler.feed(block)
            for event in events:
                key = event.connection.key
                flow_of[event.connection.name] = flow = min(key, reverse_key(key))
                found.setdefault(flow, [])
            for rows in self._rows(events, ()):
                take(rows)
            for name in self._recognised:
                found[flow_of[name]] = None
        for rows in self.joined((self._ending(assembler.finish()),)):
            take(rows)
        return found


def with_secrets(inputs: Inputs, options: Options, found: Iterable[tuple[Position, bytes]]) -> Options:
    """The options with the secrets that captures bring, in their order, and with what is wrong with them."""
    secrets = deepcopy(options.key_logs.secrets)
    findings = [*options.key_logs.findings]
    for position, log in found:
        findings += take_key_log(secrets, BytesIO(log), printable(inputs.paths[position[0]]), position)
    return msgspec.structs.replace(options, key_logs=KeyLogs(secrets, tuple(findings)))


def evaluate(
    facts: Iterable[tuple[str, str, Fact]], options: Options, newest: int | None = None, wait: EmitFact | None = None
) -> Iterator[FindingRow]:
    """The findings of the rules that look across connections, from (rule, key, fact), sorted by rule, key and place of the fact.

    A stream that has come to the time `newest` may have more to tell of a key: `wait` takes the facts that are to be judged with that.
    """
    rule_engine = RuleEngine(make_dissectors(show_secrets=options.show_secrets), {}, {})
    for (rule, key), told in groupby(facts, itemgetter(0, 1)):
        kept: list[Fact] = []
        for _, _, fact in told:
            keep(kept, fact)
        count = len(kept)
        if wait is not None and newest is not None:
            count = _settled(kept, rule_engine.idle_ns(rule), newest)
            for fact in kept[count:]:
                wait(rule, key, fact)
        if count:
            yield from rule_engine.evaluate(rule, key, kept[:count])


def _settled(facts: Sequence[Fact], idle_ns: int, newest: int) -> int:
    """How many of the facts of a key, the first ones, are judged without those behind them, and without those that are yet to come.

    What a connection leaves behind is told when it is over, of the time of its last packet.
    """
    told = newest - idle_ns - IDLE_CONNECTION_NANOSECONDS - LATE_NANOSECONDS
    times = [*takewhile(lambda time: time < told, (fact.where.time for fact in facts))]
    following = [*(fact.where.time for fact in facts[1 : len(times) + 1]), newest]
    return max((index for index, (time, then) in enumerate(zip(times, following, strict=False), 1) if then - time > idle_ns), default=0)
