"""A run of bytes of a stream that are not framed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pulsarscope.dissect.contract.frames import SKIPPED, Decoded, Note

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pulsarscope.tcp.pieces import Piece


class SkippedRun:
    """The bytes skipped since the last frame, if any."""

    __slots__ = ("_notes", "_place", "_size", "start")

    def __init__(self) -> None:
        self._notes: tuple[Note, ...] = ()
        self._clear()

    def __bool__(self) -> bool:
        return self.start >= 0

    def _clear(self) -> None:
        self.start = -1
        """Offset at which it began."""
        self._size = 0
        self._place = 0, 0, 0  # packet, time, moment of its last byte so far
        self._notes = ()

    def note(self, code: str, text: str) -> None:
        """Add a reason for which the next bytes are skipped."""
        self._notes += ((code, text),)

    def enter_file(self) -> None:
        """Continue in another file: the packets so far are before all of its packets."""
        self._place = 0, self._place[1], 0

    def add(self, offset: int, size: int, pieces: Iterable[Piece]) -> None:
        """Add bytes from an offset on, which these pieces brought."""
        if self.start < 0:
            self.start = offset
        self._size += size
        for _, packet, time, moment in pieces:
            if packet >= self._place[0]:
                self._place = packet, time, moment

    def end(self, code: str | None) -> tuple[tuple[int, int, int], int, int, Decoded]:
        """Return packet, time and moment of the last byte, the offset and size, and the row with its notes; begin a new run."""
        notes = [*self._notes]
        if code is not None:
            notes.append((code, f"{self._size:,} bytes at stream offset {self.start} are not framed"))
        ended = self._place, self.start, self._size, (None, None, None, None, None, None, SKIPPED, notes)
        self._clear()
        return ended
