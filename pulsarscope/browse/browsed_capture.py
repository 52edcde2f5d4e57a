"""The capture on the screen: a run that a separate thread reads, and the data kept from it."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from pulsarscope.analysis.diagnosis import Diagnosis
from pulsarscope.browse.connections import Connections
from pulsarscope.browse.frame_store import FrameStore
from pulsarscope.capture import Block, BlockReader, Blocks, Inputs, Portion
from pulsarscope.dissect.contract.capabilities import LiveFold, ReportFold, ReportTable
from pulsarscope.dissect.contract.dissector import Dissector
from pulsarscope.dissect.plugins.report_tables import report_tables
from pulsarscope.engine.local import Run
from pulsarscope.engine.options import Options
from pulsarscope.model.errors import UsageError
from pulsarscope.model.limits import BROWSED_CONNECTIONS_MAX, BROWSED_FINDINGS_MAX, ROWS_MAX
from pulsarscope.model.live_limits import BROWSED_FRESH_MESSAGES_MAX, BROWSED_LIVE_CONNECTIONS_MAX
from pulsarscope.model.records import ConnectionRow, FindingRow, FrameRow, MessageRow, RawFrame
from pulsarscope.model.text import plural

if TYPE_CHECKING:
    from pulsarscope.capture.portions import Portion
    from pulsarscope.engine.options import Options
    from pulsarscope.engine.parallel import AnyRun
    from pulsarscope.engine.row_batch import RowBatch
    from pulsarscope.filter import Filter
    from pulsarscope.filter.field_columns import FieldColumns


TABLES = ("consumers",)
"""Tables of statistics that have a page, if a protocol has them."""

FORGET_FEEDS = 256
"""Batches of a live capture after which tables forget ended items, which would otherwise fill these bounded tables."""


def browsed_tables(dissectors: Iterable[Dissector]) -> list[ReportTable]:
    """Return the tables of protocols that have a page."""
    return [table for name, table in report_tables(dissectors).items() if name in TABLES]


def _nothing() -> None:
    """Do nothing: a file needs no stop."""


class Frames(Protocol):
    """Frames by their position in the run, in chunks."""

    @property
    def chunks(self) -> int:
        """Number of chunks."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> FrameRow: ...

    def start(self, number: int) -> int:
        """Return the position of the first frame of a chunk."""

    def chunk(self, number: int) -> list[FrameRow]:
        """Return the frames of a chunk."""

    def names(self, number: int) -> list[tuple[int, int, int]]:
        """Return file, packet and sub of the frames of a chunk."""


class Keeper(Protocol):
    """Writer of an index of the rows, for later runs."""

    def add(self, rows: list[Any]) -> None:
        """Take rows."""

    def finish(self, browsed: Browsed, cancelled: Callable[[], bool]) -> None:
        """Keep the rows: everything has been read."""

    def abandon(self) -> None:
        """Discard the rows."""


