"""The driver of one process: the inputs in their order through one engine."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from pulsarscope.capture import BlockReader, Blocks, CopiedPackets, Inputs, PacketRecord, Segment, expand_inputs
from pulsarscope.engine.engine import Engine
from pulsarscope.engine.options import ALL_RECORDS, Options
from pulsarscope.engine.row_batch import DAMAGE_CODES, RowBatch, Totals
from pulsarscope.model.byte_ranges import Ranges
from pulsarscope.model.errors import CaptureError
from pulsarscope.model.platform import load_native
from pulsarscope.model.records import refuse_unknown
from pulsarscope.tcp import Assembler, PacketPlace, Placement

__all__ = [
    "ALL_RECORDS",
    "DAMAGE_CODES",
    "Options",
    "PacketBatch",
    "RowBatch",
    "Run",
    "SelectedPackets",
    "packets",
    "parts",
    "run",
    "run_blocks",
]

NamedPackets = Callable[[int, int, int], AbstractSet[int]]
"""Returns the numbers of the packets that are looked for by these, given a file, the first packet and the last one."""

Read = Callable[[str, int], Blocks]
"""Gives the blocks of an input: (path, position in the list)."""


class Run(Totals):
    """A decode of a list of inputs. Iterate it once; counts are those of the batches given so far."""

    def __init__(self, inputs: Inputs, options: Options, read: Read | None = None) -> None:
        """Read nothing.

        Args:
            inputs: captures in their order.
            options: options of the run.
            read: gives the blocks of an input, when that is no file.

        Raises:
            UsageError: the options cannot be carried out.
        """
        super().__init__()
        self.inputs = inputs
        self.options = options
        self.engine = Engine(inputs, options, totals=self)
        self.evaluates_rules = options.rules
        """The rules have run: the findings are all there are."""
        self.complete = False
        """All has been read and given."""
        self.dissectors = self.engine.dissectors
        self.endpoints = self.engine.endpoints
        """(client, server) of the connections in the latest batch."""
        self.dissector_of = self.engine.dissector_of
        """Name of the dissector of each of them."""
        self.place = self.engine.place
        self.in_tls = self.engine.in_tls
        self.preamble = self.engine.preamble
        self._read = read

    def again(self, options: Options) -> Run:
        """Return another run of the same inputs."""
        return Run(self.inputs, options, self._read)

    def waiting(self) -> tuple[int, int]:
        """Return how many streams wait for missing bytes, and how many bytes wait behind those."""
        return self.engine.waiting()

    def open_connections(self) -> int:
        """Return the number of open connections of a known protocol."""
        return len(self.endpoints)

    def __iter__(self) -> Generator[RowBatch, None, None]:
        for part in parts(self.engine, self.inputs, self.options, self._read, lambda: self.stopped):
            yield from part
        self.complete = not self.stopped


def parts(
    engine: Engine, inputs: Inputs, options: Options, read: Read | None = None, stopped: Callable[[], bool] = lambda: False
) -> Iterator[Iterator[RowBatch]]:
    """Give the parts of a run: what is known before, each block until it is `stopped`, the end of each vantage point, the end.

    Raises:
        CaptureError: a pipe, the last input, brings no capture.
    """
    yield engine.begin()
    recognised = False
    for index, path in enumerate(inputs.paths):
        if index and not inputs.continues(index):
            yield engine.end()
        reader: BlockReader | None = None
        if read is None:
            blocks: Blocks = (reader := BlockReader(path, index, by_interface=inputs.by_interface))
        else:
            blocks = read(path, index)
        for block in blocks:
            if stopped():
                break
            if not (recognised or blocks.recognised) and index == len(inputs.paths) - 1:
                # Only a pipe comes this far without being a capture: files were looked into before.
                raise CaptureError(block.findings[0].advice if block.findings else f"{path} is not a capture")
            if engine.totals.start is None:
                engine.totals.start = blocks.first_time
            yield engine.feed(block, blocks.take_secrets())
            if reader is not None:
                reader.few_frames = engine.has_few_frames(block.packets)
                reader.in_columns = engine.in_columns
            if options.live:
                yield engine.settle(block.last_time, skipped=block.skipped)
        recognised = recognised or blocks.recognised
        if stopped():
            break
    yield engine.end()
    yield engine.finish()


class PacketBatch(NamedTuple):
    """The packets of one block of a capture."""

    file: int
    bytes_read: int
    read: int
    """Number of packets in the block."""
    packets: list[tuple[PacketRecord, PacketPlace | None]]
    """Packets as they stand in the file, with their place in a TCP connection, if they have one."""
    fragments: list[tuple[int, int]]
    """As `Block.fragments`: packets whose bytes have their place with another one."""
    flows: Mapping[bytes, list[Segment]]
    """As `Block.flows`: the segments of these packets."""
    copied: CopiedPackets | None = None
    """Packets that are looked for, but not among `packets`: of them, no more is to be said than the names of frames."""


class SelectedPackets(NamedTuple):
    """Packets to copy, from one read of a capture."""

    file: int
    bytes_read: int
    """Bytes of the file that have been read."""
    read: int
    """Number of packets that were looked at."""
    packets: list[tuple[PacketRecord, list[str]]]
    """With the lines of their comments."""
    copied: CopiedPackets | None = None
    """Others between them."""


def packets(inputs: Inputs, ranges: Ranges | None = None, named: NamedPackets | None = None) -> Iterator[PacketBatch]:
    """Read the inputs of a run once more, for who copies their packets: all, or those in ranges of streams and those that are named."""
    native = None if ranges is None else load_native()[0]
    assembler, placement = Assembler(), Placement()
    for index, path in enumerate(inputs.paths):
        if index and not inputs.continues(index):
            assembler, placement = Assembler(), Placement()
        for block in BlockReader(path, index, records=True, by_interface=inputs.by_interface):
            interface = block.records.interface
            copied = None if native is None or interface is None else CopiedPackets(interface, native.PacketCopies())
            events = assembler.feed(block, inputs.following_start(index))
            looked_for = frozenset[int]() if named is None else named(index, block.first_packet, block.last_packet)
            places = placement.feed(block, events, ranges, looked_for, None if copied is None else copied.compiled)
            records = block.records if ranges is None else block.records.only(looked_for | places.keys())
            located = [(record, places.get(record.number)) for record in records]
            yield PacketBatch(index, block.bytes_read, block.packets, located, block.fragments, block.flows, copied)


def run(inputs: Sequence[str], options: Options) -> Run:
    """Decode files, folders, globs or `-`.

    Raises:
        CaptureError: no input can be read as a capture.
        UsageError: the options cannot be carried out.
    """
    refuse_unknown(options.records)
    return Run(expand_inputs(inputs, options.source_by), options)


def run_blocks(name: str, blocks: Blocks, options: Options) -> Run:
    """Decode what comes from elsewhere than files, in blocks. Raises UsageError: the options cannot be carried out."""
    return Run(Inputs([name], None, []), options, lambda _path, _file: blocks)
