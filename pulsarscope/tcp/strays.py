"""Segments that are held until the peer shows whether they belong to another connection on the same 4-tuple."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pulsarscope.model.limits import OUT_OF_ORDER_MAX_BYTES, OUT_OF_ORDER_MAX_SEGMENTS
from pulsarscope.tcp.reorder_buffer import BUFFERED_PIECE_BYTES
from pulsarscope.tcp.sequence import SEQUENCE_MASK

if TYPE_CHECKING:
    from pulsarscope.capture import Segment
    from pulsarscope.tcp.stream import Stream


class Strays(msgspec.Struct, gc=False, eq=False):
    """Held segments, and the counts of the connection before the first of them."""

    packets: int
    end: int
    dropped: tuple[tuple[int, int], tuple[int, int]]
    """`dropped` and `late` of both streams."""
    segments: list[tuple[bytes, Segment, int]] = []
    """Segments with their flow keys and files."""
    ends: tuple[set[int], set[int]] = msgspec.field(default_factory=lambda: (set(), set()))
    """Sequence numbers after the segments of each stream."""
    size: int = 0

    @property
    def cost(self) -> int:
        """Return the approximate memory in bytes."""
        return self.size + BUFFERED_PIECE_BYTES * len(self.segments)

    def hold(self, stream: Stream, segment: Segment, file: int) -> None:
        """Hold a segment of a stream, within the bounds."""
        _, _, seq, _, _, _, payload, cut, _, _ = segment
        if self.size < OUT_OF_ORDER_MAX_BYTES and len(self.segments) < OUT_OF_ORDER_MAX_SEGMENTS:
            self.segments.append((stream.key, segment, file))
            self.size += len(payload)
            end = seq + len(payload) + cut
            self.ends[stream.index].update((end & SEQUENCE_MASK, (end + 1) & SEQUENCE_MASK))  # a FIN may follow
