"""Rows of one connection: frames as its session sees them, and the events that it reports about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from pulsarscope.dissect.contract.dissector import Dissector
from pulsarscope.dissect.contract.events import Event, Exchange, FormNotes, LaterMessages, MessageEntry, Remark, SingleMessage
from pulsarscope.dissect.contract.exchange import elapsed
from pulsarscope.dissect.contract.frames import Attachment, FrameBatch, KeptBytes, Note
from pulsarscope.dissect.contract.legs import Anchor, anchor_row
from pulsarscope.dissect.contract.session import Session, SessionContext, SessionSettings
from pulsarscope.dissect.framing.column_batch import ColumnBatch
from pulsarscope.dissect.plugins.isolation import Failure, failure, raising_function
from pulsarscope.engine.message_rows import MessageRows
from pulsarscope.model.findings import CAPTURE_CODES
from pulsarscope.model.frame_name import frame_name
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FindingRow, FrameRow, MessageRow, RawFrame, Row, finding_row
from pulsarscope.model.row_lists import RowList
from pulsarscope.tcp.connection import Connection

FAILURES_MAX = 10
"""Exceptions of a dissector that are kept for one connection: an event that fails does so with each frame."""

FRAMES_TOGETHER = 64
"""Frames that are turned from columns into rows at once for the session: examining each of them first takes longer."""

INT64_END = 1 << 63

_NOTHING = Attachment()

_Ranges = tuple[bytes, list[tuple[int, int, str, int]]]


class SessionRows:
    """Presents frames to the session of a connection, and writes their rows and those of its events.

    A session iterates over the frames itself and completes their rows in place; it reports everything else as events. So frames cost no
    calls.
    """

    __slots__ = (
        "_connection",
        "_dissector",
        "_made_messages",
        "_origin",
        "_pairing",
        "_session",
        "_settings",
        "_trusted",
        "_wants_exchanges",
        "failures",
        "raw",
        "wants_frames",
    )

    def __init__(self, dissector: Dissector, context: SessionContext, *, raw: bool = False, connection: Connection | None = None) -> None:
        """Begin a session; `raw`: put a RawFrame after each frame row; `connection`: the connection that its anchors come from."""
        self._dissector = dissector
        self.failures: tuple[Failure, ...] = ()
        """Exceptions of the session, of ranges, and of events that cannot become rows."""
        self._pairing = context.pairing  # the context itself is not kept: there are very many connections
        self._connection = connection
        self._session = Session(context)
        try:
            self._session = dissector.session(context)
        except Exception as error:  # noqa: BLE001 - other people's code
            self.fail("session", error)
        self._origin = context.origin
        self._settings = settings = context.settings
        self._wants_exchanges = ExchangeRow.kind in settings.kinds
        self._made_messages: MessageRows | None = None
        self.wants_frames = FrameRow.kind in settings.kinds
        self.raw = raw
        self._trusted = dissector.package == Dissector.package

    @property
    def _messages(self) -> MessageRows | None:
        """Maker of message rows, on first use: many connections have none; None if they are not requested."""
        if self._made_messages is None and MessageRow.kind in self._settings.kinds:
            self._made_messages = MessageRows(self._settings.message_columns, self._settings.payload)
        return self._made_messages

    def observe(self, batch: FrameBatch, out: list[Any]) -> None:
        """Append the rows of a batch of frames."""
        rows = out if self._trusted else []
        events: list[Event] = []
        frames = _ShownFrames(self, batch, rows, events)
        with _Isolated(self):
            self._session.observe(frames, events)
        for _ in frames.walk:  # the last events, and frames that the session did not look at
            pass
        if rows is not out:
            out.extend(map(self._checked, rows))

    def observe_columns(self, batch: ColumnBatch, kept: KeptBytes) -> None:
        """Complete a batch of frames in columns. Frames that need rows are replaced by these, with the rows that follow them."""
        columns = batch.settle()
        place, size, count = 0, len(columns), 1
        while place < size:
            before = place
            with _Isolated(self):
                place = self._session.observe_columns(columns, place)
            count = 1 if place > before else min(2 * count, FRAMES_TOGETHER)  # such frames rarely come alone
            if place < size:
                frames = batch.part_in_rows(place, min(place + count, size), kept)
                rows = RowList(later=False, together=True)  # frames stay in columns if messages stay together
                self.observe(frames, rows)
                place = columns.replace(place, frames.rows, rows)

    def open_columns(self, batch: ColumnBatch, kept: KeptBytes, out: list[Any]) -> Iterator[None]:
        """Append the rows of the messages in a batch of frames in columns; yield whenever there may be many."""
        columns = batch.settle()
        (place, stop), count = batch.places, 1
        while place < stop:
            before = place
            entries: list[Event] = []
            with _Isolated(self):
                place = self._session.open_columns(columns, (place, stop), entries)
            if place > before:
                self.write(entries, None, out)
                count = 1
                yield
                continue
            frames = batch.part_in_rows(place, min(place + count, stop), kept)
            place, count = place + len(frames), min(2 * count, FRAMES_TOGETHER)  # such frames rarely come alone
            for frame in frames.each():
                self.observe(frame, out)
                yield

    def waits(self) -> int:
        """Return the number of bytes that the session keeps because more may follow."""
        with _Isolated(self):
            return self._session.waits()
        return 0

    def let_go(self, out: list[Any]) -> None:
        """Append the rows of everything that waits, and drop it."""
        events: list[Event] = []
        with _Isolated(self):
            self._session.let_go(events)
        self.write(events, None, out)

    def finish(self, out: list[Any]) -> None:
        """Append the rows of everything that still waits: the connection has ended."""
        events: list[Event] = []
        with _Isolated(self):
            self._session.finish(events)
        rows = out if self._trusted else []
        self.write(events, None, rows)
        if rows is not out:
            out.extend(map(self._checked, rows))

    def describe(self, row: ConnectionRow) -> None:
        """Fill the protocol's columns of the connection row."""
        with _Isolated(self):
            self._session.describe(row)
        if not self._trusted:
            checked = self._checked(row)
            for name in row.__struct_fields__:
                setattr(row, name, getattr(checked, name))

    def _checked(self, row: Any) -> Any:
        """Return a row of other people's code without the values that are not of the types of their columns."""
        try:
            return _checked_row(row)
        except Exception as error:  # noqa: BLE001 - whatever the values raise
            self.fail("session", error)
        right = type(row)()
        for name in row.__struct_fields__:
            with suppress(Exception):
                _checked_row(msgspec.structs.replace(right, **{name: getattr(row, name)}))
                setattr(right, name, getattr(row, name))
        return right

    def replace_session(self, error: Exception) -> None:
        """Continue without the session, which raised."""
        self.fail(f"session.{raising_function(error, 'observe')}", error)
        self._pairing.rest()  # it is no longer known whether they are answered
        self._session = Session(SessionContext(self._origin, SessionSettings(frozenset()), pairing=self._pairing))

    def fail(self, member: str, error: Exception) -> None:
        """Keep an exception of the dissector."""
        if len(self.failures) < FAILURES_MAX:
            self.failures += (failure(self._dissector, member, error),)

    def raw_frames(self, data: bytes) -> list[RawFrame]:
        """Return the bytes of a frame with their named ranges; nothing if the dissector raises: they may hold secrets."""
        try:
            ranges = self._dissector.ranges(data)
            return [RawFrame(*(ranges if self._trusted else msgspec.convert(ranges, _Ranges)))]
        except Exception as error:  # noqa: BLE001 - other people's code
            self.fail("ranges", error)
            return []

    def write(self, events: list[Event], frame: FrameRow | None, out: list[Any]) -> None:
        """Append the rows of the events, and clear the events; `frame` is the frame that they follow."""
        left = iter(events)
        while True:
            try:
                self._write_each(left, frame, out)
                break
            except Exception as error:  # noqa: BLE001 - an event of other people's code: the others are written
                self.fail("session", error)
        events.clear()

    def _write_each(self, events: Iterator[Event], frame: FrameRow | None, out: list[Any]) -> None:
        for event in events:
            if isinstance(event, MessageEntry):  # most events are, where there are many
                if (messages := self._messages) is not None:
                    messages.add_entry(event, out)
            elif isinstance(event, Exchange):
                self._write_exchange(event, out)
            elif isinstance(event, Remark):
                out.append(self._finding(event))
            elif isinstance(event, FormNotes):
                if frame is not None:
                    frame.findings = list(dict.fromkeys([code for code, _ in event.notes]))
                    evidence = {"offset": frame.offset, "size": frame.size}
                    out.extend([self._finding(Remark(code, frame, text, evidence)) for code, text in event.notes])
            elif isinstance(event, Anchor):
                if (connection := self._connection) is not None and (client := connection.client) is not None:
                    out.append(anchor_row(event, (connection.endpoint(client), connection.endpoint(1 - client))))
            elif (messages := self._messages) is None:
                pass
            elif isinstance(event, SingleMessage):
                messages.add(event, out)
            elif isinstance(event, LaterMessages):
                messages.add_several(event, out)

    def _finding(self, remark: Remark) -> FindingRow:
        code = CAPTURE_CODES.get(remark.code) or self._dissector.code(remark.code)
        place = remark.place
        name = frame_name(place.file, place.packet, place.sub)
        text = remark.text
        if not remark.whole:
            command = None if isinstance(place, MessageRow) else place.command
            text = f"{command or 'Bytes'} {name}: {text}."
        source, connection, dissector = self._origin
        where = {"file": place.file, "packet": place.packet, "sub": place.sub, "time": place.time}
        return finding_row(code.at(text, {"frame": name, **remark.evidence}, **where, connection=connection), source, dissector)

    def _write_exchange(self, exchange: Exchange, out: list[Any]) -> None:
        request, response = exchange.request, exchange.response
        where = request or response
        latency = None
        if request is not None and response is not None:
            latency = elapsed(request, response)
            if latency is None:
                name = frame_name(request.file, request.packet, request.sub)
                before = (response.file, response.packet) < (request.file, request.packet)
                text = f"it {'stands' if before else 'has a time'} before its request {name} in the capture"
                out.append(self._finding(Remark("capture-order", response, text, {"request": name})))
        if where is None or not (exchange.final and self._wants_exchanges):
            return
        source, connection, dissector = self._origin
        row = ExchangeRow(source, where.file, where.packet, where.sub, where.time, connection, dissector)
        row.status = "unanswered"
        if response is not None:
            row.error, row.error_message = exchange.error, exchange.error_message
            row.status = "ok" if exchange.error is None else "error"
            row.response = response.command
            row.response_file, row.response_packet, row.response_sub = response.file, response.packet, response.sub
        if request is None:
            row.status = "unrequested"
            row.key = exchange.key
        else:
            row.request, row.key = request.command, request.key
            row.topic, row.producer_name, row.subscription = request.topic, request.producer_name, request.subscription
        row.latency_ns = latency
        out.append(row)


