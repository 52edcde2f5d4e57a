"""Ranges of the bytes of streams, in which something is looked for."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class ByteRanges(NamedTuple):
    """Ranges of a stream, in its order."""

    starts: Sequence[int]
    ends: Sequence[int]
    packed: tuple[bytes, bytes]
    """The bytes of both, for the compiled reader."""
    told: tuple[Any, ...] = (b"", b"", b""), (), (0, {})
    """Its report on the packets there; see its `Segments.copies`."""

    def meet(self, start: int, end: int) -> bool:
        """Return True when bytes from `start` to `end` lie in one of them."""
        return start < end and bisect_right(self.ends, start) < bisect_left(self.starts, end)


Ranges = Callable[[str, str], ByteRanges | None]
"""Gives the ranges of a stream that are looked for, by the name of the connection and the endpoint of the sender."""
