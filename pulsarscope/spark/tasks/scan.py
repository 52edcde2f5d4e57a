"""The first pass over each file, portion by portion: what decoding must know in advance, and which packets need no decoding.

A flow is unrecognised if its connections have no known protocol. If all its packets lie in one portion, they are not shuffled: the scan
makes their rows.
"""

from __future__ import annotations

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
from pulsarscope.spark.files.remote_files import open_path
from pulsarscope.spark.rows.packed_segments import pack_rows
from pulsarscope.spark.rows.record_batch import to_record_batch
from pulsarscope.spark.sessions.task_process import prepare_process

_FIELDS: Any = [
    ("source", pa.string()),
    ("flow", pa.binary()),
    ("file", pa.int64()),
    ("packet", pa.int64()),
    ("unrecognised", pa.bool_()),
    ("bytes", pa.int64()),
    ("data", pa.binary()),
]

SCHEMA = pa.schema(_FIELDS)
"""A row per flow in a portion, with its rows if it is unrecognised; and one row per portion, without a flow key."""

_PORTION: Any = [("data", pa.binary())]

PORTIONS = pa.schema(_PORTION)
"""A row per portion of a file."""


class DivideFiles(msgspec.Struct, frozen=True):
    """A task from positions of files to the portions in which they are read."""

    inputs: Inputs
    size: int
    """Approximate bytes of a portion."""

    def __call__(self, positions: Iterable[Any]) -> Iterator[pa.RecordBatch]:
        """Yield the portions of files; the only column of `positions` has their positions."""
        for batch in positions:
            for file in batch.column(0).to_pylist():
                portions = divide(self.inputs.paths[file], file, self.size)
                yield to_record_batch([(msgspec.json.encode(portion),) for portion in portions], PORTIONS)


class PortionSummary(msgspec.Struct):
    """The contents of a portion of a file."""

    portion: Portion
    packets: int = 0
    segments: int = 0
    """Number of TCP packets."""
    size: int = 0
    """Stored bytes."""
    lossy: bool = False
    """True if a finding about the file says that packets are missing."""
    secrets: list[tuple[tuple[int, int], bytes]] = []
    """TLS key logs in it, each with the (file, packet) from which it applies."""
    counts: list[AnomalyCount] = []
    """Anomalies of its packets."""
    has_dependencies: bool = False
    """True if later portions cannot be read without this one."""


class ScanPortions(msgspec.Struct, frozen=True):
    """A task from positions in the list of portions to their contents."""

    inputs: Inputs
    options: Options
    portions: Sequence[Portion]

    def __call__(self, positions: Iterable[Any]) -> Iterator[pa.RecordBatch]:
        """Yield the contents of portions; the only column of `positions` has their positions."""
        prepare_process()
        for batch in positions:
            for position in batch.column(0).to_pylist():
                yield self.scan(self.portions[position])

    def scan(self, portion: Portion) -> pa.RecordBatch:
        """Return the contents of one portion."""
        file = portion.file
        source = self.inputs.source(file)
        summary = PortionSummary(portion)
        blocks = BlockReader(self.inputs.paths[file], file, by_interface=self.inputs.by_interface, opener=open_path, portion=portion)
        flows = strangers(self.inputs, self.options, _summed(blocks, summary))
        if portion.end is not None:
            summary.counts, summary.has_dependencies = blocks.counts, blocks.has_dependencies
        rows = [(source, flow, file, 0, made is not None, _bytes(made or ()), pack_rows(made or ())) for flow, made in flows.items()]
        return to_record_batch([(source, b"", file, 0, False, 0, msgspec.json.encode(summary)), *rows], SCHEMA)


def _summed(blocks: BlockReader, summary: PortionSummary) -> Iterator[Block]:
    for block in blocks:
        summary.secrets += [((summary.portion.file, packets_before), log) for packets_before, log in blocks.take_secrets()]
        summary.packets += block.packets
        summary.segments += sum(map(len, block.flows.values()))
        summary.size = block.bytes_read
        summary.lossy = summary.lossy or any(finding.code in LOSS_CODES for finding in block.findings)
        yield block


def indivisible_files(summaries: Iterable[PortionSummary]) -> list[int]:
    """Return the files with a portion that depends on another one: these files must be read as a whole."""
    return sorted({summary.portion.file for summary in summaries if summary.has_dependencies})


def with_counts(summaries: Iterable[PortionSummary]) -> list[Portion]:
    """Return the portions in order; the last one of each file gets the counts of anomalies in the others."""
    portions: list[Portion] = []
    ordered = sorted(summaries, key=lambda summary: (summary.portion.file, summary.portion.start))
    for file, of_file in groupby(ordered, lambda summary: summary.portion.file):
        tally = AnomalyCounts(file)
        for summary in of_file:
            tally.add_later(summary.counts)
            portions.append(summary.portion)
        portions[-1] = msgspec.structs.replace(portions[-1], counts=tuple(tally.counts))
    return portions


def _bytes(rows: Iterable[Row]) -> int:
    return sum((row.client_bytes or 0) + (row.server_bytes or 0) for row in rows if isinstance(row, ConnectionRow))
