"""Frames whose size is given by a function."""

from __future__ import annotations

from collections.abc import Callable


class FrameSize:
    """Length of frames without a length field of fixed place and format, given by a function. Used as `Framing.length`, with adds=0."""

    size = 0
    """Bytes of a length field at the start of each frame: there is none."""

    def __init__(self, read: Callable[[bytes, int], int | None]) -> None:
        """Args: read: (data, position) → bytes of the whole frame that begins there; None while more bytes are needed; 0 if none begins.

        It is called when as many bytes are present as the smallest frame has.
        """
        self.read = read

    def unpack_from(self, data: bytes, position: int = 0) -> tuple[int]:
        """Return the size of a frame as `struct.Struct` returns a length; while it is unknown, one byte more than available."""
        size = self.read(data, position)
        return (len(data) - position + 1 if size is None else size,)
