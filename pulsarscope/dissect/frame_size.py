"""Frames whose size a function tells."""

from __future__ import annotations

from collections.abc import Callable


class FrameSize:
    """Length of frames that have no length field of one place and packing: what a function says. As `Framing.length`, with adds=0."""

    size = 1
    """Bytes that are there when the function is called."""

    def __init__(self, read: Callable[[bytes, int], int | None]) -> None:
        """Args: read: (data, position) → bytes of the whole frame that begins there; None while more bytes are needed to tell."""
        self._read = read

    def unpack_from(self, data: bytes, position: int = 0) -> tuple[int]:
        """Return the size of a frame as `struct.Struct` gives a length; more than is there while that does not tell."""
        size = self._read(data, position)
        return (len(data) - position + 1 if size is None else size,)
