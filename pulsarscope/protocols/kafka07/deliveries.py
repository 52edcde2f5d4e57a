"""The produced and delivered messages in frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from functools import partial
from typing import Any, NamedTuple

from pulsarscope.dissect.contract.events import DELIVER, PRODUCE, Event, LaterMessages, Remark, SingleMessage, message_row
from pulsarscope.dissect.contract.frames import OK, Note
from pulsarscope.model.limits import ROWS_MAX
from pulsarscope.model.records import FrameRow, MessageRow
from pulsarscope.model.text import plural
from pulsarscope.protocols.kafka07.findings import CODES
from pulsarscope.protocols.kafka07.messages import Message, MessageTotals, read_set
from pulsarscope.protocols.kafka07.requests import MessageSet


class ReadSet(NamedTuple):
    """The sizes of the parts read of a set."""

    whole: int
    """Bytes of whole entries."""
    cut: int
    """Bytes of a cut entry."""
    messages: int


class Deliveries:
    """An opener of the message sets of one frame after another: `take` the sets, then `report` their messages."""

    def __init__(self, *, wanted: bool) -> None:
        """Prepare; `wanted`: messages are requested, not only the findings about them."""
        self._wanted = wanted
        self._events: list[Event] = []

    def take(self, frame: FrameRow, data: bytes, direction: str, sets: Sequence[MessageSet], notes: list[Note]) -> list[ReadSet]:
        """Count and check the messages of these sets of a frame, and add the counts and the checksum verdict to the frame.

        Return what was read of each set. `direction` is PRODUCE or DELIVER; `notes` take the findings.
        """
        template = message_row(frame, direction)
        totals = _totals(template, data)
        taken: list[ReadSet] = []
        messages: list[Event] = []
        for place in sets:
            end, before, first = 0, totals.cut, totals.messages
            for message in read_set(data, place.start, place.end, totals):
                end = message.end
                if self._wanted and totals.messages <= ROWS_MAX:
                    messages.append(_message(template, place, message))
            cut = totals.cut - before
            if cut and frame.status == OK and _ends_early(place, direction):
                totals.note("message-set-corrupt", f"the set ends {plural(cut, 'byte')} behind the begin of a message, which is longer")
                cut = 0
            taken.append(ReadSet(end, cut, totals.messages - first))
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
        if self._wanted and totals.messages > ROWS_MAX:  # too many to hold: they are read again on demand
            messages = [LaterMessages(totals.messages, partial(_messages, template, sets, data))]
        self._events += messages
        return taken

    def report(self, events: list[Event]) -> None:
        """Append the findings about the sets, and their messages."""
        events += self._events
        self._events = []


def _messages(template: MessageRow, sets: Sequence[MessageSet], data: bytes) -> Iterator[SingleMessage]:
    totals = _totals(template, data)
    for place in sets:
        for message in read_set(data, place.start, place.end, totals):
            yield _message(template, place, message)


def _totals(template: MessageRow, data: bytes) -> MessageTotals:
    return MessageTotals(len(data), stored=template.direction == DELIVER)


def _ends_early(place: MessageSet, direction: str) -> bool:
    """Return True if no bound cuts a set: sets of producers are complete, and a log and its segments end with a complete message."""
    if direction == PRODUCE:
        return True
    return place.max_size is not None and place.end - place.start < place.max_size


def _message(template: MessageRow, place: MessageSet, message: Message) -> SingleMessage:
    row = copy(template)
    row.topic, row.partition = place.topic, place.partition
    row.batch_index, row.batch_size = message.batch_index, message.batch_size
    row.compression = message.codecs[-1]
    extra: dict[str, Any] = {"magic": message.magic}
    row.extra = extra
    if len(message.codecs) > 1:
        extra["codecs"] = list(message.codecs)
    if place.offset is not None:
        behind = message.end if message.batch_index is None or message.batch_index + 1 == message.batch_size else message.entry
        extra |= {"offset": place.offset + message.entry, "next_offset": place.offset + behind}
    row.status = "undecodable" if message.payload is None else "ok"
    return SingleMessage(row, message.payload)


def shares(parts: Sequence[dict[str, Any]], sets: Sequence[MessageSet], taken: Sequence[ReadSet]) -> dict[str, Any] | None:
    """Return the messages and bytes of message sets by topic, for a frame with several topics."""
    if len({part.get("topic") for part in parts}) < 2:
        return None
    topics = {topic: {"messages": 0, "bytes": 0} for part in parts if (topic := part.get("topic")) is not None}
    for place, counts in zip(sets, taken, strict=True):
        if place.topic is not None:
            topics[place.topic]["messages"] += counts.messages
            topics[place.topic]["bytes"] += place.end - place.start
    return topics
