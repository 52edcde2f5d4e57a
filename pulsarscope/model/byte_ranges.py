"""Byte ranges of streams, and the packets that carry them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class ByteRanges(NamedTuple):
    """Byte ranges of one stream, in stream order."""

    starts: Sequence[int]
    ends: Sequence[int]
    compiled: Any = None
    """The ranges and their frames as `PackedFrames` of the compiled reader; replaces `starts` and `ends`."""
    at_packets: tuple[Any, ...] = (), (0, {})
    """Commands of the frames, and findings at the packets of the ranges, for the compiled reader's `Segments.copies`."""
    complete: bool = False
    """True when all packets of the stream are wanted, whatever bytes they carry."""
    apart: bool | None = False
    """With `complete`: True when each packet is examined individually; None when only packets that open or close the connection in the same
    block are."""

    def meet(self, start: int, end: int) -> bool:
        """Return True when a range has bytes between `start` and `end`."""
        if self.compiled is not None:
            return bool(self.compiled.within(start, end))
        starts, at = self.starts, bisect_right(self.ends, start)
        return start < end and at < len(starts) and starts[at] < end


NO_RANGES = ByteRanges((), ())

Ranges = Callable[[str, str], ByteRanges | None]
"""Function that returns the ranges of a stream, given the name of its connection and the endpoint of its sender."""
