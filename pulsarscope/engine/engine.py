"""The engine: blocks of packets in, rows out, in the order of their moments. Every way of running drives this engine.

Each call that yields rows returns an iterator of `RowBatch`es, which must be exhausted before the next call. A part of a run is what one
call yields: the rows in order, then findings of the layers below, then those of the rules. An engine that shares a run with others
(`share`) decodes only some connections, and gives each row a key by which the parts of all engines are merged (`parallel`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from itertools import chain, compress
from typing import TYPE_CHECKING, Any

from pulsarscope.capture import Block, Inputs
from pulsarscope.dissect.contract.dissector import Dissector
from pulsarscope.dissect.contract.legs import ANCHOR, AnchorRow
from pulsarscope.dissect.contract.session import SessionSettings
from pulsarscope.dissect.plugins.registry import finding_codes, payload_decoders
from pulsarscope.engine.column_rows import PAYLOADS_MAX_BYTES, opens_messages, ordered_rows_type, steps_in_rows
from pulsarscope.engine.connection import Settings
from pulsarscope.engine.options import Options
from pulsarscope.engine.ordering import LOCATED, RowKey, Step, in_order, in_stretches
from pulsarscope.engine.resting_connections import RestingConnections
from pulsarscope.engine.row_batch import Closed, KeyedFact, RowBatch, Totals
from pulsarscope.engine.short_connections import ConnectionShare, ShortConnections
from pulsarscope.engine.timelines import KeyedRows, Timelines
from pulsarscope.inputs.key_logs import Secrets, add_key_log
from pulsarscope.inputs.private_keys import passwords, rsa_keys
from pulsarscope.model.errors import UsageError
from pulsarscope.model.findings import Finding
from pulsarscope.model.limits import CLOSED_CONNECTION_NANOSECONDS, MEMORY_MAX_BYTES
from pulsarscope.model.ordered_rows import others, split
from pulsarscope.model.records import ROWS, ConnectionRow, ExchangeRow, FindingRow, FrameRow, MessageRow, finding_row
from pulsarscope.model.text import printable
from pulsarscope.tcp import Assembler, ConnectionEvents

if TYPE_CHECKING:
    from pulsarscope.engine.rule_engine import CollectFacts, EmitFact, RuleEngine
    from pulsarscope.engine.snapshot import Shared

STEPS_TOGETHER = 256
"""Ends of connections whose rows are made together."""

_OF_FILES: RowKey = (LOCATED, -1)
"""Key of findings that concern no connection."""


class Engine:
    """Connections of one vantage point after the other. Feed it blocks in order, end each vantage point, and finish it."""

    def __init__(
        self,
        inputs: Inputs,
        options: Options,
        *,
        totals: Totals | None = None,
        emit_fact: EmitFact | None = None,
        collect: CollectFacts | None = None,
        share: ConnectionShare | None = None,
    ) -> None:
        """Prepare a run; nothing is read yet.

        Args:
            inputs: captures of the run.
            options: options of the run.
            totals: receives the counts.
            emit_fact: receives the facts of rules across connections, if another engine evaluates them.
            collect: receives them packed, instead of `emit_fact`, for `add_facts` of that engine.
            share: the connections to decode, if other engines decode the others; rows then have keys. The first engine reports findings
                about files, and counts packets.

        Raises:
            UsageError: the options cannot be carried out.
        """
        self.totals = totals or Totals()
        self.totals.start = inputs.start
        self.events: Sequence[ConnectionEvents] = ()
        """Results of the latest block, by connection."""
        self._inputs = inputs
        self._options = options
        self._share = share
        self._first = share is None or not share.number
        if not (made := options.dissectors(show_secrets=options.show_secrets)):
            raise UsageError("a run needs a dissector")
        self.dissectors: dict[str, Dissector] = {dissector.name: dissector for dissector in made}
        for dissector in made:
            dissector.passwords = passwords(options.passwords)
        self._timelines = Timelines(inputs, options)
        self.endpoints = self._timelines.endpoints
        """(client, server) of the recognised connections that had not ended before the latest part."""
        self.dissector_of = self._timelines.dissector_of
        """Dissector name of each of these connections."""
        self.has_few_frames = self._timelines.has_few_frames
        self.place, self.in_tls, self.preamble = self._timelines.place, self._timelines.in_tls, self._timelines.preamble
        self._rules = self._rule_engine(emit_fact, collect) if options.evaluates else None
        evaluated = frozenset[str]() if self._rules is None else self._rules.kinds
        handed_on = options.records | ({ANCHOR} if options.anchors else frozenset())
        kinds = handed_on | evaluated
        self._secrets = Secrets(options.key_logs.secrets)
        in_order = ordered_rows_type(options, kinds, evaluated) is not None
        if in_order:
            kinds |= {FrameRow.kind}  # frame rows show the positions of the other rows among those in columns
        session = _session_settings(options, kinds)
        codes = finding_codes(made, rules=False)
        self.in_columns = in_order or opens_messages(options, kinds)
        """True when frames, or the messages in them, stay in the columns of a compiled reader."""
        if share is not None:  # keys are for rows that rules have examined
            self.in_columns = in_order and options.evaluates and MessageRow.kind not in kinds
        settings = Settings(made, codes, session, self._forced(options), None, options.raw, self._secrets, options.places, self.in_columns)
        self._timelines.configure(settings, evaluated)
        reads_short = self._timelines.reads_short
        self._short = ShortConnections(made[0], inputs, self._timelines, self.totals, share) if reads_short else None
        self._rows_max = options.rows_max or sys.maxsize
        self._unheard = () if MessageRow.kind in evaluated else self._timelines.message_types
        """Types of rows that no rule requires, and of which there may be very many."""
        types = {**ROWS, MessageRow.kind: self._timelines.message_type, ANCHOR: AnchorRow}
        self._for_rules = {Closed, *(made for kind, made in types.items() if kind not in handed_on | {FindingRow.kind})}
        """Types of rows that exist only for the rules."""
        self._assembler = Assembler()
        self.resting = RestingConnections()
        """Closed connections of the snapshot that have not been needed yet."""
        self.progress = 0, 0, 0
        """File, bytes read of it, and last packet."""
        self.settled = 0
        """Time up to which the latest part settles a live run; 0 for other parts."""

    def _rule_engine(self, emit_fact: EmitFact | None, collect: CollectFacts | None) -> RuleEngine:
        from pulsarscope.engine.rule_engine import rule_engine  # noqa: PLC0415 - a run without rules starts quicker without it

        return rule_engine(self.dissectors.values(), self._options, self.endpoints, self.dissector_of, emit_fact, collect)

    def _forced(self, options: Options) -> dict[int, Dissector]:
        forced = dict.fromkeys(options.ports, next(iter(self.dissectors.values())))
        for port, name in options.decode_as.items():
            if name not in self.dissectors:
                message = f"no dissector is named {name!r}: there are {', '.join(self.dissectors)}"
                raise UsageError(message)
            forced[port] = self.dissectors[name]
        return forced

    # ---- a run

    def begin(self) -> Iterator[RowBatch]:
        """Yield the rows that are known before any file is read."""
        if findings := [*self._inputs.findings, *self._options.key_logs.findings]:
            yield self.report(findings)

    def feed(self, block: Block, secrets: Iterable[tuple[int, bytes]] = ()) -> Iterator[RowBatch]:
        """Decode a block.

        Args:
            block: the next packets of a file.
            secrets: TLS key logs found in the file, each with the number of packets before it.
        """
        if self._first:
            self.totals.packets += block.packets
            self.totals.fragmented = self.totals.fragmented or bool(block.fragments)
        self.progress = block.file, block.bytes_read, block.last_packet
        self.settled = 0
        for packets_before, log in secrets:
            place = block.file, packets_before
            block.findings += add_key_log(self._secrets, BytesIO(log), printable(self._inputs.paths[block.file]), place)
        following_start = self._inputs.following_start(block.file)
        if self.resting:
            time = block.last_time if following_start is None else min(block.last_time, following_start)
            self._wake(block.flows, time - 2 * CLOSED_CONNECTION_NANOSECONDS, self._assembler.closed_room(len(block.control)))
        if self._short is None:
            self.events = self._assembler.feed(block, following_start, len(self.resting))
        else:
            self.events = self._short.feed(block, following_start, len(self.resting), self._assembler)
        return self._advance(self.events, self._finding_rows(block.findings))

    def settle(self, time: int, *, skipped: bool = False) -> Iterator[RowBatch]:
        """Yield what is due at this time of the capture, without a packet; nanoseconds since the epoch.

        `skipped`: packets of the capture were left out before the latest block.
        """
        self.settled = time
        if skipped and self._short is not None:
            self._short.hand_over(self._assembler)
        if events := self._assembler.expire(time, skipped=skipped):
            yield from self._advance(events, [])
        if self._rules is not None:
            self._rules.settle(time)
        found = self._reported()
        yield self._batch([row for _, row in found], [key for key, _ in found])

    def waiting(self) -> tuple[int, int]:
        """Return the number of streams that wait for missing bytes, and the number of bytes that wait behind them."""
        return self._assembler.waiting()

    def end(self) -> Iterator[RowBatch]:
        """End all connections: anything that follows is another vantage point."""
        self.settled = 0
        self._wake()
        finished = () if self._short is None else self._timelines.finished(self._short.end(self._assembler))
        events = self._assembler.finished()
        self._assembler = Assembler()
        return self._end(events, finished)

    def end_idle(self, time: int) -> Iterator[RowBatch]:
        """End the connections that get no packets captured at `time` or later; nanoseconds since the epoch."""
        self.settled = 0
        if self._short is not None:
            self._short.hand_over(self._assembler, closed=True)
        self._wake(time=time - CLOSED_CONNECTION_NANOSECONDS)
        return self._end(self._assembler.finish_idle(time))

    def finish(self) -> Iterator[RowBatch]:
        """Yield the findings and journeys across connections, unless another engine evaluates them: the run has ended."""
        if self._rules is not None:
            for _ in self._rules.facts.finish_journeys():
                yield self._batch([row for _, row in self._rules.take()])
            self._rules.finish()
            yield self._batch([row for _, row in self._rules.take()])

    def add_facts(self, facts: Sequence[KeyedFact], settled: int = 0) -> RowBatch:
        """Take facts that other engines emitted, in order; return the findings that they cause before the end of the run.

        The findings belong to a part with this value of `settled`.
        """
        if self._rules is None:
            return RowBatch([], *self.progress)
        self._rules.facts.add_each(facts, self._rules.set_key)
        if settled:
            self._rules.settle(settled)
        found = self._rules.take()
        rows = self.count(row for _, row in found)
        return RowBatch(rows, *self.progress, None, [key for key, _ in found] if rows else [])

    def report(self, findings: Sequence[Finding]) -> RowBatch:
        """Return findings that concern no connection."""
        rows = self._finding_rows(findings)
        if self._rules is not None:
            self._rules.feed(rows)
        return self._batch(rows, [_OF_FILES] * len(rows)) if self._first else self._batch([])

    def emit_unread(self, rows: Iterable[ConnectionRow]) -> None:
        """Report connections that another engine found to have no known protocol to the rules across connections."""
        if self._rules is not None:
            for row in rows:
                self._rules.emit_unread(row)

    def count(self, rows: Iterable[Any]) -> list[Any]:
        """Count the findings among rows, and remove them if they were not requested; consumers of columns remove them themselves."""
        rows = list(rows)
        if self._timelines.in_columns:
            self.totals.count(row for row in others(rows) if type(row) is FindingRow)
            return rows
        if FindingRow not in set(map(type, rows)):
            return rows
        self.totals.count([row for row in rows if type(row) is FindingRow])
        return rows if FindingRow.kind in self._options.records else [row for row in rows if type(row) is not FindingRow]

    # ---- state

    @property
    def unfinished(self) -> int:
        """Number of connections of any protocol that may still get packets."""
        return self._assembler.unfinished + len(self.resting)

    def set_loss(self, *, lost: bool) -> None:
        """Tell the rules whether a capture reports that packets of unspecified connections are missing."""
        if self._rules is not None:
            self._rules.lost = lost

    def forget(self) -> None:
        """Drop the data for comparing later packets of the same file: none will come."""
        self._assembler.drop_delivered()

    def snapshot(self) -> bytes:
        """Return the open state, for `restore` of an engine with the same options; this engine is then empty.

        Secrets found in captures, counts and facts are not part of it.
        """
        import pickle  # noqa: PLC0415 - as in `_shared`

        self._timelines.forget_ended()
        if self._short is not None:
            self._short.hand_over(self._assembler, closed=True)
        sources = [*self._timelines.settings]
        shared = self._shared(sources)
        self.resting.add(self._assembler, self._tables, shared)
        state = shared.dumps((self._assembler, self._tables))
        self._go_on_with(Assembler(), [{} for _ in self._tables])
        resting, self.resting = self.resting, RestingConnections()
        return pickle.dumps((sources, state, resting))

    def restore(self, snapshot: bytes) -> None:
        """Take over the open state of an engine with the same options. Accept only bytes that a process of the same run has made."""
        import pickle  # noqa: PLC0415 - as in `_shared`

        sources, state, self.resting = pickle.loads(snapshot)  # noqa: S301 - as said
        self._go_on_with(*self._shared(sources).loads(state))

    def _wake(self, flows: Iterable[bytes] = (), time: int = sys.maxsize, room: int = sys.maxsize) -> None:
        for state in self.resting.wake(flows, time, room):
            closed, tables = self._shared(self._timelines.settings).loads(state)
            self._assembler.put_back(closed)
            for mine, theirs in zip(self._tables, tables, strict=True):
                mine.update(theirs)

    def _shared(self, sources: Iterable[str | None]) -> Shared:
        """Objects that connections refer to, and that each process makes for itself: settings, dissectors and their contents."""
        from pulsarscope.engine.snapshot import Parts, Shared  # noqa: PLC0415 - 2 ms of a start, for few runs

        named: dict[str, object] = Parts(self.dissectors)
        named |= {f"settings {source!r}": self._timelines.settings[source] for source in sources}
        session = self._timelines.settings[None].session
        named |= {"session settings": session, "keys": session.private_keys, "decoders": session.payload_decoders}
        named |= {"rule engine": self._rules, "secrets": self._secrets}
        if self._rules is not None:
            named |= {f"rules of {name}": rule_set for name, rule_set in self._rules.rule_sets.items()}
        for dissector in self.dissectors.values():
            named |= {dissector.name: dissector, **{f"{dissector.name} {name}": value for name, value in vars(dissector).items()}}
        return Shared(named)

    @property
    def _tables(self) -> tuple[dict[str, Any], ...]:
        """State by connection."""
        return self._timelines.table, self._timelines.recognised, {} if self._rules is None else self._rules.connections

    def _go_on_with(self, assembler: Assembler, tables: Sequence[Mapping[str, Any]]) -> None:
        self._assembler = assembler
        for mine, theirs in zip(self._tables, tables, strict=True):
            mine.clear()
            mine.update(theirs)
        self._timelines.recount()

    # ---- a part

    def _advance(self, events: Sequence[ConnectionEvents], file_findings: list[FindingRow]) -> Iterator[RowBatch]:
        """Yield the rows of a block: in one batch, unless they are too many or hold too much payload."""
        index_of, steps, findings = self._timelines.steps(self._selected(events), MEMORY_MAX_BYTES - self._assembler.buffered_bytes)
        located: list[tuple[RowKey, Any]] = [((LOCATED, index_of[each.connection]), each.row) for each in findings if not each.counted]
        if self._rules is not None:
            self._rules.begin_part(findings)
        if self._first:
            located[:0] = [(_OF_FILES, row) for row in file_findings]
        rows: list[Any] = []
        keys: Sequence[RowKey] = ()
        for piece in self._timelines.rows(steps, index_of, keyed=self._share is not None or bool(findings)):
            if rows:
                yield self._batch(rows, keys)
            rows, keys = self._evaluated(*piece)
        if self._rules is not None:
            self._rules.end_part(file_findings)
        if found := [*located, *self._reported()]:
            rows += [row for _, row in found]
            keys = [*keys, *(key for key, _ in found)]
        yield self._batch(rows, keys)

    def _end(self, events: Sequence[ConnectionEvents], finished: Iterable[Step] = ()) -> Iterator[RowBatch]:
        """Yield rows of connections that end or are written at the end of a file or run, and findings of rules; `finished`: more steps."""
        index_of, steps, findings = self._timelines.steps(self._selected(events), MEMORY_MAX_BYTES - self._assembler.buffered_bytes)
        if self._rules is not None:
            self._rules.begin_part(findings, ends=True)
        reported = [each for each in findings if not each.counted]
        if self._timelines.in_columns and self._rules is not None:
            steps = [*steps_in_rows(steps, self._timelines.settings[None].kept())]  # the rules report on one connection after the other
        elif self._timelines.in_columns:
            for stretch in in_stretches(steps, STEPS_TOGETHER, finished):
                for part, _ in self._timelines.rows(stretch, index_of, keyed=False):
                    yield self._batch(self._evaluated(part, ())[0])
            yield self._batch([each.row for each in reported])
            return
        rows: list[Any] = []
        keys: list[RowKey] = []
        payload_bytes = 0
        stretches = in_stretches(steps, STEPS_TOGETHER, finished)
        for step in chain.from_iterable(in_order(stretch, together=False) for stretch in stretches):
            for piece, piece_keys in self._timelines.by_moments([step], index_of, keyed=self._share is not None):
                some, some_keys = self._evaluated(piece, self._keys_of_step(piece_keys))
                found = self._reported()
                rows += [*some, *(row for _, row in found)]
                keys += [*some_keys, *(key for key, _ in found)]
                payload_bytes += self._timelines.payload_bytes(some) if self._timelines.gives_payloads else 0
                while payload_bytes > PAYLOADS_MAX_BYTES or len(rows) > self._rows_max:
                    yield self._batch(rows[: self._rows_max], keys[: self._rows_max])
                    del rows[: self._rows_max], keys[: self._rows_max]
                    payload_bytes = 0
        keys += [(LOCATED, index_of[each.connection]) for each in reported]
        yield self._batch([*rows, *(each.row for each in reported)], keys)

    def _selected(self, events: Sequence[ConnectionEvents]) -> Iterable[tuple[int, ConnectionEvents]]:
        """Count connections; return those to decode."""
        if self._first:
            self.totals.note(events)
        return enumerate(events) if self._share is None else self._share.select(events)

    def _batch(self, rows: Sequence[Any], keys: Sequence[RowKey] = ()) -> RowBatch:
        """Count the findings among rows, and return the batch."""
        if self._share is None:
            keys = ()
        elif FindingRow.kind not in self._options.records and not self._timelines.in_columns:
            keys = [key for key, row in zip(keys, rows, strict=True) if type(row) is not FindingRow]
        return RowBatch(self.count(rows), *self.progress, None, keys)

    def _finding_rows(self, findings: Iterable[Finding]) -> list[FindingRow]:
        """Return rows of findings about files, not about connections."""
        return [finding_row(finding, self._inputs.source(finding.file)) for finding in findings]

    # ---- rules

    def _evaluated(self, rows: list[Any], keys: Any) -> KeyedRows:
        """Feed rows to the rules, and remove those that exist only for the rules; `keys` may be `OrderedKeys`."""
        ordered, following = split(rows)
        if ordered is not None:
            written = FrameRow.kind in self._options.records
            if self._rules is not None:
                self._rules.feed(rows, keys)
            elif written:
                return rows, keys
            kept = ordered.without([*self._for_rules], frames=written, exchanges=ExchangeRow.kind in self._options.records)
            if written or (self._options.together and not self._options.anchors and self._share is None):  # a process sends rows
                return [kept, *following], keys.each(kept) if keys else []
            return [*kept.all(), *following], keys.each(kept) if keys else []
        if self._rules is None:
            # Frames with too many messages for columns are among the rows even if nobody asked for them.
            return [row for row in rows if type(row) not in self._for_rules] if self._timelines.in_columns else rows, keys
        # By type, and without messages if no rule requires them: batches have a hundred per frame.
        if not keys:
            self._rules.feed([row for row in rows if type(row) not in self._unheard] if self._unheard else rows)
            return [row for row in rows if type(row) not in self._for_rules], keys
        heard = [type(row) not in self._unheard for row in rows]
        self._rules.feed([*compress(rows, heard)], compress(keys, heard))
        given = [type(row) not in self._for_rules for row in rows]
        return [*compress(rows, given)], [*compress(keys, given)]

    def _keys_of_step(self, keys: list[RowKey]) -> list[RowKey]:
        """Return the keys of the rows of one step, after everything that steps of the same order have caused so far."""
        return [self._rules.next_key(keys[0])] * len(keys) if keys and self._rules is not None else keys

    def _reported(self) -> list[tuple[RowKey, Any]]:
        """Take the findings and journeys of the rules."""
        return [] if self._rules is None else self._rules.take()


def _session_settings(options: Options, kinds: frozenset[str]) -> SessionSettings:
    """Return the settings of sessions that yield rows of these kinds."""
    payloads = bool({"message", "finding"} & kinds) if options.payloads is None else options.payloads
    columns, keys = options.message_columns, rsa_keys(options.private_keys)
    decoders = payload_decoders() if payloads or "message" in kinds else ()
    return SessionSettings(kinds, payloads, options.payload, columns, keys, options.schemas, decoders, options.names)
