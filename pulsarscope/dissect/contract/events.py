"""Events that a dissector's session reports about the frames it gets. The engine makes rows from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from pulsarscope.dissect.contract.exchange import Request, Response
from pulsarscope.dissect.contract.frames import Note
from pulsarscope.dissect.contract.legs import Anchor
from pulsarscope.model.records import FrameRow, MessageRow

PRODUCE, DELIVER, STORE, LOAD = "produce", "deliver", "store", "load"
"""Directions of messages. The last two are for copies in storage, which do not count as separate messages."""

COPIES = frozenset({STORE, LOAD})


class FormNotes(NamedTuple):
    """Findings about the form of the current frame; its row has their codes."""

    notes: Sequence[Note]


class Remark(msgspec.Struct):
    """A finding about a frame or part of it."""

    code: str
    place: FrameRow | MessageRow | Request | Response
    text: str
    """Text after "COMMAND NAME: ", as in "PUT 0:4.1: card 3 is not taken.": a complete clause, without the full stop."""
    evidence: dict[str, Any] = {}
    """Evidence in addition to the frame's name."""
    whole: bool = False
    """The text is the whole sentence."""


class Exchange(msgspec.Struct):
    """A request and its response; either may be missing."""

    request: Request | None
    response: Response | None = None
    error: str | None = None
    """Name of the error in the response."""
    error_message: str | None = None
    key: str | None = None
    """Key of a response without a request."""
    final: bool = True
    """True when the response closes the exchange, which then gets a row; otherwise only its order in the capture is checked."""


class SingleMessage(msgspec.Struct):
    """An application message with its payload: the engine adds size, digest and the requested form."""

    row: MessageRow
    payload: bytes | None = None


class LaterMessages(msgspec.Struct):
    """Messages of one frame, made only when requested: a row takes ten times the memory of its bytes."""

    count: int
    make: Callable[[], Iterable[SingleMessage]]


class MessageEntry(msgspec.Struct):
    """Messages of one batch in columns, or a single one."""

    base: MessageRow
    """Columns that the messages share; for a single message, the row itself."""
    count: int = 1
    columns: dict[str, Any] | None = None
    """Columns of a batch in which messages differ: sequences of values by name."""
    metadata_bytes: int = 0
    """Memory of unusually large metadata."""
    value_bytes: int = 0
    """Memory of decoded values."""


Event = FormNotes | Remark | Exchange | Anchor | SingleMessage | LaterMessages | MessageEntry


def message_row(frame: FrameRow, direction: str) -> MessageRow:
    """Return a message row with the place columns and the topic of a frame; `direction`: PRODUCE or DELIVER."""
    row = MessageRow(frame.source, frame.file, frame.packet, frame.sub, frame.time, frame.connection, frame.dissector)
    row.direction = direction
    row.topic = frame.topic
    return row
