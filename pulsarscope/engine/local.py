"""The composition: captures → blocks → connections → frames → rows. No logic of its own; every way of running calls it.

A run gives `Batch`es, one after the other. What a file leaves behind when it ends, and the run when it ends, is an `Ending`: its rows
can be put in order with those of other processes that decode other files of the same list (`pulsarscope.engine.parallel`).
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from io import BytesIO
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

import msgspec

from pulsarscope.analysis import Closed, EmitFact, RuleEngine
from pulsarscope.capture import Blocks, Inputs, PacketRecord, expand_inputs, read_blocks
from pulsarscope.capture.file_list import SOURCE_BY_INTERFACE
from pulsarscope.dissect.capabilities import GivenSchema
from pulsarscope.dissect.contract import Dissector
from pulsarscope.dissect.frames import Frame
from pulsarscope.dissect.registry import finding_codes, payload_decoders
from pulsarscope.engine.connection import EndedTimeline, Settings, Timeline
from pulsarscope.engine.ordering import FILE_SHIFT, Step, in_order, orders_of, spread
from pulsarscope.inputs.key_logs import KeyLogs, take_key_log
from pulsarscope.inputs.private_keys import KeyFile, rsa_keys
from pulsarscope.inputs.tls_secrets import Secrets
from pulsarscope.model.errors import CaptureError, UsageError
from pulsarscope.model.findings import Finding
from pulsarscope.model.flow import source_of_key
from pulsarscope.model.records import (
    ROWS,
    EntryMessages,
    FindingRow,
    FrameRow,
    MessageRow,
    RawFrame,
    Row,
    RowList,
    finding_row,
    refuse_unknown,
    row_type,
)
from pulsarscope.model.text import printable
from pulsarscope.protocols import make_dissectors
from pulsarscope.tcp import Assembler, ConnectionEvents, Place, Placement

DAMAGE_CODES = frozenset({"file-unreadable", "not-a-capture", "capture-malformed", "capture-truncated", "interface-gone"})
"""Findings that say that an input is damaged or no capture: exit code 4."""

PAYLOADS_MAX_BYTES = 16 << 20
"""Payload text that rows handed on at once may hold: a block can decompress to thousands of times its size."""

ALL_RECORDS = frozenset(ROWS)

_Ended = tuple[tuple[int, int, int], list[Row | RawFrame], int]
"""Rows of one connection that stand together; before them their order, and file and packet of the connection's first packet; behind them
the bytes of payload text."""


class Options(msgspec.Struct, frozen=True):
    """What a run is asked for."""

    records: frozenset[str] = frozenset({"frame"})
    """Row kinds wanted."""
    show_secrets: bool = False
    payloads: bool | None = None
    """Open payloads for their findings; None: when messages or findings are wanted."""
    payload: str | None = None
    """Form of MessageRow.payload: base64, hex, text; None for none."""
    message_columns: tuple[str, ...] | None = None
    """Columns of message rows wanted, in this order: the rows are then of `records.row_type`. None: whole rows."""
    rows_max: int | None = None
    """Hand on so many rows at a time; None: all that a block gives."""
    together: bool = False
    """Who takes the rows takes `records.EntryMessages` in the place of whole rows of messages, too; with `rows_max` only."""
    raw: bool = False
    """Put a RawFrame behind each FrameRow."""
    rules: bool = False
    """Let the rules of the dissectors judge what is said: their findings come as the others do."""
    live: bool = False
    """Packets come as they happen: rules speak as soon as they can, and connections that are idle or closed are let go."""
    ports: frozenset[int] = frozenset()
    """Server ports on which the first dissector is taken for granted."""
    decode_as: Mapping[int, str] = {}
    """Dissector names by server port."""
    key_logs: KeyLogs = KeyLogs()
    """Secrets of TLS connections, beside those that captures bring."""
    places: bool = False
    """Remember where in the streams of TLS connections frames lie, for `Run.place`."""
    private_keys: tuple[KeyFile, ...] = ()
    """To open what is encrypted end to end."""
    schemas: tuple[GivenSchema, ...] = ()
    """Schemas for payloads, the first that fits a topic counts."""
    source_by: str = "none"
    """How vantage points are told apart: none, dir, interface, or a regular expression for paths (`capture.expand_inputs`)."""

    @property
    def by_interface(self) -> bool:
        """Whether the interfaces of one capture are vantage points."""
        return self.source_by == SOURCE_BY_INTERFACE


class Batch(msgspec.Struct):
    """What one block of a capture gave."""

    rows: list[Row | RawFrame]
    file: int
    bytes_read: int
    last_packet: int
    prepared: Any = None
    """What another process has already made of the rows, which then stayed there."""


class Ending(msgspec.Struct):
    """What was left at the end of a file, or of the run."""

    steps: Iterable[_Ended]
    """In order. May be carried out while they are taken."""
    findings: list[tuple[tuple[int, int], list[Row | RawFrame]]]
    """Of connections, ordered by file and packet of their first packets."""


Asked = TypeVar("Asked")


class _Asked(Mapping[str, Asked]):
    """What timelines, by name, say when they are asked: most outputs ask for few or none of them."""

    def __init__(self, timelines: Mapping[str, Timeline], ask: Callable[[Timeline], Asked]) -> None:
        self._timelines = timelines
        self._ask = ask

    def __getitem__(self, name: str) -> Asked:
        return self._ask(self._timelines[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._timelines)

    def __len__(self) -> int:
        return len(self._timelines)


class _SettingsBySource(dict[str | None, Settings]):
    """By vantage point: the settings that all share, with its name."""

    def __init__(self, settings: Settings) -> None:
        self._shared = settings

    def __missing__(self, source: str | None) -> Settings:
        self[source] = made = msgspec.structs.replace(self._shared, source=source)
        return made


def _dissector_of(timeline: Timeline) -> str:
    return timeline.dissector or ""


class Run:
    """One decode of a list of inputs. Iterate it once; counts are those of the batches given so far."""

    def __init__(
        self, inputs: Inputs, options: Options, read: Callable[[str, int], Blocks] | None = None, emit_fact: EmitFact | None = None
    ) -> None:
        """Nothing is read.

        Args:
            inputs: what is read.
            options: what is asked for.
            read: gives the blocks of an input, when that is no file.
            emit_fact: takes what the rules that look across connections need, when they are carried out elsewhere.
        """
        self.inputs = inputs
        self._read = read or self._of_file
        self.severities: Counter[str] = Counter()
        self.judged = options.rules
        """Whether findings are all there are: the rules judge what is said."""
        self.complete = False
        """All has been read and given."""
        self.damaged = False
        self.packets = 0
        """Packets read so far, of any kind."""
        self.connections = 0
        """TCP connections met so far, of any protocol."""
        self.fragmented = False
        """Packets read so far were put together from IP fragments."""
        self._recognised: dict[str, Timeline] = {}
        """Connections of a known protocol that have not ended before the latest batch."""
        self.endpoints: Mapping[str, tuple[str, str]] = _Asked(self._recognised, Timeline.endpoints)
        """(client, server) of each of them."""
        self.dissector_of: Mapping[str, str] = _Asked(self._recognised, _dissector_of)
        """Name of the dissector of each of them."""
        made = make_dissectors(show_secrets=options.show_secrets)
        codes = finding_codes(made, rules=False)
        self._rule_engine = RuleEngine(made, self.endpoints, self.dissector_of, emit_fact) if options.rules else None
        kinds = options.records if self._rule_engine is None else options.records | self._rule_engine.kinds
        self.dissectors: dict[str, Dissector] = {dissector.name: dissector for dissector in made}
        self._options = options
        payloads = bool({"message", "finding"} & kinds) if options.payloads is None else options.payloads
        self._secrets = Secrets(options.key_logs.secrets)
        settings = Settings(
            made,
            codes,
            kinds,
            self._forced(options),
            None,
            payloads,
            options.payload,
            options.raw,
            options.message_columns,
            self._secrets,
            options.places,
            rsa_keys(options.private_keys),
            options.schemas,
            payload_decoders() if payloads or "message" in kinds else (),
        )
        self._settings = _SettingsBySource(settings)
        self._rows_max = options.rows_max or sys.maxsize
        columns = options.message_columns
        self._message_type = MessageRow if columns is None else row_type(MessageRow.kind, columns)
        self._messages_judged = self._rule_engine is not None and MessageRow.kind in self._rule_engine.kinds
        """A rule asks for messages."""
        types = {**ROWS, FrameRow.kind: Frame, MessageRow.kind: self._message_type}
        self._only_judged = {Closed, *(made for kind, made in types.items() if kind not in options.records | {FindingRow.kind})}
        """Types of rows that are there for the rules alone."""
        self._gives_payloads = options.payload is not None and (columns is None or "payload" in columns)
        # Not where someone looks into the rows: a rule does, and who counts their payload.
        self._together = options.together and columns is None and not (self._messages_judged or self._gives_payloads)
        self._by_connection = "frame" in options.records and "message" not in options.records
        """Rows are few for each frame, and tell where those of the next one begin."""
        self._timelines: dict[str, Timeline | EndedTimeline] = {}
        self._ended: list[str] = []

    def _forced(self, options: Options) -> dict[int, Dissector]:
        forced = dict.fromkeys(options.ports, next(iter(self.dissectors.values())))
        for port, name in options.decode_as.items():
            if name not in self.dissectors:
                message = f"no dissector is named {name!r}: there are {', '.join(self.dissectors)}"
                raise UsageError(message)
            forced[port] = self.dissectors[name]
        return forced

    def __iter__(self) -> Generator[Batch, None, None]:
        batch = Batch([], 0, 0, 0)
        for rows in self.first_rows():
            yield Batch(rows, 0, 0, 0)
        for part in self.parts(range(len(self.inputs.paths))):
            if isinstance(part, Batch):
                batch = part
                yield batch
            else:
                for rows in self.joined((part,)):
                    yield Batch(rows, batch.file, batch.bytes_read, batch.last_packet)
        if self._rule_engine is not None:
            yield Batch(self._tallied([*self._rule_engine.finish()]), batch.file, batch.bytes_read, batch.last_packet)
        self.complete = True

    def _of_file(self, path: str, file: int) -> Blocks:
        return read_blocks(path, file, by_interface=self.inputs.by_interface)

    def first_rows(self) -> Iterator[list[Row | RawFrame]]:
        """What is known before any file is read."""
        if found := [*self.inputs.findings, *self._options.key_logs.findings]:
            yield self._counted(self._finding_rows(found))

    def place(self, row: FrameRow) -> tuple[int, int]:
        """Where the bytes of a frame of the latest batch lie in its stream: start and end; see `Timeline.place`."""
        return self._recognised[row.connection or ""].place(row)

    def preamble(self, connection: str) -> tuple[int, int]:
        """How much of the streams of client and server is needed to read anything of a connection; see `Timeline.preamble`."""
        return self._recognised[connection].preamble()

    def parts(self, files: Collection[int]) -> Iterator[Batch | Ending]:
        """The batches of these files, by position in the list; and an ending after each file of the list, one of these or not."""
        assembler = Assembler()
        paths = self.inputs.paths
        recognised = len(files) < len(paths)  # someone else reads the others
        for index, path in enumerate(paths):
            if self.inputs.continues(index):
                yield self._ending(assembler.begin_file(index))
            elif index:
                yield self._ending(assembler.finish())
                assembler = Assembler()
            if index not in files:
                continue
            blocks = self._read(path, index)
            for block in blocks:
                if not (recognised or blocks.recognised) and index == len(paths) - 1:
                    # Only a pipe comes this far without being a capture: files were looked into before.
                    raise CaptureError(block.findings[0].text if block.findings else f"{path} is not a capture")
                self.packets += block.packets
                self.fragmented = self.fragmented or bool(block.fragments)
                for packets_before, log in blocks.take_secrets():
                    block.findings += take_key_log(self._secrets, BytesIO(log), printable(path), (index, packets_before))
                for rows in self._rows(assembler.feed(block), block.findings):
                    yield Batch(rows, block.file, block.bytes_read, block.last_packet)
                if self._options.live:
                    for rows in self._settled(assembler, block.last_time):
                        yield Batch(rows, block.file, block.bytes_read, block.last_packet)
            recognised = recognised or blocks.recognised
        yield self._ending(assembler.finish())

    def _settled(self, assembler: Assembler, time: int) -> Iterator[list[Row | RawFrame]]:
        """What this time of the capture, rather than a packet, brings about."""
        if events := assembler.expire(time):
            yield from self._rows(events, ())
        if self._rule_engine is not None:
            yield self._tallied([*self._rule_engine.settle(time)])

    def joined(self, endings: Iterable[Ending]) -> Iterator[list[Row | RawFrame]]:
        """The rows of several processes as one process gives them: in one list, unless they are too many or hold too much payload."""
        endings = tuple(endings)
        rows: list[Row | RawFrame] = []
        payload_bytes = 0
        for _, some, size in merge(*[ending.steps for ending in endings], key=itemgetter(0)):
            rows += some
            payload_bytes += size
            while payload_bytes > PAYLOADS_MAX_BYTES or len(rows) > self._rows_max:
                yield rows[: self._rows_max]
                del rows[: self._rows_max]
                payload_bytes = 0
        for _, some in merge(*[ending.findings for ending in endings], key=itemgetter(0)):
            rows += some
        if rows:
            yield rows

    def _rows(self, events: Sequence[ConnectionEvents], findings: Sequence[Finding]) -> Iterator[list[Row | RawFrame]]:
        """The rows of one block, in the order of their moments; in one list, unless they are too many or hold too much payload."""
        steps, found = self._steps(events)
        located = [*self._finding_rows(findings), *(row for _, some in found for row in some)]
        if len(events) > 1 and self._by_connection:
            return self._carry_out_by_connection(steps, located)
        if len(events) > 1 or self._gives_payloads:
            steps = in_order(steps, together=not self._gives_payloads)
        return self._carry_out(steps, located, together=self._together)

    def _ending(self, events: Sequence[ConnectionEvents]) -> Ending:
        """The rows of connections that end, or are written, with a file or with the run."""
        steps, found = self._steps(events)
        first_of = {event.connection.name: (event.connection.file, event.connection.packet) for event in events}

        def carried_out() -> Iterator[_Ended]:
            for step in in_order(steps, together=False):
                order, name, _ = step
                for rows in self._carry_out([step], ()):
                    if rows:
                        yield (order, *first_of[name]), rows, self._payload_bytes(rows) if self._gives_payloads else 0

        findings = [(first_of[name], self._counted(some)) for name, some in found]
        return Ending(carried_out(), findings)

    def _steps(self, events: Iterable[ConnectionEvents]) -> tuple[list[Step], list[tuple[str, list[Row | RawFrame]]]]:
        """What the connections have to do, and what was found about them, by name."""
        self._forget_ended()
        steps: list[Step] = []
        found: list[tuple[str, list[Row | RawFrame]]] = []
        for event in events:
            connection = event.connection
            name = connection.name
            timeline = self._timelines.get(name)
            if timeline is None:
                self.connections += 1
                source = source_of_key(connection.key)
                settings = self._settings[self.inputs.source(connection.file) if source is None else source]
                timeline = self._timelines[name] = Timeline(connection, settings)
            last = connection.last_file << FILE_SHIFT | connection.last_packet
            if isinstance(timeline, EndedTimeline):
                if event.finished:
                    steps.append((last, name, None))
            else:
                frames = timeline.feed(event.items)
                if frames:
                    steps.append((last, name, frames))
                if event.ended:
                    steps.append((last, name, timeline.close(connection.last_packet)))
                    steps.append((last, name, None))
                if event.finished:
                    steps.append((last, name, None))
                if timeline.dissector is not None:
                    self._recognised[name] = timeline
            if findings := timeline.findings(event.findings):
                found.append((name, [finding_row(finding, timeline.source, timeline.dissector) for finding in findings]))
        return steps, found

    def _carry_out(
        self, steps: Iterable[Step], located: Iterable[Row | RawFrame], *, together: bool = False
    ) -> Iterator[list[Row | RawFrame]]:
        rows = RowList(later=self._rows_max < sys.maxsize, together=together)
        payload_bytes = 0
        for _, name, step in steps:
            timeline = self._timelines[name]
            if isinstance(timeline, EndedTimeline):
                timeline.finish(rows)
                del self._timelines[name]
            elif step is None:
                self._close(name, timeline, rows)
                self._ended.append(name)
                if rows.later:
                    yield from map(self._counted, rows.take(self._rows_max))
            else:
                for part in self._parts(step):
                    before = len(rows)
                    timeline.observe(part, rows)
                    if rows.later:
                        yield from map(self._counted, rows.take(self._rows_max))
                        payload_bytes = 0
                        continue
                    if self._gives_payloads:
                        payload_bytes += self._payload_bytes(rows[before:])
                    while payload_bytes > PAYLOADS_MAX_BYTES or len(rows) > self._rows_max:
                        yield self._counted(rows[: self._rows_max])
                        del rows[: self._rows_max]
                        payload_bytes = 0
        rows += located
        yield self._counted(rows[:])

    def _carry_out_by_connection(self, steps: Iterable[Step], located: Iterable[Row | RawFrame]) -> Iterator[list[Row | RawFrame]]:
        """As `_carry_out` of the steps in order, but one connection after the other, and then the rows are put in order: twice as fast."""
        rows: list[Row | RawFrame] = []
        orders: list[int] = []
        for order, name, frames in steps:
            timeline = self._timelines[name]
            before = len(rows)
            if isinstance(timeline, EndedTimeline):
                timeline.finish(rows)
                del self._timelines[name]
            elif frames is None:
                self._close(name, timeline, rows)
                self._ended.append(name)
            else:
                orders += orders_of(order, frames)
                timeline.observe(frames, rows)
                if len(rows) != len(orders):
                    spread(orders, frames, rows[before:])
                continue
            orders += [order] * (len(rows) - before)
        rows = [rows[index] for index in sorted(range(len(rows)), key=orders.__getitem__)]
        while len(rows) > self._rows_max:
            yield self._counted(rows[: self._rows_max])
            del rows[: self._rows_max]
        rows += located
        yield self._counted(rows)

    def _close(self, name: str, timeline: Timeline, rows: list[Any]) -> None:
        """No more is said on this connection."""
        self._timelines[name] = ended = timeline.end(rows)
        row = ended.so_far() if self._rule_engine is not None else None
        if row is not None:
            rows.append(Closed(row))

    def _parts(self, frames: Sequence[Frame]) -> Iterable[Sequence[Frame]]:
        """The frames one by one where each may give very many rows."""
        return zip(frames) if self._rows_max < sys.maxsize and "message" in self._options.records else (frames,)

    def _finding_rows(self, findings: Iterable[Finding]) -> list[Row | RawFrame]:
        """Of findings about files, not about one connection."""
        return [finding_row(finding, self.inputs.source(finding.file)) for finding in findings]

    def _payload_bytes(self, rows: list[Any]) -> int:
        return sum(len(row.payload or "") for row in rows if type(row) is self._message_type)

    def _forget_ended(self) -> None:
        """What ended in the batch before the one to come is not asked for any more."""
        for name in self._ended:
            self._recognised.pop(name, None)
        self._ended.clear()

    def _counted(self, rows: list[Row | RawFrame]) -> list[Row | RawFrame]:
        """Have the rows judged, count the findings, and leave out what is not asked for."""
        return self._tallied(rows if self._rule_engine is None else self._judged(rows, self._rule_engine))

    def _tallied(self, rows: list[Row | RawFrame]) -> list[Row | RawFrame]:
        found = [row for row in rows if type(row) is FindingRow]
        if not found:
            return rows
        for row in found:
            self.severities[row.severity or ""] += 1
            self.damaged = self.damaged or row.code in DAMAGE_CODES
        return rows if "finding" in self._options.records else [row for row in rows if type(row) is not FindingRow]

    def _judged(self, rows: list[Any], rule_engine: RuleEngine) -> list[Row | RawFrame]:
        """The rows, and the findings of the rules about them; without what only the rules wanted."""
        # By type, and without messages where no rule asks for them: of batches there are a hundred for each frame.
        messages = (self._message_type, EntryMessages)
        found = rule_engine.feed(rows if self._messages_judged else [row for row in rows if type(row) not in messages])
        return [*(row for row in rows if type(row) not in self._only_judged), *found]


class PacketBatch(NamedTuple):
    """The packets of one block of a capture."""

    file: int
    bytes_read: int
    packets: list[tuple[PacketRecord, Place | None]]
    """As they stand in the file; with their place in a TCP connection, if they have one."""
    fragments: list[tuple[int, int]]
    """As `Block.fragments`: packets whose bytes have their place with another one."""


def packets(inputs: Inputs) -> Iterator[PacketBatch]:
    """The packets of a run's inputs, read once more for who copies them."""
    assembler, placement = Assembler(), Placement()
    for index, path in enumerate(inputs.paths):
        if inputs.continues(index):
            placement.forget(assembler.begin_file(index))
        elif index:
            assembler, placement = Assembler(), Placement()
        for block in read_blocks(path, index, records=True, by_interface=inputs.by_interface):
            places = placement.feed(block, assembler.feed(block))
            located = [(record, places.get(record.number)) for record in block.records]
            yield PacketBatch(index, block.bytes_read, located, block.fragments)


def run(inputs: Sequence[str], options: Options) -> Run:
    """Decode files, folders, globs or `-`.

    Raises:
        CaptureError: no input can be read as a capture. UsageError: the options cannot be carried out.
    """
    refuse_unknown(options.records)
    return Run(expand_inputs(inputs, options.source_by), options)


def run_blocks(name: str, blocks: Blocks, options: Options) -> Run:
    """Decode what comes from elsewhere than files, in blocks. Raises UsageError: the options cannot be carried out."""
    return Run(Inputs([name], None, []), options, lambda _path, _file: blocks)


__all__ = [
    "ALL_RECORDS",
    "Batch",
    "CaptureError",
    "Ending",
    "Options",
    "PacketBatch",
    "Run",
    "packets",
    "run",
    "run_blocks",
]
