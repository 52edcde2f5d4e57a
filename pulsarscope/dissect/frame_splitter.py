"""Frames from any bytes, without a capture: `FrameSplitter().feed(data)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from pulsarscope.dissect.contract import Dissector
from pulsarscope.dissect.frames import Frame, Origin
from pulsarscope.dissect.splitter import Keep, StreamSplitter


class FrameSplitter:
    """One stream of bytes → frames. Sans-IO; the frames' packet and time are 0, their offset counts from the first byte fed."""

    default_dissector: ClassVar[Callable[[], Dissector]]
    """Maker of the dissector of those who name none; the package's face sets it."""

    def __init__(self, dissector: Dissector | None = None, *, synced: bool = True, payload: bool = True) -> None:
        """Begin at offset 0.

        Args:
            dissector: the protocol; None: the default.
            synced: the first byte begins a frame; otherwise the first frame is found by content.
            payload: frames hold their payload bytes.
        """
        dissector = dissector or type(self).default_dissector()
        self._splitter = StreamSplitter(dissector, Keep(payload), origin=Origin(None, None, dissector.name), synced=synced)
        self._offset = 0

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that these bytes complete."""
        out: list[Frame] = []
        if data:
            self._splitter.feed(0, self._offset, [(bytes(data), 0, 0, 0)], out)
            self._offset += len(data)
        return out

    def finish(self) -> list[Frame]:
        """No more bytes will come: what is left is a truncated frame or skipped bytes."""
        out: list[Frame] = []
        self._splitter.finish(0, out)
        return out
