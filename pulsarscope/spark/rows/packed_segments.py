"""Packed segments: the packets of one flow in one stretch of a file form one row, because each row costs time in a shuffle.

A stretch is a series of blocks that a reader holds at a time. Rows of a flow are in order when sorted by first packet.
"""

from __future__ import annotations

import pickle
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from pulsarscope.capture import Block, Owner, Segment
from pulsarscope.model.findings import Finding
from pulsarscope.model.flow import reverse_key
from pulsarscope.model.records import Row
from pulsarscope.model.tcp_flags import CONTROL_FLAGS
from pulsarscope.spark.rows.record_batch import to_record_batch

_FIELDS: Any = [("source", pa.string()), ("flow", pa.binary()), ("file", pa.int64()), ("packet", pa.int64()), ("data", pa.binary())]

SCHEMA = pa.schema(_FIELDS)
"""A row per flow and stretch: its flow key (the lower one of both directions), its file and its first packet. Rows with an empty flow key
hold findings about files, as JSON, and rows of unrecognised flows, pickled."""

ORDER = ("source", "flow", "file", "packet")
"""Sort order of the rows of a partition for decoding."""

STRETCH_BYTES = 4 << 20
"""Payload bytes of a stretch before its last block: this much of a file is in memory."""

STRETCH_PACKETS = 50_000
"""Number of packets of a stretch, about 25 MiB of objects."""

_COLUMNS = "qqIIBHIH"
"""Array types of the numbers of a segment: packet, time, sequence, acknowledgment, flags, window, missing, identification."""

Sides = tuple[list[Segment], list[Segment]]
"""Segments in the direction of the flow key, and in the other direction, each in packet order."""


def pack(sides: Sides, owners: Mapping[int, Owner] = {}) -> bytes:
    """Return segments as bytes, followed by the owners of their packets."""
    parts = [array("I", map(len, sides)).tobytes()]
    for segments in sides:
        if segments:
            *numbers, payloads, missing, identifications, options = zip(*segments, strict=True)
            for code, values in zip(_COLUMNS, (*numbers, missing, identifications), strict=True):
                parts.append(array(code, values).tobytes())
            for texts in (options, payloads):
                parts += (array("I", map(len, texts)).tobytes(), *texts)
    if owners and (named := {packet: owners[packet] for side in sides for packet, *_ in side if packet in owners}):
        parts.append(msgspec.msgpack.encode(named))
    return b"".join(parts)


def unpack(data: bytes) -> tuple[Sides, dict[int, Owner]]:
    """Return the segments and the owners from the result of `pack`."""
    counts = memoryview(data)[:8].cast("I")
    position = 8
    sides: list[list[Segment]] = []
    for count in counts:
        columns: list[list[int]] = []
        for code in _COLUMNS:
            end = position + count * array(code).itemsize
            columns.append(_numbers(code, data[position:end]))
            position = end
        *numbers, missing, identifications = columns
        options, position = _texts(data, position, count)
        payloads, position = _texts(data, position, count)
        sides.append(list(zip(*numbers, payloads, missing, identifications, options, strict=True)))
    owners = msgspec.msgpack.decode(data[position:], type=dict[int, Owner]) if position < len(data) else {}
    return (sides[0], sides[1]), owners


def _texts(data: bytes, position: int, count: int) -> tuple[list[bytes], int]:
    """Return byte strings, which follow their lengths, and the position after them."""
    end = position + 4 * count
    texts = []
    for length in _numbers("I", data[position:end]):
        texts.append(data[end : end + length])
        end += length
    return texts, end


def _numbers(code: str, data: bytes) -> list[int]:
    values = array(code)
    values.frombytes(data)
    return values.tolist()


def pack_rows(rows: Iterable[Row]) -> bytes:
    """Return rows as bytes."""
    return pickle.dumps([*rows], pickle.HIGHEST_PROTOCOL)


