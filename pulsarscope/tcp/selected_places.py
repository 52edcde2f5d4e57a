"""Places of selected packets in streams, where it is known at which packets and sequence numbers the streams begin."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from pulsarscope.model.byte_ranges import ByteRanges, Ranges
from pulsarscope.model.flow import endpoints_of, reverse_key
from pulsarscope.model.limits import SEQUENCE_JUMP_MAX_BYTES
from pulsarscope.model.platform import load_native
from pulsarscope.tcp.placement import PacketPlace, bytes_of
from pulsarscope.tcp.sequence import SEQUENCE_MASK
from pulsarscope.tcp.stream_starts import StreamStarts

if TYPE_CHECKING:
    from pulsarscope.capture import Block, Segment


class _Stream(Struct, gc=False):
    """A stream from the first packet of its connection on."""

    packet: int
    connection: str
    source: str
    """Endpoint of its sender."""
    first: int
    """Sequence number at which it begins."""
    ranges: ByteRanges | None
    """Its ranges, as of its beginning; None if it has none."""
    length: int = 0
    """Offset near which the next bytes lie: sequence numbers alone repeat every 4 GiB."""

    @property
    def sequence(self) -> int:
        """Return the sequence number there."""
        return self.first + self.length & SEQUENCE_MASK


class SelectedPlaces:
    """Places of the selected packets of one vantage point, block by block in order."""

    def __init__(self, starts: StreamStarts, ranges: Ranges) -> None:
        """Take the beginnings of all streams, and the ranges that select packets."""
        self._starts = starts
        self._ranges = ranges
        self._streams: dict[bytes, _Stream] = {}
        """The latest stream of each flow, if it has ranges."""

    def feed(self, block: Block, named: AbstractSet[int] = frozenset(), copies: Any = None) -> dict[int, PacketPlace]:
        """Return the places of the packets that are selected by ranges, and of others in the same streams that are `named`, by number.

        The compiled reader's `PacketCopies` receive those whose comments consist only of names of frames.
        """
        places: dict[int, PacketPlace] = {}
        begun = self._begun(block)
        for key in {*begun, *self._streams.keys() & block.flows.keys()}:
            for stream, segments in _parts(self._streams.get(key), begun.get(key, ()), block.flows.get(key, ())):
                if (ranges := self._looked_for(stream, key, block)) is not None:
                    into = None if ranges.apart else copies
                    for packet, flags, start, end in _carriers(segments, stream, ranges, named, block.file, into):
                        places[packet] = PacketPlace(stream.connection, stream.source, flags, start, end)
            if key in begun:
                self._streams[key] = begun[key][-1]
            if self._streams[key].ranges is None:
                del self._streams[key]
        return places

    def _begun(self, block: Block) -> dict[bytes, list[_Stream]]:
        """Return the streams that begin in a block, in order, by flow; without those that have no ranges and follow none that has."""
        begun: dict[bytes, list[_Stream]] = {}
        firsts = self._starts.within(block.file, block.first_packet, block.last_packet)
        for packet, key in sorted(_flows_of(block.flows, firsts)) if firsts else ():
            connection = f"{block.file}:{packet}"
            for flow, source, first in zip((key, reverse_key(key)), endpoints_of(key), firsts[packet], strict=True):
                ranges = self._ranges(connection, source)
                if ranges is not None or flow in begun or flow in self._streams:
                    begun.setdefault(flow, []).append(_Stream(packet, connection, source, first, ranges))
        return begun

    def _looked_for(self, stream: _Stream, key: bytes, block: Block) -> ByteRanges | None:
        """Return the ranges of a stream, and whether all its packets in a block are examined; None if it has no ranges."""
        if stream.ranges is None or stream.ranges.apart is False:
            return stream.ranges
        ranges = self._ranges(stream.connection, stream.source)
        if ranges is None or ranges.apart is not None:
            return ranges
        looks = key in block.control or reverse_key(key) in block.control
        return ranges._replace(complete=ranges.complete or looks, apart=looks)


def _flows_of(flows: Mapping[bytes, Sequence[Segment]], packets: Mapping[int, Any]) -> list[tuple[int, bytes]]:
    """Return packets with their flow keys."""
    if (native := load_native()[0]) is not None:
        found: list[tuple[int, bytes]] = native.flows_of(flows, {*packets})
        return found
    return [(segment[0], key) for key, segments in flows.items() for segment in segments if segment[0] in packets]


def _parts(
    stream: _Stream | None, following: Iterable[_Stream], segments: Sequence[Segment]
) -> Iterator[tuple[_Stream, Sequence[Segment]]]:
    """Yield the segments of a flow by stream: those of one before the first packet of the following one."""
    for each in following:
        if segments and segments[0][0] < each.packet:
            at = bisect_left(segments, each.packet, key=itemgetter(0))
            if stream is not None:
                yield stream, segments[:at]
            segments = segments[at:]
        stream = each
    if stream is not None and segments:
        yield stream, segments


def _carriers(
    segments: Sequence[Segment], stream: _Stream, ranges: ByteRanges, named: AbstractSet[int], file: int, copies: Any
) -> Sequence[tuple[int, int, int, int]]:
    """Return packet, flags, start and end of the selected segments, except those that `copies` take."""
    compiled: Any = segments
    carriers: list[tuple[int, int, int, int]]
    if hasattr(compiled, "copies") and not ranges.starts:
        position = stream.sequence, stream.length, SEQUENCE_JUMP_MAX_BYTES
        carriers, stream.length = compiled.copies(position, ranges.compiled, (ranges.complete, named), *ranges.at_packets, file, copies)
        return carriers
    all_segments = ranges.complete or bool(named)
    carriers = []
    for segment in segments:
        if all_segments or segment[6]:
            start, end = bytes_of(segment, stream.sequence, stream.length)
            stream.length = max(stream.length, end)
            if ranges.complete or segment[0] in named or ranges.meet(start, end):
                carriers.append((segment[0], segment[4], start, end))
    return carriers