class Browsed:
    """A capture while it is read and afterwards."""

    def __init__(
        self,
        run: AnyRun,
        options: Options,
        diagnosis: Diagnosis,
        make_filter: Callable[[str], Filter],
        frames: Frames,
        *,
        extract: Callable[[str | None, str], str],
        make_columns: Callable[[Sequence[str]], FieldColumns | None],
        message_filter: Callable[[str], Filter],
        keeper: Keeper | None = None,
        live: bool = False,
        watch: Callable[[RowBatch], None] | None = None,
        stop: Callable[[], None] = _nothing,
    ) -> None:
        """Keep frames in a `FrameStore`, and all rows in `keeper`; `extract` copies the packets of a filter to a file."""
        self.run = run
        self.make_filter = make_filter
        self.make_columns = make_columns
        self.live = live
        """True if packets arrive live and cannot be read again."""
        self.stop = stop
        """A function that ends the source of packets, so that reading ends soon."""
        self._watch = watch
        self._message_filter = message_filter
        self.extract = extract
        self.frames = frames
        self.portions: list[Portion] = []
        """Positions from which captures can be read, if known."""
        self._keeper = keeper
        self.endpoints: dict[str, tuple[str, str]] = {}
        self.diagnosis = diagnosis
        self.findings: list[FindingRow] = []
        self.connections = Connections(BROWSED_LIVE_CONNECTIONS_MAX if live else BROWSED_CONNECTIONS_MAX, forgets=live)
        self.fresh_messages: deque[MessageRow] = deque(maxlen=BROWSED_FRESH_MESSAGES_MAX)
        """Messages of a live capture that the screen has not taken yet; older ones are dropped."""
        self.live_messages = 0
        """Number of all messages of a live capture."""
        self.bytes_read = 0
        self.size = run.inputs.sizes or 0
        self.records: dict[str, list[dict[str, Any]]] = {}
        """Records of tables that are complete, by name."""
        self.ended = False
        self.failure = ""
        """Reason why reading ended early."""
        self._options = options
        self._feeds = 0
        self._lock = Lock()  # of the tables
        tables = browsed_tables(run.dissectors.values())
        self.tables: dict[str, tuple[ReportTable, ReportFold]] = {table.name: (table, table.make()) for table in tables}

    @property
    def start(self) -> int | None:
        """Time of the first packet; None until it is known."""
        return self.run.start

    @property
    def title(self) -> str:
        """Names of the captures."""
        return ", ".join(self.run.inputs.paths[:3]) + (" …" if len(self.run.inputs.paths) > 3 else "")

    def dissector(self, row: FrameRow) -> Dissector | None:
        """Return the dissector of a frame."""
        return self.run.dissectors.get(row.dissector or "")

    def read(self, cancelled: Callable[[], bool]) -> Iterator[None]:
        """Read the capture, and yield when there is something new. Exceptions of the run are passed on."""
        assert isinstance(self.frames, FrameStore)  # noqa: S101 - the other kinds are complete from the start
        try:
            yield from self._read(self.frames, cancelled)
            if self.ended and self._keeper is not None:
                self._keeper.finish(self, cancelled)
        finally:
            if self._keeper is not None:
                self._keeper.abandon()

    def _read(self, store: FrameStore, cancelled: Callable[[], bool]) -> Iterator[None]:
        read_before, file = 0, 0
        for batch in self.run:
            if cancelled():
                return
            if self._watch is not None:
                self._watch(batch)
            frames = [row for row in batch.rows if isinstance(row, FrameRow)]
            self.endpoints.update(self.run.endpoints)
            store.add(frames)
            self.diagnosis.feed(batch.rows)
            self._feed_tables(batch.rows)
            self._list(batch.rows)
            if batch.file != file:
                read_before, file = self.bytes_read, batch.file
            self.bytes_read = read_before + batch.bytes_read
            yield
            if self._keeper is not None:
                self._keeper.add(batch.rows)
        self.connections.order()
        self.ended = True

    def _feed_tables(self, rows: list[Any]) -> None:
        self._feeds += 1
        with self._lock:
            for _, fold in self.tables.values():
                fold.feed(rows, self.run.endpoints)
                if self.live and self._feeds % FORGET_FEEDS == 0 and isinstance(fold, LiveFold):
                    fold.forget_ended()

    def know(self, rows: list[Any], tables: dict[str, list[dict[str, Any]]], portions: list[Portion]) -> None:
        """Take everything from an index except its frames; the capture then counts as read."""
        self.diagnosis.feed(rows)
        self._list(rows)
        self.connections.order()
        for row in rows:
            if isinstance(row, ConnectionRow) and row.connection is not None:
                self.endpoints[row.connection] = (row.client or "?", row.server or "?")
        self.records = tables
        self.portions = portions
        self.bytes_read = self.size
        self.ended = True

    def fail(self, text: str) -> None:
        """Take the reason why reading ended, or why something cannot be read."""
        self.failure = text

    def table(self, name: str) -> list[dict[str, Any]]:
        """Return the records of a table, as far as the capture has been read."""
        if name in self.records:
            return self.records[name]
        with self._lock:
            records = self.tables[name][1].records()
        if self.ended:
            self.records[name] = records
        return records

    def _list(self, rows: list[Any]) -> None:
        self.connections.feed(rows, self.run.endpoints)
        for row in rows:
            if isinstance(row, FindingRow) and len(self.findings) < BROWSED_FINDINGS_MAX:
                self.findings.append(row)
            elif isinstance(row, MessageRow):
                self.live_messages += 1
                self.fresh_messages.append(row)

    def message_filter(self, filter_text: str) -> tuple[Filter | None, str]:
        """Return the filter for messages; if the filter does not apply to messages, None and the reason why all are shown."""
        try:
            chosen = self._message_filter(filter_text) if filter_text else None
        except UsageError as error:
            return None, f"all messages: {str(error).splitlines()[0]}"
        if chosen is not None:
            chosen.begin(self.run)
        return chosen, ""

    def messages(self, filter_text: str) -> Iterator[tuple[list[MessageRow], str]]:
        """Read the messages by reading the captures again; yield some of them at a time, with the text above them."""
        options = msgspec.structs.replace(
            self._options, records=frozenset({MessageRow.kind}), rules=False, rows_max=ROWS_MAX, payload="text", payloads=True
        )
        run, count = self.run.again(options), 0
        chosen, refusal = self.message_filter(filter_text)
        for batch in run:
            rows = batch.rows if chosen is None else chosen.select(batch.rows, run.endpoints)
            messages = [row for row in rows if isinstance(row, MessageRow)]
            count += len(messages)
            yield messages, refusal or f"{plural(count, 'message')} so far"
        yield [], refusal or plural(count, "message")

    def raw(self, wanted: FrameRow, cancelled: Callable[[], bool]) -> RawFrame | None:
        """Return the bytes of a frame by reading the captures again: near the frame if that is enough, else up to it; None: not found."""
        options = msgspec.structs.replace(self._options, records=frozenset({FrameRow.kind}), rules=False, raw=True)
        if self.live:
            return None
        if (near := read_near(self.portions, self.run.inputs, options, wanted)) is not None:
            return near
        found = False
        for batch in self.run.again(options):
            for row in batch.rows:
                if isinstance(row, FrameRow):
                    found = (row.file, row.packet, row.sub, row.connection) == (wanted.file, wanted.packet, wanted.sub, wanted.connection)
                elif isinstance(row, RawFrame) and found:
                    return row
            if cancelled():
                return None
        return None

    def find(self, file: int, packet: int, sub: int) -> int | None:
        """Return the position of the frame with a name, or of the first frame from its packet on; None if there is none."""
        wanted = (file, packet, sub)
        for number in self._chunks_near(wanted):
            for at, name in enumerate(self.frames.names(number)):
                if name >= wanted:
                    return self.frames.start(number) + at
        return None

    def _chunks_near(self, wanted: tuple[int, int, int]) -> range:
        """Return the chunks from the first that may hold the frame. Names ascend, except for frames that were completed late."""
        low, high = 0, self.frames.chunks
        while low < high:
            middle = (low + high) // 2
            names = self.frames.names(middle)  # empty if there are none yet or they cannot be read
            low, high = (middle + 1, high) if names and names[0] <= wanted else (low, middle)
        return range(max(low - 1, 0), self.frames.chunks)


