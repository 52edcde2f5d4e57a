"""Frames from any bytes, without a capture: `FrameSplitter().feed(data)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import msgspec

from pulsarscope.dissect.contract.dissector import Dissector
from pulsarscope.dissect.contract.frames import NOWHERE, Attachment, FrameBatch, KeptBytes, Note
from pulsarscope.dissect.framing.splitter import StreamSplitter
from pulsarscope.dissect.plugins.isolation import Failure
from pulsarscope.model.records import FrameRow


class Frame(FrameRow, gc=False, omit_defaults=True, tag_field="record", tag="frame"):
    """The row of a frame with the findings about its form and its payload."""

    notes: list[Note] | None = None
    payload: bytes | None = None


class FrameSplitter:
    """Stream of bytes → frames. Sans-IO; the frames' packet and time are 0, their offset counts from the first byte fed."""

    default_dissector: ClassVar[Callable[[], Dissector]]
    """Makes the default dissector; the package's public module sets it."""

    def __init__(self, dissector: Dissector | None = None, *, synced: bool = True, payload: bool = True) -> None:
        """Begin at offset 0.

        Args:
            dissector: the protocol; None: the default.
            synced: the first byte begins a frame; otherwise the first frame is found by content.
            payload: frames have their payload bytes.
        """
        dissector = dissector or type(self).default_dissector()
        self._splitter = StreamSplitter(dissector, KeptBytes(payload), origin=NOWHERE._replace(dissector=dissector.name), synced=synced)
        self._offset = 0

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that these bytes complete."""
        batch = FrameBatch()
        if data:
            self._splitter.feed(0, self._offset, [(bytes(data), 0, 0, 0)], batch)
            self._offset += len(data)
        return _frames(batch)

    @property
    def failure(self) -> Failure | None:
        """Exception of the dissector, after which all bytes are skipped."""
        return self._splitter.failure

    def finish(self) -> list[Frame]:
        """Return the remainder at the end of the stream: a truncated frame or skipped bytes."""
        batch = FrameBatch()
        self._splitter.finish(0, batch)
        return _frames(batch)


def _frames(batch: FrameBatch) -> list[Frame]:
    nothing = Attachment()
    attachments = [batch.attachments.get(position, nothing) for position in range(len(batch))]
    return [
        Frame(**msgspec.structs.asdict(row), notes=attachment.notes, payload=attachment.payload)
        for row, attachment in zip(batch.rows, attachments, strict=True)
    ]
