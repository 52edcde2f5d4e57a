"""Frames as the bytes and the packets of a stream give them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pulsarscope.model.records import Checksum, FrameRow

OK = "ok"
MALFORMED = "malformed"
TRUNCATED = "truncated"
SKIPPED = "skipped"


class Origin(NamedTuple):
    """The where columns that all rows of a connection share."""

    source: str | None = None
    connection: str | None = None
    dissector: str | None = None


NOWHERE = Origin()
"""Of frames that are in no capture."""

Note = tuple[str, str]
"""(finding code, where and what) about one frame."""

SPLITTER_CODES = frozenset({"frame-malformed", "frame-too-large", "frame-truncated", "bytes-skipped"})
"""Codes of the notes that the splitter itself gives a frame."""


Decoded = tuple[
    str | None,
    dict[str, Any] | None,
    dict[str, Any] | None,
    Checksum | None,
    dict[str, Any] | None,
    int | None,
    str,
    list[Note] | None,
]
"""What the bytes of one frame say: (command, fields, broker entry metadata, checksum, metadata, payload offset, status, notes).

The payload offset counts from the start of the frame; None when the frame carries no payload. A plain tuple, because one is made for
each frame: a NamedTuple costs four times as much.
"""


class Frame(FrameRow, gc=False, omit_defaults=True, tag_field="record", tag="frame"):
    """A frame: its row, and what the engines need beside it.

    The splitter makes it with all that the bytes and the packets tell; the dissector's session adds what it knows (direction, topic,
    names, request, latency, findings) and then sets the five fields below back to their defaults, so that no output sees them.
    One object, because it is made for each frame: a second one for the row costs a fifth of all decoding.
    """

    if TYPE_CHECKING:  # a splitter always knows these
        file: int = 0
        packet: int = 0
        sub: int = 0
        time: int = 0

    moment: int = 0
    """Packet at which the frame became readable; orders the frames of both directions. Its name may be an earlier packet."""
    stream: int = 0
    """0 or 1: the direction, as `tcp` numbers the two streams of the connection."""
    notes: list[Note] | None = None
    """What is odd about it."""
    payload: bytes | None = None
    """Only when the splitter was told to keep it."""
    raw: bytes | None = None
    """The whole frame, only when the splitter was told to keep it, or its dissector `keeps_frames`."""