class _Isolated(NamedTuple):
    """A call of a session, which is replaced if it raises."""

    rows: SessionRows

    def __enter__(self) -> None:
        pass

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> bool:
        if isinstance(error, Exception):
            self.rows.replace_session(error)
        return isinstance(error, Exception)


class _ShownFrames:
    """The frames of a batch, as `dissect.contract.session.SessionFrames`."""

    __slots__ = ("notes", "payload", "raw", "walk")

    def __init__(self, rows: SessionRows, batch: FrameBatch, out: list[Any], events: list[Event]) -> None:
        self.notes: Sequence[Note] = ()
        self.payload: bytes | None = None
        self.raw: bytes | None = None
        self.walk = self._attached(rows, batch, out, events) if batch.attachments else self._plain(rows, batch, out, events)

    def __iter__(self) -> Iterator[FrameRow]:
        return self.walk

    @staticmethod
    def _plain(rows: SessionRows, batch: FrameBatch, out: list[Any], events: list[Event]) -> Iterator[FrameRow]:
        frames = batch.rows
        given = 0 if rows.wants_frames else len(frames)
        for count, frame in enumerate(frames, 1):
            yield frame
            if events:
                out += frames[given:count]
                given = max(given, count)
                rows.write(events, frame, out)
        out += frames[given:]

    def _attached(self, rows: SessionRows, batch: FrameBatch, out: list[Any], events: list[Event]) -> Iterator[FrameRow]:
        attached = batch.attachments.get
        for position, frame in enumerate(batch.rows):
            attachment = attached(position, _NOTHING)
            self.notes, self.payload, self.raw = attachment.notes or (), attachment.payload, attachment.raw
            if rows.wants_frames:
                out.append(frame)
            if rows.raw and attachment.raw is not None:
                out += rows.raw_frames(attachment.raw)
            yield frame
            if self.notes:
                events.append(FormNotes(self.notes))
            if events:
                rows.write(events, frame, out)


def _checked_row(row: Any) -> Any:
    """Return a row whose values can be written, and are of the types of its columns. Raises an exception for any other row."""
    if isinstance(row, Row):
        msgspec.json.decode(msgspec.json.encode(row), type=type(row))
        if any(isinstance(value, int) and not -INT64_END <= value < INT64_END for value in msgspec.structs.astuple(row)):
            raise OverflowError("a number needs more than 64 bits")
    return row
