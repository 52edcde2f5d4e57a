"""Events that a dissector's session reports about the frames that it is shown. The engine makes the rows of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from pulsarscope.dissect.exchange import Request, Response
from pulsarscope.dissect.frames import Note
from pulsarscope.dissect.legs import Anchor
from pulsarscope.model.records import FrameRow, MessageRow

PRODUCE, DELIVER, STORE, LOAD = "produce", "deliver", "store", "load"
"""Directions of messages; the last two are those of copies in a storage, which count as no messages of their own."""

COPIES = frozenset({STORE, LOAD})


class FormNotes(NamedTuple):
    """Findings about the form of the present frame: their codes are in its row."""

    notes: Sequence[Note]


class Remark(msgspec.Struct):
    """A finding about a frame or a part of it."""

    code: str
    place: FrameRow | MessageRow | Request | Response
    text: str
    """What stands behind "COMMAND NAME: ", as in "PUT 0:4.1: card 3 is not taken.": a clause of its own, without its full stop."""
    evidence: dict[str, Any] = {}
    """Evidence beside the frame's name."""
    whole: bool = False
    """The text is the whole sentence."""


class Exchange(msgspec.Struct):
    """A request and its response; either may be missing."""

    request: Request | None
    response: Response | None = None
    error: str | None = None
    """Name of the error with which the response refuses."""
    error_message: str | None = None
    key: str | None = None
    """Key of a response without a request."""
    final: bool = True
    """The response closes the exchange, so that there is a row; otherwise only its order in the capture is checked."""


class SingleMessage(msgspec.Struct):
    """Application message with its payload: the engine adds size, digest and the form that is asked for."""

    row: MessageRow
    payload: bytes | None = None


class LaterMessages(msgspec.Struct):
    """Messages of one frame, made only when they are asked for: a row takes ten times what its bytes do."""

    count: int
    make: Callable[[], Iterable[SingleMessage]]


class MessageEntry(msgspec.Struct):
    """Messages of one batch in columns, or a single one."""

    base: MessageRow
    """Columns that the messages share; the row itself of a single one."""
    count: int = 1
    columns: dict[str, Any] | None = None
    """Columns of a batch that each message has for itself: sequences of values by name."""
    metadata_bytes: int = 0
    """Memory of unusually large metadata."""
    value_bytes: int = 0
    """Memory of decoded values."""


Event = FormNotes | Remark | Exchange | Anchor | SingleMessage | LaterMessages | MessageEntry


def message_row(frame: FrameRow, direction: str) -> MessageRow:
    """Return a message row with the where columns and the topic of a frame; `direction`: PRODUCE or DELIVER."""
    row = MessageRow(frame.source, frame.file, frame.packet, frame.sub, frame.time, frame.connection, frame.dissector)
    row.direction = direction
    row.topic = frame.topic
    return row
