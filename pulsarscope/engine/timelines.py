"""The connections of a run: their events in, rows in order out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain, islice, repeat
from typing import Any, TypeVar

import msgspec

from pulsarscope.capture import Inputs
from pulsarscope.dissect.contract.frames import FrameBatch
from pulsarscope.dissect.framing.column_batch import ColumnBatch
from pulsarscope.engine.column_rows import (
    PAYLOADS_MAX_BYTES,
    OrderedKeys,
    have_many_messages,
    ordered_rows_type,
    rows_in_columns,
    steps_in_rows,
)
from pulsarscope.engine.connection import Settings, Timeline
from pulsarscope.engine.ended_timeline import EndedTimeline
from pulsarscope.engine.expected_findings import Located
from pulsarscope.engine.ledger import Ledger
from pulsarscope.engine.options import Options
from pulsarscope.engine.ordering import RowKey, Step, in_order, orders_of, spread
from pulsarscope.engine.plain_connection import PlainConnection, PlainEnd
from pulsarscope.engine.row_batch import Closed
from pulsarscope.model.findings import CAPTURE_CODES, Finding
from pulsarscope.model.flow import source_of_key
from pulsarscope.model.limits import MEMORY_MAX_BYTES, WAITING_MAX_BYTES
from pulsarscope.model.records import ConnectionRow, FrameRow, MessageRow, RawFrame, finding_row, row_type
from pulsarscope.model.row_lists import EntryMessages, RowList
from pulsarscope.tcp import ConnectionEvents
from pulsarscope.tcp.connection import ClosedConnection, Connection

LARGE_FRAME_PACKETS = 8
"""Packets per frame from which frames count as large: their blocks may be large as well, because they yield few rows."""

_BEHIND = 1 << 60
"""Position of connections without events in a part."""

KeyedRows = tuple[list[Any], list[RowKey]]
"""Rows, and their keys, if they have any."""

Value = TypeVar("Value")

Recognised = Timeline | PlainConnection
"""A connection of a known protocol."""


class _Asked(Mapping[str, Value]):
    """Values of timelines by name, computed on request: most outputs request few or none of them."""

    def __init__(self, timelines: Mapping[str, Recognised], ask: Callable[[Recognised], Value]) -> None:
        self._timelines = timelines
        self._ask = ask

    def __getitem__(self, name: str) -> Value:
        return self._ask(self._timelines[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._timelines)

    def __len__(self) -> int:
        return len(self._timelines)


class _SettingsBySource(dict[str | None, Settings]):
    """Settings of connections by vantage point: the shared settings, with its name."""

    def __init__(self, settings: Settings) -> None:
        self._shared = settings

    def __missing__(self, source: str | None) -> Settings:
        self[source] = made = msgspec.structs.replace(self._shared, source=source)
        return made


def _dissector_of(timeline: Recognised) -> str:
    return timeline.dissector or ""


def _endpoints_of(timeline: Recognised) -> tuple[str, str]:
    return timeline.endpoints()


class Timelines:
    """The timelines of unfinished connections, by name."""

    def __init__(self, inputs: Inputs, options: Options) -> None:
        """Begin without any connections, for these inputs and options of a run."""
        self.table: dict[str, Timeline | EndedTimeline] = {}
        self.recognised: dict[str, Recognised] = {}
        """Connections of a known protocol that had not ended before the latest part."""
        self.endpoints: Mapping[str, tuple[str, str]] = _Asked(self.recognised, _endpoints_of)
        """(client, server) of each of these connections."""
        self.dissector_of: Mapping[str, str] = _Asked(self.recognised, _dissector_of)
        """Dissector name of each of these connections."""
        self._inputs = inputs
        self._options = options
        self._ordered_rows: Any = None
        self._rows_max = options.rows_max or sys.maxsize
        columns = options.message_columns
        self.message_type = MessageRow if columns is None else row_type(MessageRow.kind, columns)
        """Type of message rows."""
        self.message_types = (self.message_type, EntryMessages)
        """Types of messages among rows: rows, and the messages of an entry together."""
        self.gives_payloads = options.payload is not None and (columns is None or "payload" in columns)
        """True when message rows hold payload."""
        self._gives_messages = MessageRow.kind in options.records
        self.evaluates = options.evaluates
        """True when rules require the ends of connections."""
        self._frames = 0  # of the latest part
        self._ended: list[str] = []
        self._finished: dict[str, Connection | ClosedConnection] = {}
        """Connections of the part whose rows can be written."""
        self._ledger = Ledger()
        self._touched: list[tuple[str, Timeline]] = []
        """Connections of the latest part that may keep bytes."""
        self._added: list[Step] = []
        """Frames of the next part that need no timeline."""
        self._added_ended: list[str] = []
        """Connections that end in the next part and need no timeline either."""
        self._closing: dict[str, Closed] = {}
        """Ends of such connections in the next part, for the rules."""
        self._complete: dict[str, PlainEnd] = {}
        """Such connections that get no late packets: their rows can be written."""

    def configure(self, settings: Settings, evaluated: AbstractSet[str]) -> None:
        """Take the settings of all connections, without their vantage point, and the kinds of rows that rules require."""
        self.settings = _SettingsBySource(settings)
        self._ordered_rows = ordered_rows_type(self._options, settings.session.kinds, evaluated) if settings.columns else None
        self.gives_connections = ConnectionRow.kind in settings.session.kinds and not self._options.frames_alone
        """True when rows of all connections are requested."""
        self.reads_short = self.in_columns and settings.reads_whole and not (self.gives_connections and self._options.live)
        """True when short connections are read elsewhere (`engine.short_connections`)."""
        some = self._options.message_columns is not None
        self._together = self._options.together and not (some or MessageRow.kind in evaluated)  # rules examine the rows
        self._by_connection = "frame" in settings.session.kinds and not self._gives_messages
        """True when each frame has few rows, which show where those of the next frame begin."""

    def steps(
        self, events: Iterable[tuple[int, ConnectionEvents]], memory: int = MEMORY_MAX_BYTES
    ) -> tuple[dict[str, int], list[Step], list[Located]]:
        """Return positions of connections by name, the steps to carry out for them, and findings about them.

        `events` come with their positions in the part. `memory`: bytes left for what waits.
        """
        self.forget_ended()
        for name, touched in self._touched:
            self._ledger.note(name, touched.waits())
        self._touched = []
        self._frames = sum(len(frames) for _, _, frames in self._added if frames is not None)
        steps: list[Step] = [*self._added]
        index_of = {name: _BEHIND for _, name, frames in steps if frames is None}
        self._added.clear()
        self._ended += self._added_ended
        self._added_ended.clear()
        findings: list[Located] = []
        for index, event in events:
            name = event.name
            timeline = self.table.get(name)
            if event.unlisted or (event.finished and isinstance(timeline, EndedTimeline) and timeline.is_empty and not event.findings):
                self.table.pop(name, None)
                continue
            index_of[name] = index
            if event.finished:
                self._finished[name] = event.of
            if isinstance(timeline, EndedTimeline):
                if event.finished:
                    steps.append((event.of.last_at, name, None))
                findings += _located(name, timeline, event.findings)
                continue
            connection = event.connection
            if timeline is None:
                source = source_of_key(connection.key)
                settings = self.settings[self._inputs.source(connection.file) if source is None else source]
                timeline = self.table[name] = Timeline(connection, settings)
            last = connection.last_at
            frames = timeline.feed(event.items)
            if count := len(frames):
                self._frames += count
                steps.append((last, name, frames))
            if event.ended:
                if len(frames := timeline.close(connection.last_packet)):
                    steps.append((last, name, frames))
                steps.append((last, name, None))
            if event.finished:
                steps.append((last, name, None))
            if timeline.dissector is not None:
                self.recognised[name] = timeline
            if event.ended:
                self._ledger.note(name, 0)
            else:
                self._touched.append((name, timeline))
            findings += _located(name, timeline, event.findings)
        if self._ledger.total > (memory := min(memory, WAITING_MAX_BYTES)):
            findings += self._make_room(memory, index_of, steps)
            findings.sort(key=lambda located: index_of[located.connection])
        return index_of, steps, findings

    def has_few_frames(self, packets: int) -> bool:
        """Return True if the latest part had few frames for its number of packets, and their payloads are not kept."""
        return self._frames * LARGE_FRAME_PACKETS <= packets and not self.settings[None].kept().payload

    def add_columns(self, order: int, frames: ColumnBatch, of: Mapping[str, PlainConnection]) -> None:
        """Add frames of connections that are not in the table to the next part, completed by their sessions. `order`: of the last one."""
        self.recognised.update(of)
        self._added.append((order, "", frames))

    def note_ended(self, names: Iterable[str]) -> None:
        """Record that connections whose frames were added end in the next part."""
        self._added_ended += names

    def add_ended(self, end: PlainEnd) -> None:
        """Take a connection that has ended, and waits for late packets."""
        self.table[end.name] = end.timeline(end.row())

    def add_end(self, end: PlainEnd) -> None:
        """Tell the rules about a connection that ends in the next part."""
        row, name = end.row(), end.name
        self._closing[name] = Closed(row, end.closing)
        self._added.append((end.last_at, name, None))

    def add_finished(self, ends: Iterable[PlainEnd]) -> None:
        """Add rows to the next part, of connections that have ended and get no late packets."""
        self._added += self.finished(ends)

    def finished(self, ends: Iterable[PlainEnd]) -> Iterator[Step]:
        """Yield the steps that write these rows."""
        for end in ends:
            name = end.name
            self._complete[name] = end
            yield end.last_at, name, None

    def forget_added(self) -> None:
        """Drop the connections whose frames were added: their capture has ended."""
        self._ended += [name for name, of in self.recognised.items() if isinstance(of, PlainConnection)]

    def catch_up(self, events: Iterable[ConnectionEvents]) -> None:
        """Take events of connections that were read elsewhere so far; their rows have already been yielded."""
        added, self._added = self._added, []
        ended, self._added_ended = self._added_ended, []
        _, steps, _ = self.steps(enumerate(events))
        rows_in_columns(steps, self._ordered_rows, self.observe_columns, self.carry_out)
        self._added, self._added_ended = added, ended

    def _make_room(self, memory: int, index_of: dict[str, int], steps: list[Step]) -> Iterator[Located]:
        """Make the longest-waiting connections give up their bytes until at most `memory` bytes wait; yield findings and rows."""
        while (total := self._ledger.total) > max(memory, 0):
            name = self._ledger.longest_waiting()
            self._ledger.note(name, 0)
            timeline = self.table[name]
            if isinstance(timeline, EndedTimeline) or not (size := timeline.waits()):
                continue
            frames, rows = timeline.let_go()
            connection = timeline.connection
            index_of.setdefault(name, _BEHIND)
            if len(frames):
                steps.append((connection.last_at, name, frames))
            text = (
                f"{total:,} bytes were waiting on all connections for what might follow: "
                f"the {size:,} of this one, the longest-waiting, were given up."
            )
            place = {"file": connection.last_file, "packet": connection.last_packet, "time": connection.last_time}
            finding = CAPTURE_CODES["memory-cap"].at(text, {"bytes": total, "freed": size}, **place, connection=name)
            order = connection.last_at
            yield Located(name, finding_row(finding, timeline.source, timeline.dissector), order)
            given = (row for row in rows if not isinstance(row, RawFrame) and row.kind in self._options.records)
            yield from (Located(name, row, order) for row in given)

    def place(self, row: FrameRow) -> tuple[int, int]:
        """Return start and end of the bytes of a frame of the latest part in its stream; see `Timeline.place`."""
        return self.recognised[row.connection].place(row)

    def in_tls(self, connection: str) -> bool:
        """Return True when the frames of a connection are inside TLS."""
        return self.recognised[connection].in_tls()

    def preamble(self, connection: str) -> tuple[int, int]:
        """Return the number of bytes of client and server that are needed to read any of a connection; see `Timeline.preamble`."""
        return self.recognised[connection].preamble()

    @property
    def in_columns(self) -> bool:
        """Return True when frame rows stay in the columns of a compiled reader."""
        return self._ordered_rows is not None

    def rows(self, steps: list[Step], index_of: dict[str, int], *, keyed: bool) -> Iterator[tuple[list[Any], list[RowKey] | OrderedKeys]]:
        """Carry out the steps of a block, and yield their rows in the order of their moments."""
        in_columns = self.in_columns
        if in_columns and self._gives_messages and have_many_messages(steps, payloads=self.gives_payloads):
            steps, in_columns = [*steps_in_rows(steps, self.settings[None].kept())], False
        if in_columns:
            ordered = rows_in_columns(steps, self._ordered_rows, self.observe_columns, self.carry_out)
            return (([part], OrderedKeys(part, index_of) if keyed else []) for part in ordered.parts(self._rows_max))
        several = len(index_of) > 1
        if (several or keyed) and self._by_connection:
            return self._by_connections(steps, index_of, keyed=keyed)
        if several or keyed:
            steps = in_order(steps, together=not keyed)
        return self.by_moments(steps, index_of, keyed=keyed)

    def by_moments(self, steps: Iterable[Step], index_of: Mapping[str, int], *, keyed: bool) -> Iterator[KeyedRows]:
        """Carry out steps in this order; yield their rows and, with `keyed`, their keys."""
        rows = RowList(later=self._rows_max < sys.maxsize, together=self._together)
        keys: list[RowKey] = []
        payload_bytes = 0
        for order, name, frames in steps:
            timeline = self.table.get(name)
            key = order, index_of.get(name, _BEHIND)
            if frames is None or not isinstance(timeline, Timeline):
                self.carry_out(name, None, rows)
                if rows.later:
                    yield from self._taken(rows, keys, key, keyed=keyed)
            else:
                before = len(rows)
                for _ in self._observed(timeline, frames, rows):
                    if rows.later:
                        yield from self._taken(rows, keys, key, keyed=keyed)
                        payload_bytes = before = 0
                        continue
                    if keyed:
                        keys += repeat(key, len(rows) - len(keys))
                    if self.gives_payloads:
                        payload_bytes += self.payload_bytes(rows[before:])
                    while payload_bytes > PAYLOADS_MAX_BYTES or len(rows) > self._rows_max:
                        yield rows[: self._rows_max], keys[: self._rows_max]
                        del rows[: self._rows_max], keys[: self._rows_max]
                        payload_bytes = 0
                    before = len(rows)
            if keyed:
                keys += repeat(key, len(rows) - len(keys))
        if rows:
            yield rows[:], keys

    def _taken(self, rows: RowList, keys: list[RowKey], key: RowKey, *, keyed: bool) -> Iterator[KeyedRows]:
        """Yield all rows of a list, including those yet to be made; rows without a key get this one."""
        following = chain(keys[:], repeat(key))
        keys.clear()
        for some in rows.take(self._rows_max):
            yield some, [*islice(following, len(some))] if keyed else []

    def _by_connections(self, steps: Iterable[Step], index_of: Mapping[str, int], *, keyed: bool) -> Iterator[KeyedRows]:
        """Carry out the steps of one connection after the other, then put the rows in order: twice as fast as step by step in order."""
        rows: list[Any] = []
        orders: list[int] = []
        indexes: list[int] = []
        for order, name, frames in steps:
            timeline = self.table.get(name)
            before = len(rows)
            self.carry_out(name, frames, rows)
            if frames is not None and isinstance(timeline, Timeline):
                orders += orders_of(order, frames)
                if len(rows) != len(orders):
                    spread(orders, frames, rows[before:])
            orders += [order] * (len(rows) - len(orders))
            if keyed:
                indexes += [index_of[name]] * (len(rows) - before)
        ranking = sorted(range(len(rows)), key=orders.__getitem__)
        rows = [rows[index] for index in ranking]
        keys: list[RowKey] = [(orders[index], indexes[index]) for index in ranking] if keyed else []
        while len(rows) > self._rows_max:
            yield rows[: self._rows_max], keys[: self._rows_max]
            del rows[: self._rows_max], keys[: self._rows_max]
        if rows:
            yield rows, keys

    def carry_out(self, name: str, frames: FrameBatch | None, rows: list[Any]) -> None:
        """Carry out a step of a connection, and append its rows."""
        if (closed := self._closing.pop(name, None)) is not None:
            rows.append(closed)
            return
        if (complete := self._complete.pop(name, None)) is not None:
            rows.append(complete.row(complete=True))
            return
        timeline = self.table[name]
        if isinstance(timeline, EndedTimeline):
            of = self._finished.pop(name)
            timeline.finish(of, rows)
            del self.table[name]
        elif frames is None:
            self._close(name, timeline, rows)
            self._ended.append(name)
        else:
            timeline.observe(frames, rows)

    def observe_columns(self, name: str, frames: ColumnBatch) -> None:
        """Complete frames in columns of a connection that has not ended."""
        timeline = self.table.get(name)
        if isinstance(timeline, Timeline):
            timeline.observe_columns(frames)

    def _close(self, name: str, timeline: Timeline, rows: list[Any]) -> None:
        """End a connection: it will get no more frames."""
        self.table[name] = ended = timeline.end(rows)
        row = ended.so_far() if self.evaluates else None
        if row is not None:
            rows.append(Closed(row, timeline.closing))

    def _observed(self, timeline: Timeline, frames: FrameBatch, rows: list[Any]) -> Iterator[None]:
        """Append the rows of frames; yield after each frame that may have very many."""
        if isinstance(frames, ColumnBatch):
            yield from timeline.open_columns(frames, rows)
        elif self._gives_messages and (self._rows_max < sys.maxsize or self.gives_payloads):
            for frame in frames.each():
                timeline.observe(frame, rows)
                yield
        else:
            timeline.observe(frames, rows)
            yield

    def payload_bytes(self, rows: list[Any]) -> int:
        """Return the amount of payload text in the rows."""
        single = sum(len(row.payload or "") for row in rows if type(row) is self.message_type)
        return single + sum(sum(map(len, row.columns.get("payload", ()))) for row in rows if type(row) is EntryMessages)

    def recount(self) -> None:
        """Count the waiting bytes again: the connections have been replaced."""
        self._ledger = Ledger()
        self._touched = [(name, timeline) for name, timeline in self.table.items() if isinstance(timeline, Timeline)]

    def forget_ended(self) -> None:
        """Drop the connections that ended in the latest part: nobody asks for them any longer."""
        for name in self._ended:
            self.recognised.pop(name, None)
        self._ended.clear()


def _located(name: str, timeline: Timeline | EndedTimeline, found: Sequence[Finding]) -> Iterator[Located]:
    """Yield those findings about a connection that are to be reported, or told to the rules."""
    for finding in timeline.findings(found):
        row = finding_row(finding, timeline.source, timeline.dissector)
        yield Located(name, row, finding.order, finding.sender, finding.counted)
