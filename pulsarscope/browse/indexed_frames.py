"""The frames of an index on a screen. Damaged parts are missing, and the screen goes on without them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from pulsarscope.model.errors import CaptureError

if TYPE_CHECKING:
    from pulsarscope.browse.browsed_capture import Frames
    from pulsarscope.model.records import FrameRow

_Item = TypeVar("_Item")


class IndexedFrames:
    """Frames by position; the frames of damaged chunks are missing."""

    def __init__(self, index: Frames, note: Callable[[str], object]) -> None:
        """Read from an index; `note` gets a text about any damage."""
        self._index = index
        self._note = note

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return self._index.chunks

    def __len__(self) -> int:
        return len(self._index)

    def start(self, number: int) -> int:
        """Return the position of the first frame of a chunk."""
        return self._index.start(number)

    def __getitem__(self, index: int) -> FrameRow:
        """Return the frame at a position. Raises IndexError if there is none that can be read."""
        try:
            return self._index[index]
        except CaptureError as error:
            self._note(str(error))
            raise IndexError(index) from error

    def chunk(self, number: int) -> list[FrameRow]:
        """Return the frames of a chunk, or an empty list if it is damaged."""
        return self._undamaged(self._index.chunk, number)

    def names(self, number: int) -> list[tuple[int, int, int]]:
        """Return file, packet and sub of the frames of a chunk, or an empty list if it is damaged."""
        return self._undamaged(self._index.names, number)

    def _undamaged(self, read: Callable[[int], list[_Item]], number: int) -> list[_Item]:
        try:
            return read(number)
        except CaptureError as error:
            self._note(str(error))
            return []
