"""The driver of one process: the inputs, in order, through one engine."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, Protocol

from pulsarscope.capture import Block, BlockReader, Blocks, CopiedPackets, Inputs, PacketRecord, Segment, expand_inputs
from pulsarscope.engine.engine import Engine
from pulsarscope.engine.options import ALL_RECORDS, Options
from pulsarscope.engine.row_batch import DAMAGE_CODES, RowBatch, Totals
from pulsarscope.model.byte_ranges import NO_RANGES, ByteRanges
from pulsarscope.model.errors import CaptureError
from pulsarscope.model.platform import load_native
from pulsarscope.model.records import refuse_unknown
from pulsarscope.tcp import Assembler, PacketPlace, SelectedPlaces, StreamStarts

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
    "some_packets",
]

NO_STREAM = (None, "", 0, 0, 0)
"""Place of a packet without a TCP connection, for `PacketChoice.comments`."""

Read = Callable[[str, int], Blocks]
"""Function that returns the blocks of an input: (path, position in the list)."""


class Run(Totals):
    """A decode of a list of inputs. Iterate it once; counts are those of the batches yielded so far."""

    def __init__(self, inputs: Inputs, options: Options, read: Read | None = None) -> None:
        """Prepare; nothing is read yet.

        Args:
            inputs: captures in order.
            options: options of the run.
            read: returns the blocks of an input that is not a file.

        Raises:
            UsageError: the options cannot be carried out.
        """
        super().__init__()
        self.starts = StreamStarts() if options.places else None
        self.inputs = inputs
        self.options = options
        self.engine = Engine(inputs, options, totals=self)
        self.evaluates_rules = options.rules
        """True when rules run: the findings are then complete."""
        self.complete = False
        """True when everything has been read and yielded."""
        self.dissectors = self.engine.dissectors
        self.endpoints = self.engine.endpoints
        """(client, server) of the connections in the latest batch."""
        self.dissector_of = self.engine.dissector_of
        """Dissector name of each of them."""
        self.place = self.engine.place
        self.in_tls = self.engine.in_tls
        self.preamble = self.engine.preamble
        self._read = read

    def again(self, options: Options) -> Run:
        """Return another run of the same inputs."""
        return Run(self.inputs, options, self._read)

    def waiting(self) -> tuple[int, int]:
        """Return the number of streams that wait for missing bytes, and the number of bytes that wait behind them."""
        return self.engine.waiting()

    def open_connections(self) -> int:
        """Return the number of open connections of a known protocol."""
        return len(self.endpoints)

    def __iter__(self) -> Generator[RowBatch, None, None]:
        for part in parts(self.engine, self.inputs, self.options, self._read, lambda: self.stopped):
            yield from part
        self.complete = not self.stopped


def open_reader(path: str, file: int, engine: Engine, options: Options, *, by_interface: bool) -> BlockReader:
    """Return a reader of a file, whose blocks have the sizes that suit the engine and its options."""
    reader = BlockReader(path, file, by_interface=by_interface)
    reader.in_columns = engine.in_columns
    reader.needs_small_blocks = options.any_order
    return reader


def parts(
    engine: Engine, inputs: Inputs, options: Options, read: Read | None = None, stopped: Callable[[], bool] = lambda: False
) -> Iterator[Iterator[RowBatch]]:
    """Yield the parts of a run: what is known before, each block until it is `stopped`, the end of each vantage point, the end.

    Raises:
        CaptureError: a pipe, the last input, is not a capture.
    """
    yield engine.begin()
    recognised = False
    for index, path in enumerate(inputs.paths):
        if index and not inputs.continues(index):
            yield engine.end()
        reader: BlockReader | None = None
        if read is None:
            blocks: Blocks = (reader := open_reader(path, index, engine, options, by_interface=inputs.by_interface))
        else:
            blocks = read(path, index)
        for block in blocks:
            if stopped():
                break
            if not (recognised or blocks.recognised) and index == len(inputs.paths) - 1:
                # Only a pipe comes this far without being a capture: files were probed before.
                raise CaptureError(block.findings[0].advice if block.findings else f"{path} is not a capture")
            if engine.totals.start is None:
                engine.totals.start = blocks.first_time
            yield engine.feed(block, blocks.take_secrets())
            if reader is not None:
                reader.few_frames = engine.has_few_frames(block.packets)
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
    """Packets as stored in the file, each with its place in a TCP connection, if it has one."""
    fragments: list[tuple[int, int]]
    """As `Block.fragments`: packets whose bytes are placed with another packet."""
    flows: Mapping[bytes, list[Segment]]
    """As `Block.flows`: the segments of these packets."""


class SelectedPackets(NamedTuple):
    """Packets to copy, from one read of a capture."""

    file: int
    bytes_read: int
    """Bytes of the file read so far."""
    read: int
    """Number of packets examined."""
    packets: list[tuple[PacketRecord, list[str]]]
    """Packets, with the lines of their comments."""
    copied: CopiedPackets | None = None
    """Further packets between them, whose comments consist only of names of frames."""


class PacketChoice(Protocol):
    """A selection of packets, such as `analysis.PacketSelection`."""

    def ranges(self, connection: str, source: str) -> ByteRanges | None:
        """Return the ranges of a sender's stream whose packets are selected, if any."""

    def named(self, file: int, first: int, last: int) -> frozenset[int]:
        """Return the packets from the first to the last that are selected by number."""

    def comments(self, file: int, packet: int, connection: str | None, source: str, flags: int, start: int, end: int) -> list[str] | None:
        """Return the lines of the comment on a packet at a place; None when it is not selected. Call it for packets in order."""


