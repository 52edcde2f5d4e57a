"""Packets as Arrow rows: the rows of `spark.read.format("pulsarscope")`."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate, groupby
from operator import itemgetter
from typing import Any

import msgspec
import pyarrow as pa

from pulsarscope.capture import Block, Owner, Segment
from pulsarscope.model.findings import Finding
from pulsarscope.model.flow import reverse_key, source_of_key, with_source, without_source
from pulsarscope.model.text import printable
from pulsarscope.spark.rows.packed_segments import SegmentPacker

BATCH_PACKETS = 10_000
"""Number of packets in a record batch, as in Spark itself."""

BATCH_BYTES = 4 << 20
"""Payload bytes of a record batch: a worker holds several batches."""

_FIELDS: Any = [
    pa.field("source", pa.string(), metadata={"description": "Vantage point (--source-by); null when all captures share one."}),
    pa.field("file", pa.int64(), nullable=False, metadata={"description": "Position of the file in the list, from 0."}),
    pa.field("packet", pa.int64(), nullable=False, metadata={"description": "Number of the packet in its file, from 1."}),
    pa.field("time", pa.int64(), nullable=False, metadata={"description": "Capture time, nanoseconds since the epoch."}),
    pa.field(
        "flow",
        pa.binary(),
        nullable=False,
        metadata={"description": "Flow key of both directions: addresses, then ports, the lower end first. Empty in findings."},
    ),
    pa.field("backwards", pa.bool_(), nullable=False, metadata={"description": "Sent by the second end."}),
    pa.field("sequence", pa.int64(), nullable=False, metadata={"description": "TCP sequence number."}),
    pa.field("acknowledgment", pa.int64(), nullable=False, metadata={"description": "TCP acknowledgment number."}),
    pa.field("flags", pa.int64(), nullable=False, metadata={"description": "Low eight TCP flags."}),
    pa.field("window", pa.int64(), nullable=False, metadata={"description": "TCP window, not scaled."}),
    pa.field("payload", pa.binary(), nullable=False, metadata={"description": "TCP payload, as far as captured."}),
    pa.field("missing", pa.int64(), nullable=False, metadata={"description": "Bytes of payload that were not captured."}),
    pa.field("identification", pa.int64(), nullable=False, metadata={"description": "Identification of the IPv4 header, 0 without one."}),
    pa.field("options", pa.binary(), nullable=False, metadata={"description": "TCP header from its checksum on."}),
    pa.field("finding", pa.string(), metadata={"description": "In the place of a packet: a finding about the file, as JSON."}),
    pa.field("secrets", pa.string(), metadata={"description": "In the place of a packet: TLS secrets for later packets, as JSON."}),
    pa.field("process", pa.string(), metadata={"description": "Owner of its socket, where a comment of ptcpdump names it."}),
    pa.field("pod", pa.string(), metadata={"description": "Pod of that process, likewise."}),
]

SCHEMA = pa.schema(_FIELDS)
"""A row per TCP packet; one per finding about a file and per key log in it, with an empty flow key."""


_NOBODY = Owner(None, None)


class KeyLog(msgspec.Struct, frozen=True):
    """TLS secrets in a capture."""

    path: str
    """Path of the capture, for use in messages."""
    log: bytes


def packet_batches(
    blocks: Iterable[Block], source: str | None, file: int, path: str = "", secrets: Callable[[], list[tuple[int, bytes]]] = list
) -> Iterator[pa.RecordBatch]:
    """Yield the packets and findings of one file, and its key logs; `secrets` returns new key logs after each block."""
    waiting = _Columns()
    for block in blocks:
        for key, segments in block.flows.items():
            own_source = source_of_key(key)
            key = without_source(key)  # noqa: PLW2901 - the source has its own column
            other = reverse_key(key)
            waiting.add(source if own_source is None else own_source, min(key, other), key > other, segments, block.owners)
        for finding in block.findings:
            waiting.add_other(source, finding.packet, finding.time, finding=finding)
        for packets_before, log in secrets():
            waiting.add_other(source, packets_before, None, secrets=KeyLog(printable(path), log))
        if waiting.packets >= BATCH_PACKETS or waiting.bytes >= BATCH_BYTES:
            yield waiting.batch(file)
            waiting = _Columns()
    if waiting.packets:
        yield waiting.batch(file)


def finding_batch(findings: Iterable[Finding]) -> pa.RecordBatch:
    """Return the rows of findings that are not about a file, as if about the first one."""
    columns = _Columns()
    for finding in findings:
        columns.add_other(None, None, None, finding=finding)
    return columns.batch(0)


class _Columns:
    """Columns of a batch of packets of one file."""

    def __init__(self) -> None:
        self.packets = 0
        self.bytes = 0
        self._sources: list[str | None] = []
        self._flows: list[bytes] = []
        self._backwards: list[bool] = []
        self._segments: list[Segment] = []
        self._findings: list[str | None] = []
        self._secrets: list[str | None] = []
        self._owners: list[Owner] = []

    def add(self, source: str | None, flow: bytes, backwards: bool, segments: list[Segment], owners: Mapping[int, Owner]) -> None:
        count = len(segments)
        self.packets += count
        self.bytes += sum([len(segment[6]) for segment in segments])
        self._sources += [source] * count
        self._flows += [flow] * count
        self._backwards += [backwards] * count
        self._segments += segments
        self._findings += [None] * count
        self._secrets += [None] * count
        self._owners += [owners.get(segment[0], _NOBODY) for segment in segments] if owners else [_NOBODY] * count

    def add_other(
        self, source: str | None, packet: int | None, time: int | None, *, finding: Finding | None = None, secrets: KeyLog | None = None
    ) -> None:
        self.packets += 1
        self._sources.append(source)
        self._flows.append(b"")
        self._backwards.append(False)
        self._segments.append((packet or 0, time or 0, 0, 0, 0, 0, b"", 0, 0, b""))
        self._findings.append(None if finding is None else msgspec.json.encode(finding).decode())
        self._secrets.append(None if secrets is None else msgspec.json.encode(secrets).decode())
        self._owners.append(_NOBODY)

    def batch(self, file: int) -> pa.RecordBatch:
        numbers, times, sequences, acknowledgments, flags, windows, payloads, missing, identifications, options = zip(
            *self._segments, strict=True
        )
        count = self.packets
        return pa.RecordBatch.from_arrays(
            [
                pa.array(self._sources, pa.string()),
                _integers([file] * count),
                _integers(numbers),
                _integers(times),
                _bytes(self._flows),
                pa.array(self._backwards, pa.bool_()),
                _integers(sequences),
                _integers(acknowledgments),
                _integers(flags),
                _integers(windows),
                _bytes(payloads),
                _integers(missing),
                _integers(identifications),
                _bytes(options),
                pa.array(self._findings, pa.string()),
                pa.array(self._secrets, pa.string()),
                pa.array([owner.process for owner in self._owners], pa.string()),
                pa.array([owner.pod for owner in self._owners], pa.string()),
            ],
            schema=SCHEMA,
        )


def _integers(values: Iterable[int]) -> Any:
    numbers = array("q", values)
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])


def _bytes(values: Any) -> Any:
    ends = array("i", accumulate(map(len, values), initial=0))
    return pa.Array.from_buffers(pa.binary(), len(values), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(values))])


def pack_packets(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the packed segments of packets that are sorted by source, flow, file and number, in the same order."""
    for batch in batches:
        places = zip(*(batch.column(name).to_pylist() for name in ("source", "flow", "file")), strict=True)
        backwards = batch.column("backwards").to_pylist()
        segments = _segments(batch)
        owners = list(map(Owner, batch.column("process").to_pylist(), batch.column("pod").to_pylist()))
        for (source, flow, file), items in groupby(enumerate(places), itemgetter(1)):
            rows = [index for index, _ in items]
            packer = SegmentPacker()
            if flow:
                own = flow if source is None else with_source(flow, source)
                for side, key in ((False, own), (True, reverse_key(own))):
                    packer.add(key, [segments[row] for row in rows if backwards[row] is side])
                packer.add_owners({segments[row][0]: owners[row] for row in rows if owners[row] != _NOBODY})
            else:
                texts = [text for row in rows if (text := batch.column("finding")[row].as_py()) is not None]
                packer.add_findings([msgspec.json.decode(text, type=Finding) for text in texts])
            yield from packer.take(source, file)


def _segments(batch: pa.RecordBatch) -> list[Segment]:
    numbers = (_integer_values(batch.column(name)) for name in ("packet", "time", "sequence", "acknowledgment", "flags", "window"))
    others = (_integer_values(batch.column(name)) for name in ("missing", "identification"))
    return list(zip(*numbers, batch.column("payload").to_pylist(), *others, batch.column("options").to_pylist(), strict=True))


def _integer_values(column: Any) -> list[int]:
    """Return the values of an int64 column without nulls."""
    return memoryview(column.buffers()[1]).cast("q")[column.offset : column.offset + len(column)].tolist()
