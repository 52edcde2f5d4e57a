"""A first look into each file: what must be known before any packet is decoded, and which packets need not be.

The packets of two endpoints that speak no known protocol, all in one file, are not shuffled: their rows are known by then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pyarrow as pa

from pulsarscope.capture import Block, BlockReader, Inputs, read_blocks
from pulsarscope.distributed import LOSS_CODES, Glance
from pulsarscope.pipeline import Options
from pulsarscope.records import ConnectionRow, Row
from pulsarscope.spark.batch import batch_of
from pulsarscope.spark.remote import opened
from pulsarscope.spark.runs import pack_rows

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
"""One row per pair of endpoints in a file, with its rows when it is a stranger; and one per file, which has no flow key."""


class SeenFile(msgspec.Struct):
    """What a file holds."""

    file: int
    """Its position."""
    packets: int = 0
    segments: int = 0
    """Packets of TCP."""
    size: int = 0
    """In bytes, as stored."""
    lossy: bool = False
    """It says itself that packets are missing."""
    secrets: list[tuple[tuple[int, int], bytes]] = []
    """TLS key logs in it, each with the place from which it holds."""


class Look(msgspec.Struct, frozen=True):
    """Positions of files -> what they hold."""

    inputs: Inputs
    options: Options

    def __call__(self, positions: Iterable[Any]) -> Iterator[pa.RecordBatch]:
        """Each row of the only column is a position."""
        for batch in positions:
            for file in batch.column(0).to_pylist():
                yield self.look(file)

    def look(self, file: int) -> pa.RecordBatch:
        """What one file holds."""
        source = self.inputs.source(file)
        seen = SeenFile(file)
        blocks = read_blocks(self.inputs.paths[file], file, by_interface=self.inputs.by_interface, opener=opened)
        found = Glance(self.inputs, self.options).strangers(_noted(blocks, seen))
        rows = [(source, flow, file, 0, known is not None, _bytes(known or ()), pack_rows(known or ())) for flow, known in found.items()]
        return batch_of([(source, b"", file, 0, False, 0, msgspec.json.encode(seen)), *rows], SCHEMA)


def _noted(blocks: BlockReader, seen: SeenFile) -> Iterator[Block]:
    for block in blocks:
        seen.secrets += [((seen.file, packets_before), log) for packets_before, log in blocks.take_secrets()]
        seen.packets += block.packets
        seen.segments += sum(map(len, block.flows.values()))
        seen.size = block.bytes_read
        seen.lossy = seen.lossy or any(finding.code in LOSS_CODES for finding in block.findings)
        yield block


def _bytes(rows: Iterable[Row]) -> int:
    return sum((row.client_bytes or 0) + (row.server_bytes or 0) for row in rows if isinstance(row, ConnectionRow))
