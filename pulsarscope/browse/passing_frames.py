"""The frames that a filter passes, found while they are read."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pulsarscope.browse.browsed_capture import Frames
    from pulsarscope.filter import Filter


class PassingFrames:
    """Positions of the frames that a filter passes, in ascending order, as far as they were looked at."""

    def __init__(self, chosen: Filter) -> None:
        """Begin without any."""
        self.positions = array("q")
        self._filter = chosen
        self._looked = 0
        self._lock = Lock()  # a thread that is cancelled still ends its chunk when the next one begins

    def look_on(self, frames: Frames, endpoints: Mapping[str, tuple[str, str]], cancelled: Callable[[], bool]) -> None:
        """Look at the frames that were read since, unless it is cancelled before."""
        with self._lock:
            while self._looked < len(frames) and not cancelled():
                number = self._looked // max(frames.start(1), 1)
                fresh = frames.chunk(number)[self._looked - frames.start(number) :]
                passed = set(map(id, self._filter.select(fresh, endpoints)))
                self.positions.extend(self._looked + at for at, row in enumerate(fresh) if id(row) in passed)
                self._looked = self._looked + len(fresh) if fresh else frames.start(number + 1)  # a damaged chunk has none
