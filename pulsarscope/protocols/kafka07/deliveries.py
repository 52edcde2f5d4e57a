"""Rows of the messages that frames carry, produced and delivered."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Any

from pulsarscope.dissect.frames import Frame, Note
from pulsarscope.dissect.session import SessionContext
from pulsarscope.model.limits import ROWS_MAX
from pulsarscope.model.records import FindingRow, MessageRow, Row, RowList, row_type
from pulsarscope.protocols.kafka07.findings import CODES
from pulsarscope.protocols.kafka07.messages import Message, MessageTotals, read_set
from pulsarscope.protocols.kafka07.requests import MessageSet

PRODUCE, DELIVER = "produce", "deliver"

Say = Callable[[Frame, str, str, dict[str, Any]], FindingRow]

_FORMS: dict[str, Callable[[bytes], str]] = {
    "base64": lambda payload: b64encode(payload).decode(),
    "hex": bytes.hex,
    "text": lambda payload: payload.decode("utf-8", "backslashreplace"),
}
"""Encodings of payloads by the name of their form."""


class Deliveries:
    """Message sets of message_set frame at a time: `take` reads them, `give` appends their rows."""

    def __init__(self, context: SessionContext) -> None:
        self._has_rows = "message" in context.kinds
        columns = context.message_columns
        self._columns = MessageRow.__struct_fields__ if columns is None else columns
        self._row_type: type[Any] | None = None if columns is None else row_type(MessageRow.kind, columns)
        self._digest = "payload_sha256" in self._columns
        self._form = _FORMS.get(context.payload or "") if "payload" in self._columns else None
        self._rows: list[Row] = []
        self._remaining: Iterator[Row] | None = None
        self._notes: list[Note] = []

    def take(self, frame: Frame, direction: str, sets: Sequence[MessageSet], notes: list[Note]) -> list[tuple[int, int]]:
        """Count and check the messages in the sets of a frame.

        Args:
            frame: the frame; its payload size, its number of messages and its checksum are set.
            direction: "produce" or "deliver".
            sets: places of the sets in the frame.
            notes: findings on the form of the frame are added here.

        Returns:
            For each set, the bytes of its complete entries, and those of a last message_set that is cut.
        """
        self._rows, self._notes, self._remaining = [], [], None
        data = frame.raw or b""
        totals = MessageTotals(len(data))
        taken: list[tuple[int, int]] = []
        for message_set in sets:
            end, before = 0, totals.cut
            for message in read_set(data, message_set.start, message_set.end, totals):
                end = message.end
                if self._has_rows and totals.messages <= ROWS_MAX:
                    self._rows.append(self._row(frame, direction, message_set, message))
            taken.append((end, totals.cut - before))
        if sets:
            frame.payload_size = sum(message_set.end - message_set.start for message_set in sets)
            frame.num_messages = totals.messages
            frame.checksum = totals.checksum
        for code, text in totals.texts():
            (notes if CODES[code].layer == "frame" else self._notes).append((code, text))
        if self._has_rows and totals.messages > ROWS_MAX:  # too many to hold: they are read again on demand
            self._rows = []
            self._remaining = self._again(frame, direction, sets, data)
        return taken

    def give(self, frame: Frame, out: list[Row], say: Say) -> None:
        """Append the findings on the sets, and the rows of their messages."""
        place = {"offset": frame.offset, "size": frame.size}
        out.extend([say(frame, code, text, place) for code, text in self._notes])
        if self._remaining is not None and isinstance(out, RowList):
            out.extend_later(self._remaining)
        else:
            out.extend(self._rows if self._remaining is None else self._remaining)
        self._rows, self._notes, self._remaining = [], [], None

    def _again(self, frame: Frame, direction: str, sets: Sequence[MessageSet], data: bytes) -> Iterator[Row]:
        # The place is copied, because the frame is handed over.
        where = Frame(frame.source, frame.file, frame.packet, frame.sub, frame.time, frame.connection, frame.dissector)
        totals = MessageTotals(len(data))
        for message_set in sets:
            for message in read_set(data, message_set.start, message_set.end, totals):
                yield self._row(where, direction, message_set, message)

    def _row(self, frame: Frame, direction: str, place: MessageSet, message: Message) -> Row:
        row = MessageRow(frame.source, frame.file, frame.packet, frame.sub, frame.time, frame.connection, frame.dissector)
        row.direction = direction
        row.topic, row.partition = place.topic, place.partition
        row.batch_index, row.batch_size = message.batch_index, message.batch_size
        row.compression = message.codec
        extra = row.extra = {"magic": message.magic}
        if place.offset is not None:
            extra |= {"offset": place.offset + message.entry, "next_offset": place.offset + message.end}
        payload = message.payload
        row.status = "undecodable" if payload is None else "ok"
        if payload is not None:
            row.payload_size = len(payload)
            if self._digest:
                row.payload_sha256 = sha256(payload).hexdigest()
            if self._form is not None:
                row.payload = self._form(payload)
        if self._row_type is None:
            return row
        chosen: Row = self._row_type(*[getattr(row, name) for name in self._columns])
        return chosen
