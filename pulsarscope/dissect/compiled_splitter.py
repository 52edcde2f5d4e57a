"""A splitter for dissectors with a compiled reader, which reads plain frames, many at a call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pulsarscope.dissect.frame_limits import least_limit
from pulsarscope.dissect.splitter import StreamSplitter

if TYPE_CHECKING:
    from pulsarscope.dissect.frames import FrameBatch


class CompiledSplitter(StreamSplitter):
    """Gives the frames of `StreamSplitter`: where the compiled reader stops, Python reads one frame, and decides on everything else."""

    worth_bytes = 2048
    """Bytes from which on a call of the compiled reader saves more than it costs: short connections have few frames, and few are plain."""

    def _split(self, position: int, out: FrameBatch, *, at_end: bool, single: bool = False) -> int:
        if self._sub_of is not None or len(self._buffer.data) < self.worth_bytes:  # behind a gap, names are not those of the order
            return super()._split(position, out, at_end=at_end, single=single)
        while True:
            begun = self._read_plain(position, out)
            position = super()._split(begun, out, at_end=at_end, single=True)
            if position == begun or not self.synced:
                return position

    def _read_plain(self, position: int, out: FrameBatch) -> int:
        """Read frames until one that is not plain, not whole or too large; return its position."""
        buffer, before = self._buffer, len(out.rows)
        source, connection, protocol = self.origin
        self._position, self._packet, self._sub, error = self.dissector.compiled.read_frames(
            buffer.data,
            position,
            (source, buffer.file, connection, protocol, self.direction),
            (buffer.base, buffer.floor, least_limit(self.limits), self._packet, self._sub),
            (buffer.pieces, buffer.ends),
            self._kept,
            (out.rows, out.moments, out.attachments),
        )
        self._count(len(out.rows) - before, out)
        if error is not None:
            raise error
        return self._position
