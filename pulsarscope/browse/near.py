"""The bytes of a frame from the packets near it, without all that comes before."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from pulsarscope.capture import Block, BlockReader, Blocks, Inputs, Portion
from pulsarscope.engine.local import Run
from pulsarscope.engine.options import Options
from pulsarscope.model.records import FrameRow, RawFrame


class _Nothing:
    """The blocks of a capture that is not read."""

    recognised = True
    first_time = None

    def __iter__(self) -> Iterator[Block]:
        return iter(())

    def take_secrets(self) -> list[tuple[int, bytes]]:
        """Return none."""
        return []


def read_near(portions: Sequence[Portion], inputs: Inputs, options: Options, wanted: FrameRow) -> RawFrame | None:
    """Return the bytes of a frame from as much of its capture as holds it; None when it is not recognised there, as inside TLS.

    `portions` are those of all captures, in order; `options` those of a run that gives frames with their bytes.
    """
    own = [portion for portion in portions if portion.file == wanted.file]
    last = bisect_left([portion.packets for portion in own], wanted.packet) - 1
    if last < 0:
        return None
    first = max(last - 1 - 2 * wanted.size // max(own[last].start // max(last, 1), 1), 0)  # retransmissions included
    begin, end = own[first], own[last]
    part = Portion(begin.file, begin.start, end.end, begin.packets, begin.preamble)

    def read(path: str, file: int) -> Blocks:
        return BlockReader(path, file, by_interface=inputs.by_interface, portion=part) if file == part.file else _Nothing()

    near = Inputs(inputs.paths[: part.file + 1], None, [])
    found = False
    for batch in Run(near, options, read):
        for row in batch.rows:
            if isinstance(row, FrameRow):
                found = _is_same(row, wanted)
            elif isinstance(row, RawFrame) and found:
                return row
    return None


def _is_same(row: FrameRow, wanted: FrameRow) -> bool:
    """Compare all but what depends on what was read before: names of connections, places in streams, what a session knows."""
    names = ("packet", "time", "direction", "size", "command", "fields", "metadata", "payload_size", "status")
    return all(getattr(row, name) == getattr(wanted, name) for name in names)
