"""A first look into each file, portion by portion: what must be known before any packet is decoded, and which packets need not be.

The packets of two endpoints that speak no known protocol, all in one portion, are not shuffled: their rows are known by then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import msgspec
import pyarrow as pa

from pulsarscope.capture import AnomalyCount, AnomalyCounts, Block, BlockReader, Inputs, Portion, divide
from pulsarscope.engine.flows import strangers
from pulsarscope.engine.options import Options
from pulsarscope.model.findings import LOSS_CODES
from pulsarscope.model.records import ConnectionRow, Row
from pulsarscope.spark.packed_segments import pack_rows
from pulsarscope.spark.record_batch import to_record_batch
from pulsarscope.spark.remote_files import open_path

_FIELDS: Any = [
    ("source", pa.string()),
    ("flow", pa.binary()),
    ("file", pa.int64()),
    ("packet", pa.int64()),
    ("stranger", pa.bool_()),
    ("bytes", pa.int64()),
    ("data", pa.binary()),
]

SCHEMA = pa.schema(_FIELDS)
"""One row per pair of endpoints in a portion, with its rows when it is a stranger; and one per portion, which has no flow key."""

_PORTION: Any = [("data", pa.binary())]

PORTIONS = pa.schema(_PORTION)
"""One row per portion of a file."""


class DivideFiles(msgspec.Struct, frozen=True):
    """Positions of files -> the portions in which they are read."""

    inputs: Inputs
    size: int
    """Bytes of one, about."""

    def __call__(self, positions: Iterable[Any]) -> Iterator[pa.RecordBatch]:
        """Each row of the only column is the position of a file."""
        for batch in positions:
            for file in batch.column(0).to_pylist():
                portions = divide(self.inputs.paths[file], file, self.size)
                yield to_record_batch([(msgspec.json.encode(portion),) for portion in portions], PORTIONS)


class PortionSummary(msgspec.Struct):
    """What a portion of a file holds."""

    portion: Portion
    packets: int = 0
    segments: int = 0
    """Packets of TCP."""
    size: int = 0
    """In bytes, as stored."""
    ended: int = 0
    """The time of its last packet, nanoseconds since the epoch."""
    lossy: bool = False
    """The file says itself that packets are missing."""
    secrets: list[tuple[tuple[int, int], bytes]] = []
    """TLS key logs in it, each with the place from which it holds."""
    counts: list[AnomalyCount] = []
    """What packets do wrong."""
    has_dependencies: bool = False
    """The portions behind it cannot be read each by itself."""


class ScanPortions(msgspec.Struct, frozen=True):
    """Positions in the list of portions -> what they hold."""

    inputs: Inputs
    options: Options
    portions: Sequence[Portion]
    strangers: bool = True
    """Look for them. In a stream the files to come may have more packets of any."""

    def __call__(self, positions: Iterable[Any]) -> Iterator[pa.RecordBatch]:
        """Each row of the only column is a position."""
        for batch in positions:
            for position in batch.column(0).to_pylist():
                yield self.look(self.portions[position])

    def look(self, portion: Portion) -> pa.RecordBatch:
        """What one portion holds."""
        file = portion.file
        source = self.inputs.source(file)
        seen = PortionSummary(portion)
        blocks = BlockReader(self.inputs.paths[file], file, by_interface=self.inputs.by_interface, opener=open_path, portion=portion)
        noted = _noted(blocks, seen)
        found = strangers(self.inputs, self.options, noted) if self.strangers else dict.fromkeys(deque(noted, 0))
        if portion.end is not None:
            seen.counts, seen.has_dependencies = blocks.counts, blocks.has_dependencies
        rows = [(source, flow, file, 0, known is not None, _bytes(known or ()), pack_rows(known or ())) for flow, known in found.items()]
        return to_record_batch([(source, b"", file, 0, False, 0, msgspec.json.encode(seen)), *rows], SCHEMA)


def _noted(blocks: BlockReader, seen: PortionSummary) -> Iterator[Block]:
    for block in blocks:
        seen.secrets += [((seen.portion.file, packets_before), log) for packets_before, log in blocks.take_secrets()]
        seen.packets += block.packets
        seen.segments += sum(map(len, block.flows.values()))
        seen.size = block.bytes_read
        seen.ended = block.last_time
        seen.lossy = seen.lossy or any(finding.code in LOSS_CODES for finding in block.findings)
        yield block


def indivisible_files(seen: Iterable[PortionSummary]) -> list[int]:
    """The files that must be read whole after all."""
    return sorted({one.portion.file for one in seen if one.has_dependencies})


def with_counts(seen: Iterable[PortionSummary]) -> list[Portion]:
    """The portions in their order, the last ones of files with what was counted in the others."""
    found: list[Portion] = []
    ordered = sorted(seen, key=lambda one: (one.portion.file, one.portion.start))
    for file, of_file in groupby(ordered, lambda one: one.portion.file):
        tally = AnomalyCounts(file)
        for one in of_file:
            tally.add_later(one.counts)
            found.append(one.portion)
        found[-1] = msgspec.structs.replace(found[-1], counts=tuple(tally.counts))
    return found


def _bytes(rows: Iterable[Row]) -> int:
    return sum((row.client_bytes or 0) + (row.server_bytes or 0) for row in rows if isinstance(row, ConnectionRow))
