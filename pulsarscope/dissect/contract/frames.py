"""The seam between the bytes of streams and the frames of a connection: segments in, batches of decoded frames out.

Everything above works on `FrameBatch`, everything below on bytes; `conversation.Conversation` makes batches of bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from pulsarscope.model.flow import CLIENT
from pulsarscope.model.records import Checksum, FrameRow

OK = "ok"
MALFORMED = "malformed"
TRUNCATED = "truncated"
SKIPPED = "skipped"


class Origin(NamedTuple):
    """The place columns that all rows of a connection share."""

    source: str | None
    connection: str
    dissector: str


NOWHERE: Any = Origin(None, None, None)  # type: ignore[arg-type]
"""Origin of frames outside any capture."""

Note = tuple[str, str]
"""A finding about the form of a frame: (code, where and what)."""

SPLITTER_CODES = frozenset({"frame-malformed", "frame-too-large", "frame-truncated", "frame-unfinished", "bytes-skipped"})
"""Codes of the notes that the splitter itself gives a frame."""


Decoded = tuple[
    str | None, dict[str, Any] | None, dict[str, Any] | None, Checksum | None, dict[str, Any] | None, int | None, str, list[Note] | None
]
"""The contents of one frame: (command, fields, broker entry metadata, checksum, metadata, payload offset, status, notes).

The payload offset counts from the start of the frame; None when the frame carries no payload. A plain tuple, because one is made for
each frame: a NamedTuple costs four times as much.
"""


class StreamAccount(NamedTuple):
    """The bytes of one stream outside whole frames, by the way they were handled."""

    frames: int = 0
    """Whole frames, malformed ones included."""
    skipped: int = 0
    """Bytes that are not framed."""
    cut: int = 0
    """Bytes of the starts of frames whose rest fell into a gap."""
    tail: int = 0
    """Bytes of an unfinished last frame."""
    proxy_source: str | None = None
    """Source endpoint of a PROXY protocol header."""


class KeptBytes(NamedTuple):
    """The bytes that are kept in addition to the rows of frames: each kind costs a copy."""

    payload: bool = False
    raw: bool = False
    """Whole frames."""
    columns: bool = False
    """True when frames may stay in the columns of a compiled reader, without rows."""


class Attachment(msgspec.Struct, gc=False):
    """The part of a frame that outputs never see."""

    notes: list[Note] | None = None
    payload: bytes | None = None
    raw: bytes | None = None
    """The whole frame."""


class FrameBatch:
    """Decoded frames of one connection, in the order in which they became readable: columns of equal length, and sparse attachments.

    The rows are complete except for the names, requests and latencies that only the dissector's session knows.
    """

    __slots__ = ("attachments", "moments", "rows", "streams")

    def __init__(self) -> None:
        self.rows: list[FrameRow] = []
        self.moments: list[int] = []
        """Packets at which the frames became readable; they order the frames of both streams. A frame's name may be an earlier packet."""
        self.attachments: dict[int, Attachment] = {}
        """By position in the batch."""
        self.streams: list[int] = []
        """Stream (0 or 1) of each frame while it is unknown which stream is the client's; then empty."""

    def __len__(self) -> int:
        return len(self.rows)

    def extend(self, other: FrameBatch) -> None:
        """Append the frames of another batch."""
        before = len(self.rows)
        self.rows += other.rows
        self.moments += other.moments
        self.streams += other.streams
        for position, attachment in other.attachments.items():
            self.attachments[before + position] = attachment

    def all_moments(self) -> Sequence[int]:
        """Return the moments of all frames, wherever they are stored."""
        return self.moments

    def first_moment(self) -> int:
        """Return the earliest moment of the frames, of which there must be at least one."""
        return min(self.moments)

    def part(self, start: int, stop: int) -> FrameBatch:
        """Return the frames at these positions."""
        if not start and stop >= len(self.rows):
            return self
        batch = FrameBatch()
        batch.rows, batch.moments, batch.streams = self.rows[start:stop], self.moments[start:stop], self.streams[start:stop]
        if attachments := self.attachments:
            batch.attachments = {old - start: attachments[old] for old in range(start, stop) if old in attachments}
        return batch

    def each(self) -> Iterator[FrameBatch]:
        """Yield the frames one by one, with their attachments, in a batch object that is reused."""
        batch = FrameBatch()
        attached = self.attachments.get
        for position, row in enumerate(self.rows):
            attachment = attached(position)
            batch.rows[:] = (row,)
            batch.attachments = {} if attachment is None else {0: attachment}
            yield batch

    def sort(self, ranks: Sequence[Any] = (), *, last: int = 0) -> None:
        """Order the frames by moment, and frames of one moment by rank; without ranks, keep their order.

        With `last`, the first so many frames come after all others of their moment.
        """
        rows, moments, streams, attachments = self.rows, self.moments, self.streams, self.attachments
        keys: Sequence[Any] = [*zip(moments, ranks, strict=True)] if ranks else moments
        order = sorted([*range(last, len(keys)), *range(last)], key=keys.__getitem__)
        self.rows = [rows[position] for position in order]
        self.moments = [moments[position] for position in order]
        if streams:
            self.streams = [streams[position] for position in order]
        if attachments:
            self.attachments = {new: attachments[old] for new, old in enumerate(order) if old in attachments}

    def truncate(self, size: int) -> None:
        """Drop all frames after the first `size`."""
        del self.rows[size:], self.moments[size:], self.streams[size:]
        self.attachments = {position: attachment for position, attachment in self.attachments.items() if position < size}

    def client(self, sender_of: Callable[[str], str | None]) -> int | None:
        """Return the client's stream, shown by the first frame that only one side sends; None when no frame shows it."""
        for row, stream in zip(self.rows, self.streams, strict=False):
            sender = sender_of(row.command or "")
            if sender is not None:
                return stream if sender == CLIENT else 1 - stream
        return None

    def assign(self, directions: Sequence[str]) -> None:
        """Name the sender of each frame, now that the directions of stream 0 and stream 1 are known."""
        for row, stream in zip(self.rows, self.streams, strict=False):
            row.direction = directions[stream]
        self.streams = []