def packets(inputs: Inputs, starts: StreamStarts | None) -> Iterator[PacketBatch]:
    """Read the inputs of a run again, to copy packets: all of them, each with its place. `starts`: those of the run, if it has them."""
    everything = NO_RANGES._replace(complete=True)
    starts = starts or _stream_starts(inputs)
    for blocks in _blocks_again(inputs, records=True):
        placed = SelectedPlaces(starts, lambda *_: everything)
        for block in blocks:
            places = placed.feed(block)
            located = [(record, places.get(record.number)) for record in block.records]
            yield PacketBatch(block.file, block.bytes_read, block.packets, located, block.fragments, block.flows)


def some_packets(inputs: Inputs, starts: StreamStarts | None, selection: PacketChoice) -> Iterator[SelectedPackets]:
    """Read the inputs of a run again, to copy selected packets; `starts`: those of the run, if it has them."""
    native = load_native()[0]
    starts = starts or _stream_starts(inputs)
    for blocks in _blocks_again(inputs, records=True):
        placed = SelectedPlaces(starts, selection.ranges)
        for block in blocks:
            interface = block.records.interface
            copied = None if native is None or interface is None else CopiedPackets(interface, native.PacketCopies())
            named = selection.named(block.file, block.first_packet, block.last_packet)
            places = placed.feed(block, named, None if copied is None else copied.compiled)
            comments = {}
            for number in sorted(named | places.keys()):
                if (lines := selection.comments(block.file, number, *places.get(number, NO_STREAM))) is not None:
                    comments[number] = lines
            found = [(record, comments[record.number]) for record in block.records.only(comments.keys())]
            yield SelectedPackets(block.file, block.bytes_read, block.packets, found, copied)


def _stream_starts(inputs: Inputs) -> StreamStarts:
    """Read the inputs of a run again, to find where the streams of all connections begin."""
    starts = StreamStarts()
    for blocks in _blocks_again(inputs):
        assembler = Assembler()
        for block in blocks:
            starts.note(assembler.feed(block, inputs.following_start(block.file)))
        starts.note(assembler.finished())
    return starts


def _blocks_again(inputs: Inputs, *, records: bool = False) -> Iterator[Iterator[Block]]:
    """Read the inputs of a run again: yield the blocks of each vantage point, with their packets' `records` if requested."""
    for files in inputs.vantage_points():
        readers = (BlockReader(inputs.paths[file], file, records=records, by_interface=inputs.by_interface) for file in files)
        yield chain.from_iterable(readers)


def run(inputs: Sequence[str], options: Options) -> Run:
    """Decode files, folders, globs or `-`.

    Raises:
        CaptureError: no input can be read as a capture.
        UsageError: the options cannot be carried out.
    """
    refuse_unknown(options.records)
    return Run(expand_inputs(inputs, options.source_by), options)


def run_blocks(name: str, blocks: Blocks, options: Options) -> Run:
    """Decode blocks that do not come from files. Raises UsageError if the options cannot be carried out."""
    return Run(Inputs([name], None, []), options, lambda _path, _file: blocks)
