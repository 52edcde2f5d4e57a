"""Places of selected packets in streams, where it is known at which packets and sequence numbers the streams begin."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from pulsarscope.model.byte_ranges import ByteRanges, Ranges
from pulsarscope.model.flow import endpoints_of, reverse_key, source_endpoint
from pulsarscope.model.limits import SEQUENCE_JUMP_MAX_BYTES
from pulsarscope.model.platform import load_native
from pulsarscope.tcp.sequence import SEQUENCE_HALF, SEQUENCE_MASK
from pulsarscope.tcp.stream_starts import StreamStarts

if TYPE_CHECKING:
    from pulsarscope.capture import Block, Segment


class PacketPlace(NamedTuple):
    """Position of one packet's payload in a stream."""

    connection: str
    """Name of the connection, file:packet."""
    source: str
    """Endpoint of the sender."""
    flags: int
    """TCP flags."""
    start: int
    """Offset of the first captured byte in the sender's stream."""
    end: int
    """Offset after the last captured byte; equal to `start` for a packet without payload."""


class _Stream(Struct, gc=False):
    """A stream from the first packet of its connection on; there may be very many."""

    file: int
    packet: int
    first: int
    """Sequence number at which it begins."""
    is_long: bool
    """True when its sequence numbers alone do not tell where its segments lie: they repeat every 4 GiB."""
    length: int = 0
    """Offset near which the next bytes of a long stream lie; 0 for others, whose bytes segments far ahead of them would hide."""

    @property
    def connection(self) -> str:
        """Return the name of its connection."""
        return f"{self.file}:{self.packet}"

    @property
    def sequence(self) -> int:
        """Return the sequence number at the offset `length`."""
        return self.first + self.length & SEQUENCE_MASK


_InRanges = tuple[_Stream, ByteRanges | None]
"""A stream, and its ranges, if it has any."""


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
            stream = self._streams.get(key)
            earlier = None if stream is None else (stream, self._ranges(stream.connection, source_endpoint(key)))
            for (stream, ranges), segments in _parts(earlier, begun.get(key, ()), block.flows.get(key, ())):
                if ranges is None:
                    continue
                looked_for = _looked_for(ranges, key, block)
                into = None if looked_for.apart else copies
                if carriers := _carriers(segments, stream, looked_for, named, block.file, into):
                    connection, source = stream.connection, source_endpoint(key)
                    for packet, flags, start, end in carriers:
                        places[packet] = PacketPlace(connection, source, flags, start, end)
            if key in begun:
                stream, ranges = begun[key][-1]
                if ranges is None:
                    self._streams.pop(key, None)
                else:
                    self._streams[key] = stream
        return places

    def _begun(self, block: Block) -> dict[bytes, list[_InRanges]]:
        """Return the streams that begin in a block, in order, by flow; without those that have no ranges and follow none that has."""
        begun: dict[bytes, list[_InRanges]] = {}
        firsts = self._starts.within(block.file, block.first_packet, block.last_packet)
        for packet, key in sorted(_flows_of(block.flows, firsts)) if firsts else ():
            connection, is_long = f"{block.file}:{packet}", self._starts.is_long(block.file, packet)
            for flow, source, first in zip((key, reverse_key(key)), endpoints_of(key), firsts[packet], strict=True):
                ranges = self._ranges(connection, source)
                if ranges is not None or flow in begun or flow in self._streams:
                    begun.setdefault(flow, []).append((_Stream(block.file, packet, first, is_long), ranges))
        return begun


def _flows_of(flows: Mapping[bytes, Sequence[Segment]], packets: Mapping[int, Any]) -> list[tuple[int, bytes]]:
    """Return packets with their flow keys."""
    if (native := load_native()[0]) is not None:
        found: list[tuple[int, bytes]] = native.flows_of(flows, {*packets})
        return found
    return [(segment[0], key) for key, segments in flows.items() for segment in segments if segment[0] in packets]


def _parts(
    stream: _InRanges | None, following: Iterable[_InRanges], segments: Sequence[Segment]
) -> Iterator[tuple[_InRanges, Sequence[Segment]]]:
    """Yield the segments of a flow by stream: those of one before the first packet of the following one."""
    for each in following:
        packet = each[0].packet
        if segments and segments[0][0] < packet:
            at = bisect_left(segments, packet, key=itemgetter(0))
            if stream is not None:
                yield stream, segments[:at]
            segments = segments[at:]
        stream = each
    if stream is not None and segments:
        yield stream, segments


def _looked_for(ranges: ByteRanges, key: bytes, block: Block) -> ByteRanges:
    """Return ranges, and whether all packets of the stream in a block are examined."""
    if ranges.apart is not None:
        return ranges
    looks = key in block.control or reverse_key(key) in block.control
    return ranges._replace(complete=ranges.complete or looks, apart=looks)


def _carriers(
    segments: Sequence[Segment], stream: _Stream, ranges: ByteRanges, named: AbstractSet[int], file: int, copies: Any
) -> Sequence[tuple[int, int, int, int]]:
    """Return packet, flags, start and end of the selected segments, except those that `copies` take."""
    compiled: Any = segments
    carriers: list[tuple[int, int, int, int]]
    reach = SEQUENCE_JUMP_MAX_BYTES if stream.is_long else SEQUENCE_HALF
    if hasattr(compiled, "copies") and not ranges.starts:
        position = stream.sequence, stream.length, reach, stream.is_long
        carriers, stream.length = compiled.copies(position, ranges.compiled, (ranges.complete, named), *ranges.at_packets, file, copies)
        return carriers
    first, length, starts, ends = stream.first, stream.length, ranges.starts, ranges.ends
    all_segments = ranges.complete or bool(named)
    carriers, at, count, before = [], 0, len(starts), -1
    for packet, _, seq, _, flags, _, payload, _, _, _ in segments:
        start = end = 0
        if payload:
            distance = (seq + (flags >> 1 & 1) - first - length + SEQUENCE_HALF & SEQUENCE_MASK) - SEQUENCE_HALF
            if -reach <= distance <= reach:
                start = length + distance
                end = start + len(payload)
                if stream.is_long and end > length:
                    length = end
        elif not all_segments:
            continue
        if before < 0 or start < before:
            at = bisect_right(ends, start)
        else:
            while at < count and ends[at] <= start:
                at += 1
        before = start
        meets = start < end and at < count and starts[at] < end if ranges.compiled is None else ranges.meet(start, end)
        if meets or ranges.complete or packet in named:
            carriers.append((packet, flags, start, end))
    stream.length = length
    return carriers