class _Nothing:
    """The empty blocks of a capture that is not read."""

    recognised = True
    first_time = None

    def __iter__(self) -> Iterator[Block]:
        return iter(())

    def take_secrets(self) -> list[tuple[int, bytes]]:
        """Return no secrets."""
        return []


def read_near(portions: Sequence[Portion], inputs: Inputs, options: Options, wanted: FrameRow) -> RawFrame | None:
    """Return the bytes of a frame by reading only the part of its capture that holds it; None if it is not recognised there, as inside TLS.

    `portions`: the portions of all captures, in order; `options`: options of a run that yields frames with their bytes.
    """
    own = [portion for portion in portions if portion.file == wanted.file]
    last = bisect_left([portion.packets for portion in own], wanted.packet) - 1
    if last < 0:
        return None
    first = max(last - 1 - 2 * wanted.size // max(own[last].start // max(last, 1), 1), 0)  # with room for retransmissions
    begin, end = own[first], own[last]
    part = Portion(begin.file, begin.start, end.end, begin.packets, begin.preamble)

    def read(path: str, file: int) -> Blocks:
        return BlockReader(path, file, by_interface=inputs.by_interface, portion=part) if file == part.file else _Nothing()

    near = Inputs(inputs.paths[: part.file + 1], None, [])
    found = False
    for batch in Run(near, options, read):
        for row in batch.rows:
            if isinstance(row, FrameRow):
                found = _is_same(row, wanted)
            elif isinstance(row, RawFrame) and found:
                return row
    return None


def _is_same(row: FrameRow, wanted: FrameRow) -> bool:
    """Compare everything that does not depend on earlier packets, unlike connection names, places in streams, and session state."""
    names = ("packet", "time", "direction", "size", "command", "fields", "metadata", "payload_size", "status")
    return all(getattr(row, name) == getattr(wanted, name) for name in names)


class PassingFrames:
    """Positions of the frames that a filter passes, in ascending order, among the frames examined so far."""

    def __init__(self, chosen: Filter) -> None:
        """Start without any frames."""
        self.positions = array("q")
        self._filter = chosen
        self._looked = 0
        self._lock = Lock()  # a cancelled thread may still finish its chunk when the next thread begins

    def look_on(self, frames: Frames, endpoints: Mapping[str, tuple[str, str]], cancelled: Callable[[], bool]) -> None:
        """Examine the frames that were read since the last call, unless it is cancelled."""
        with self._lock:
            while self._looked < len(frames) and not cancelled():
                number = self._looked // max(frames.start(1), 1)
                fresh = frames.chunk(number)[self._looked - frames.start(number) :]
                passed = set(map(id, self._filter.select(fresh, endpoints)))
                self.positions.extend(self._looked + at for at, row in enumerate(fresh) if id(row) in passed)
                self._looked = self._looked + len(fresh) if fresh else frames.start(number + 1)  # a damaged chunk has none
