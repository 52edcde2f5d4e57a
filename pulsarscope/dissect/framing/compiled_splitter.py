"""A splitter for dissectors with a compiled reader, which reads many plain frames per call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pulsarscope.dissect.framing.column_batch import ColumnBatch
from pulsarscope.dissect.framing.frame_limits import least_limit
from pulsarscope.dissect.framing.splitter import StreamSplitter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pulsarscope.dissect.contract.frames import FrameBatch
    from pulsarscope.tcp.pieces import Piece


class CompiledSplitter(StreamSplitter):
    """Yields the same frames as `StreamSplitter`: where the compiled reader stops, Python reads one frame, and decides everything else."""

    __slots__ = ("_large",)

    body_bytes = 2048
    """Average frame size above which frames are read in place: copying large payloads takes longer than reading them."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._large = False  # the latest frames were that large

    def feed(self, file: int, offset: int, pieces: Sequence[Piece], out: FrameBatch) -> None:
        """See `StreamSplitter.feed`."""
        if isinstance(pieces, list):
            super().feed(file, offset, pieces, out)
            return
        buffer = self._buffer
        size = pieces.size()  # type: ignore[attr-defined]
        if file != buffer.file or offset + size < buffer.wake or not self._are_named(pieces):
            super().feed(file, offset, [*pieces], out)
            return
        frames, start = self.frames, buffer.base if buffer.ends else offset
        is_done = False
        if self._large and self.synced and isinstance(out, ColumnBatch):  # Python may have lost the framing since
            is_done = self._read_heads(offset, pieces, out)
        else:
            buffer.append_joined(offset, pieces, self.dissector.compiled.join)
        if not is_done:
            self._consume(out, at_end=False)
        buffer.keep_lists()
        is_plain = self.synced and not (self.at_start or self._kept.payload or self._kept.raw or self.failure)
        self._large = is_plain and offset + size - len(buffer) - start >= self.body_bytes * (self.frames - frames)

    def _are_named(self, pieces: Sequence[Piece]) -> bool:
        """Return True when the last byte of a frame names it, in the present bytes and these, whose packets are in order."""
        if self._has_gap:
            self._follow_packets()
            if self._sub_of is not None or pieces[0][1] < (self._buffer.pieces[-1][1] if self._buffer.ends else self._packet):
                return False
        return True

    def _follow_packets(self) -> None:
        if isinstance(self._buffer.ends, (list, tuple)):  # else its latest pieces, from the compiled reader, are already in order
            super()._follow_packets()

    def _read_heads(self, offset: int, pieces: Sequence[Piece], out: ColumnBatch) -> bool:
        """Read plain frames without their payload, and hold the bytes after them; return True if there are none or more are needed."""
        buffer, columns = self._buffer, out.settle()
        buffer.join()
        if not buffer.ends:
            buffer.begun = offset
        start = buffer.base if buffer.ends else offset
        before = len(columns)
        source, connection, protocol = self.origin
        position, self._packet, self._sub, wake, rest = columns.read_heads(
            (buffer.data, buffer.pieces, buffer.ends, offset, pieces),
            (source, buffer.file, connection, protocol, self.direction),
            (buffer.floor, least_limit(self.limits), self._packet, self._sub),
        )
        self._count(len(columns) - before, out)
        buffer.hold(start + position, rest)
        if rest is not None and not wake:
            return False
        buffer.wake = start + wake
        return True

    def _split(self, position: int, out: FrameBatch, *, at_end: bool, single: bool = False) -> int:
        # After a gap, names do not follow the order.
        if not isinstance(out, ColumnBatch) or self._sub_of is not None:
            return super()._split(position, out, at_end=at_end, single=single)
        while True:
            begun = self._read_plain(position, out)
            position = super()._split(begun, out, at_end=at_end, single=True)
            if position == begun or not self.synced:
                return position

    def _read_plain(self, position: int, out: ColumnBatch) -> int:
        """Read frames up to one that is not plain, not complete or too large; return its position."""
        buffer, columns = self._buffer, out.settle()
        before = len(columns)
        source, connection, protocol = self.origin
        self._position, self._packet, self._sub, error = columns.read(
            (buffer.data, position, buffer.base, buffer.pieces, buffer.ends),
            (source, buffer.file, connection, protocol, self.direction),
            (buffer.floor, least_limit(self.limits), self._packet, self._sub),
        )
        self._count(len(columns) - before, out)
        if error is not None:
            raise error
        return self._position
