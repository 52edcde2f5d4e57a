"""The messages that frames carry: produced and delivered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from functools import partial

from pulsarscope.dissect.events import Event, LaterMessages, Remark, SingleMessage, message_row
from pulsarscope.dissect.frames import Note
from pulsarscope.model.limits import ROWS_MAX
from pulsarscope.model.records import FrameRow, MessageRow
from pulsarscope.protocols.kafka07.findings import CODES
from pulsarscope.protocols.kafka07.messages import Message, MessageTotals, read_set
from pulsarscope.protocols.kafka07.requests import MessageSet


class Deliveries:
    """Opens the message sets of one frame after the other: `take` them, then `report` their messages."""

    def __init__(self, *, wanted: bool) -> None:
        """`wanted`: messages are asked for, not only the findings about them."""
        self._wanted = wanted
        self._events: list[Event] = []

    def take(self, frame: FrameRow, data: bytes, direction: str, sets: Sequence[MessageSet], notes: list[Note]) -> list[tuple[int, int]]:
        """Count and check the messages of these sets of a frame, and complete the frame with counts and the checksums' verdict.

        Return the bytes of whole entries, and of a cut one, of each set. `direction` is PRODUCE or DELIVER; `notes` take the findings.
        """
        template = message_row(frame, direction)
        totals = MessageTotals(len(data))
        taken: list[tuple[int, int]] = []
        messages: list[Event] = []
        for place in sets:
            end, before = 0, totals.cut
            for message in read_set(data, place.start, place.end, totals):
                end = message.end
                if self._wanted and totals.messages <= ROWS_MAX:
                    messages.append(_message(template, place, message))
            taken.append((end, totals.cut - before))
        if sets:
            frame.payload_size = sum(place.end - place.start for place in sets)
            frame.num_messages = totals.messages
            frame.checksum = totals.checksum
        evidence = {"offset": frame.offset, "size": frame.size}
        for code, text in totals.texts():
            if CODES[code].layer == "frame":
                notes.append((code, text))
            else:
                self._events.append(Remark(code, frame, text, evidence))
        if self._wanted and totals.messages > ROWS_MAX:  # too many to hold: they are read again as they are asked for
            messages = [LaterMessages(totals.messages, partial(_messages, template, sets, data))]
        self._events += messages
        return taken

    def report(self, events: list[Event]) -> None:
        """Append the findings in the sets, and their messages."""
        events += self._events
        self._events = []


def _messages(template: MessageRow, sets: Sequence[MessageSet], data: bytes) -> Iterator[SingleMessage]:
    totals = MessageTotals(len(data))
    for place in sets:
        for message in read_set(data, place.start, place.end, totals):
            yield _message(template, place, message)


def _message(template: MessageRow, place: MessageSet, message: Message) -> SingleMessage:
    row = copy(template)
    row.topic, row.partition = place.topic, place.partition
    row.batch_index, row.batch_size = message.batch_index, message.batch_size
    row.compression = message.codec
    extra = row.extra = {"magic": message.magic}
    if place.offset is not None:
        extra |= {"offset": place.offset + message.entry, "next_offset": place.offset + message.end}
    row.status = "undecodable" if message.payload is None else "ok"
    return SingleMessage(row, message.payload)
