"""Shares of several processes in the connections of a run: equal in work, as far as can be foreseen."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from operator import add
from struct import Struct
from typing import NamedTuple

from pulsarscope.capture import Block, Segment
from pulsarscope.capture.block import Blocks
from pulsarscope.dissect.contract.dissector import Dissector, Framing
from pulsarscope.model.flow import reverse_key
from pulsarscope.tcp import ConnectionEvents, sequence_difference

BLOCKS_AHEAD = 8
"""Blocks that are examined for the work of connections that begin: several thousand packets, at most 8 MiB."""

PSH = 0x08

CONNECTION_PACKETS = 32
"""Work of beginning and ending a connection, in packets: all rules run at its end."""

FRAME_PACKETS = 6
"""Work of a frame with its rules, in packets without frames, which all processes read: six in Python, seven with the compiled reader; half
as much without rules."""

PAST_BLOCKS = 32
"""Blocks over which the excess work of a process is compensated: if it were faster, all connections that begin together would go to one
process."""

SAMPLE_PACKETS = 32
"""Minimum number of packets ahead for which the frames of a flow are counted: with fewer, a wrong guess costs little."""


SAMPLE_MAX_PACKETS = 512
"""Packets of a flow in which frames are counted: the others are assumed to have as many."""


class _Work(NamedTuple):
    """Work of a connection in the blocks ahead, in packets."""

    total: float
    flows: list[tuple[bytes, list[int], float]]
    """Flow key, packets in each of these blocks, and work per packet."""


class ProcessShare:
    """Connections of one of several processes, which all see all connections: each goes to the process with the least work.

    That is the work in the blocks ahead, and a share of the excess work so far. All processes reach the same result.
    """

    def __init__(self, number: int, count: int, framings: Sequence[Framing] = ()) -> None:
        """Begin; `number` is the position of this process among `count`, `framings` are those of the protocols."""
        self.number = number
        self._past = [0.0] * count
        """Work by process, in packets, before the current block."""
        self._ahead: deque[list[float]] = deque()
        """Work by process in each block from the current one on."""
        self._owners: dict[str, int] = {}
        """Position of the process of each unfinished connection."""
        self._flows: dict[bytes, tuple[int, float]] = {}
        """Position of the process and work per packet, for each flow of these connections."""
        self._framings = framings
        self._reader: ReadAhead | None = None

    def read(self, blocks: Blocks, ahead: int = BLOCKS_AHEAD) -> Blocks:
        """Return the blocks of an input for the engine that uses this share, which examines the flows of the next `ahead` blocks."""
        self._reader = ReadAhead(blocks, ahead, self._expect, self._leave)
        return self._reader

    def _expect(self, block: Block) -> None:
        loads, flows = [0.0] * len(self._past), self._flows
        for key, segments in block.flows.items():
            if (known := flows.get(key)) is not None:
                loads[known[0]] += len(segments) * known[1]
        self._ahead.append(loads)

    def _leave(self) -> None:
        self._past = [*map(add, self._past, self._ahead.popleft())]

    def select(self, events: Sequence[ConnectionEvents]) -> Iterator[tuple[int, ConnectionEvents]]:
        """Yield the connections of this process, each with its position among all."""
        owners = self._owners
        begun = [event for event in events if event.name not in owners]
        if begun:
            self._assign(begun)
        for index, event in enumerate(events):
            if owners[event.name] == self.number:
                yield index, event
        for event in events:
            if event.finished:
                key = event.key
                del owners[event.name]
                self._flows.pop(key, None)
                self._flows.pop(reverse_key(key), None)

    def _assign(self, begun: Iterable[ConnectionEvents]) -> None:
        """Assign connections to processes, those with most work first."""
        works = [(self._work_of(event.key), event.name) for event in begun]
        for work, name in sorted(works, key=lambda each: -each[0].total):
            owner = self._owners[name] = self._give(work)
            self._flows.update((flow, (owner, each)) for flow, _, each in work.flows)

    def assign(self, key: bytes) -> int:
        """Return the process that decodes a connection that begins, and for which `note_owner` follows unless it is short."""
        return self._give(self._work_of(key))

    def note_owner(self, name: str, key: bytes, owner: int, *, closed: bool = False) -> None:
        """Remember the process of a connection that was assigned before, and its work, unless it is `closed`."""
        self._owners[name] = owner
        if not closed:
            self._flows.update((flow, (owner, each)) for flow, _, each in self._work_of(key).flows)

    def _give(self, work: _Work) -> int:
        """Give a connection to the process with the least work, and return the position of the process."""
        part = 1.0 if self._reader is None or self._reader.sees_end else len(self._ahead) / PAST_BLOCKS
        loads = [past * part + sum(ahead) for past, *ahead in zip(self._past, *self._ahead, strict=True)]
        owner = loads.index(min(loads))
        self._past[owner] += CONNECTION_PACKETS
        for _, packets, each in work.flows:
            for of_block, count in zip(self._ahead, packets, strict=True):
                of_block[owner] += count * each
        return owner

    def _work_of(self, key: bytes) -> _Work:
        """Return the work of a connection in the blocks ahead."""
        if self._reader is not None:
            self._reader.look()
        flows = [(flow, *self._work(flow)) for flow in (key, reverse_key(key))]
        return _Work(sum(sum(packets) * each for _, packets, each in flows), flows)

    def _work(self, flow: bytes) -> tuple[list[int], float]:
        """Return the number of packets of a flow in each of the blocks ahead, and the work per packet."""
        ahead = () if self._reader is None else self._reader.ahead
        parts = [block.flows.get(flow, ()) for block in ahead]
        packets = [*map(len, parts)]
        if sum(packets) < SAMPLE_PACKETS:
            return packets, 1.0 + FRAME_PACKETS
        sample = [*islice(chain.from_iterable(parts), SAMPLE_MAX_PACKETS)]
        segments = [segment for segment in sample if segment[6]]
        return packets, 1.0 + FRAME_PACKETS * self._frames(segments) / len(sample)

    def _frames(self, segments: Sequence[Segment]) -> float:
        """Return the approximate number of frames in segments with data."""
        for framing in self._framings:
            read, frames = 0, 0
            with suppress(Exception):  # other people's code, whose exceptions are reported where it is used
                read, frames = count_frames(segments, framing)
            if frames and read * 2 >= min(len(segments), SAMPLE_PACKETS):
                return frames / read * len(segments)
        return sum([bool(segment[4] & PSH) for segment in segments])  # data written at once: often a frame


def framings_of(dissectors: Iterable[Dissector]) -> list[Framing]:
    """Return the framings of dissectors, each only once, ignoring differences in their bounds."""
    framings: dict[object, Framing] = {}
    for dissector in dissectors:
        try:
            framing = dissector.framing
            length = framing.length
            framings.setdefault((length.format if type(length) is Struct else length, framing.adds), framing)
        except Exception:  # noqa: BLE001, PERF203, S112 - other people's code, which is reported where it is used
            continue
    return [*framings.values()]


def count_frames(segments: Iterable[Segment], framing: Framing) -> tuple[int, int]:
    """Return how many segments of one flow could be read, in order from the first one in which a frame begins, and their frames."""
    unpack, sizing, adds = framing.length.unpack_from, framing.sizing, framing.adds
    start = read = frames = 0
    head = b""
    following: int | None = None
    for _, _, sequence, _, _, _, payload, missing, *_ in segments:
        if following is not None and (ahead := sequence_difference(following, sequence)):
            if ahead < 0:
                continue  # retransmitted
            break
        following = sequence + len(payload) + missing
        data = head + payload if head else payload
        head, end = b"", len(data)
        while start + sizing <= end:
            size = unpack(data, start)[0] + adds
            if not framing.smallest <= size <= framing.largest:
                return read, frames
            start += size
            frames += 1
        if start < end:
            if missing:
                break
            head, start = data[start:], 0
        else:
            start -= end + missing
            if start < 0:
                break
        read += 1
    return read, frames


class ReadAhead:
    """Blocks of one input; the next ones can be examined before they are yielded."""

    def __init__(self, blocks: Blocks, count: int, expect: Callable[[Block], None], leave: Callable[[], None]) -> None:
        """Prepare; nothing is read yet.

        Args:
            blocks: the blocks of the input.
            count: number of blocks to examine.
            expect: called with each block that is read.
            leave: called when a block is finished.
        """
        self._blocks = blocks
        self._iterator = iter(blocks)
        self._count = count
        self._expect, self._leave = expect, leave
        self.ahead: deque[Block] = deque()
        """Blocks that were read, beginning with the one that was yielded last."""
        self._secrets: deque[list[tuple[int, bytes]]] = deque()
        """Secrets found in each block ahead."""

    @property
    def recognised(self) -> bool:
        """See `Blocks`."""
        return self._blocks.recognised

    @property
    def first_time(self) -> int | None:
        """See `Blocks`."""
        return self._blocks.first_time

    def __iter__(self) -> Iterator[Block]:
        while self.ahead or self._read():
            yield self.ahead[0]
            self.ahead.popleft()
            self._leave()

    @property
    def sees_end(self) -> bool:
        """Return True when nothing follows the blocks read so far."""
        return len(self.ahead) <= self._count

    def look(self) -> None:
        """Read the blocks ahead."""
        while len(self.ahead) <= self._count and self._read():
            pass

    def _read(self) -> bool:
        if (block := next(self._iterator, None)) is None:
            return False
        self.ahead.append(block)
        self._secrets.append(self._blocks.take_secrets())
        self._expect(block)
        return True

    def take_secrets(self) -> list[tuple[int, bytes]]:
        """See `Blocks`."""
        return self._secrets.popleft() if self._secrets else []
