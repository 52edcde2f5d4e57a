"""Frames in the columns of the compiled reader, with those parts of the interface of `FrameBatch` that lie between bytes and sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pulsarscope.dissect.contract.frames import FrameBatch, KeptBytes


class ColumnBatch(FrameBatch):
    """Frames of a connection whose client is known. Its rows and attachments are those that Python has read after the last columns."""

    __slots__ = ("_places", "columns")

    def __init__(self, columns: Any) -> None:
        """Begin with the empty `Frames` of the compiled reader."""
        super().__init__()
        self.columns = columns
        self._places: tuple[int, int] | None = None  # of a part

    def __len__(self) -> int:
        return len(self.columns) + len(self.rows)

    def settle(self) -> Any:
        """Move all rows into the columns, and return the columns."""
        if self.rows:
            attached = self.attachments.get
            for position, (row, moment) in enumerate(zip(self.rows, self.moments, strict=True)):
                self.columns.append(row, moment, attached(position))
            self.rows, self.moments, self.attachments = [], [], {}
        return self.columns

    def sort(self, ranks: Sequence[Any] = (), *, last: int = 0) -> None:
        """See `FrameBatch`. Columns have no ranks."""
        if ranks:
            raise NotImplementedError
        self.settle().sort(last)

    @property
    def places(self) -> tuple[int, int]:
        """Places in the columns of the first frame and after the last one."""
        return self._places or (0, len(self.settle()))

    def all_moments(self) -> Sequence[int]:
        """See `FrameBatch`."""
        moments: list[int] = self.settle().moments()
        return moments

    def first_moment(self) -> int:
        """See `FrameBatch`."""
        first: int = self.settle().first_moment()
        return first

    def part(self, start: int, stop: int) -> ColumnBatch:
        """See `FrameBatch`; a part shares the columns of all frames, and has its own places."""
        batch = ColumnBatch(self.settle())
        batch._places = start, stop
        return batch

    def in_rows(self, kept: KeptBytes) -> FrameBatch:
        """Return the frames as rows, with the additional bytes to keep."""
        batch = self.part_in_rows(0, len(self.settle()), kept)
        batch.streams = self.streams
        return batch

    def part_in_rows(self, start: int, stop: int, kept: KeptBytes) -> FrameBatch:
        """Return the frames at these places as rows, with the additional bytes to keep."""
        batch = FrameBatch()
        batch.rows, batch.moments, batch.attachments = self.columns.rows(start, stop, kept.payload, kept.raw)
        return batch