def unpack_rows(data: bytes) -> list[Row]:
    """Return the rows from the result of `pack_rows`."""
    rows: list[Row] = pickle.loads(data)  # noqa: S301 - a task of the same job wrote it
    return rows


class SegmentPacker:
    """A packer of the segments of one stretch of a file."""

    def __init__(self) -> None:
        self.bytes = 0
        self.packets = 0
        self._flows: dict[bytes, tuple[list[Segment], list[Segment]]] = {}
        self._findings: list[Finding] = []
        self._owners: dict[int, Owner] = {}

    def add(self, key: bytes, segments: Sequence[Segment]) -> None:
        """Add segments of one direction, in packet order."""
        other = reverse_key(key)
        flow = min(key, other)
        if (sides := self._flows.get(flow)) is None:
            sides = self._flows[flow] = ([], [])
        sides[flow is not key].extend(segments)
        self.packets += len(segments)
        self.bytes += sum([len(segment[6]) for segment in segments])

    def add_owners(self, owners: Mapping[int, Owner]) -> None:
        """Add owners of packets."""
        self._owners.update(owners)

    def add_findings(self, findings: Iterable[Finding]) -> None:
        """Add findings about the file."""
        self._findings += findings

    @property
    def full(self) -> bool:
        """True at the end of a stretch."""
        return self.bytes >= STRETCH_BYTES or self.packets >= STRETCH_PACKETS

    def take(self, source: str | None, file: int) -> Iterator[pa.RecordBatch]:
        """Remove all segments and findings; yield them as one record batch if there are any."""
        rows = [
            (source, flow, file, min(side[0][0] for side in sides if side), pack(sides, self._owners))
            for flow, sides in self._flows.items()
        ] + [(source, b"", file, finding.packet or 0, msgspec.json.encode(finding)) for finding in self._findings]
        self.__init__()  # type: ignore[misc]
        if rows:
            yield to_record_batch(rows, SCHEMA)


def pack_file(blocks: Iterable[Block], source: str | None, file: int, skipped: Collection[bytes] = frozenset()) -> Iterator[pa.RecordBatch]:
    """Yield the packed segments of a file, and the findings about it, without flows whose lower key is in `skipped`."""
    packer = SegmentPacker()
    for block in blocks:
        for key, segments in block.flows.items():
            if not skipped or min(key, reverse_key(key)) not in skipped:
                packer.add(key, segments)
        packer.add_findings(block.findings)
        packer.add_owners(block.owners)
        if packer.full:
            yield from packer.take(source, file)
    yield from packer.take(source, file)


class FlowReader:
    """A reader of sorted packed segments: the blocks of each flow, to be read before the next, and the rows without a flow key."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Read the first row."""
        self._rows = (row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True))
        self._row: Any = next(self._rows, None)

    def __iter__(self) -> Iterator[Finding | list[Row] | Iterator[Block]]:
        while self._row is not None:
            source, flow, _, _, data = self._row
            if flow:
                yield self._blocks(source, flow)
            else:
                yield msgspec.json.decode(data, type=Finding) if data.startswith(b"{") else unpack_rows(data)
                self._row = next(self._rows, None)

    def _blocks(self, source: str | None, flow: bytes) -> Iterator[Block]:
        other = reverse_key(flow)
        while self._row is not None and self._row[:2] == (source, flow):
            _, _, file, packet, data = self._row
            (own, others), owners = unpack(data)
            flows = {key: segments for key, segments in ((flow, own), (other, others)) if segments}
            if own and others and others[0][0] == packet:  # the direction of the first packet comes first, as in the blocks of a file
                flows = {other: others, flow: own}
            control = {key for key, segments in flows.items() if any(segment[4] & CONTROL_FLAGS for segment in segments)}
            last = max(segments[-1] for segments in flows.values())
            yield Block(file, flows, control, [], len(own) + len(others), packet, last[0], last[1], 0, owners=owners)
            self._row = next(self._rows, None)
