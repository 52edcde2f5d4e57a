"""Shares of the connections of captures, one for each task of a read. Each task reads all packets and keeps those of its flows.

A connection is decoded from its own packets, and from TLS secrets in captures before them. So its rows do not depend on the other
connections of its share. Findings and journeys, which depend on several connections, use one share of everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from zlib import crc32

import msgspec
from msgspec.structs import replace

from pulsarscope.capture import Block, BlockReader, Inputs, Segment
from pulsarscope.model.flow import reverse_key, source_endpoint
from pulsarscope.spark.files.capture_times import NO_PACKETS, Times, TimesFolder, widened
from pulsarscope.spark.files.remote_files import open_path

SHARE_BYTES = 64 << 20
"""Approximate bytes of captures for each share."""

SHARES_MAX = 8
"""Default maximum number of shares of the same captures: each share reads all of them."""

KNOWN_FLOWS_MAX = 1 << 17
"""Number of flows for which the decision to keep them is cached."""


def share_of(key: bytes, count: int) -> int:
    """Return the share of a flow, and of its reverse, among `count` shares."""
    return crc32(min(key, reverse_key(key))) % count


class FlowShare(msgspec.Struct, frozen=True):
    """The connections in successive captures whose flow keys fall into certain shares."""

    first: int
    """Position of the first capture."""
    end: int
    """Position after the last capture."""
    number: int = 0
    count: int = 1


class Wanted(msgspec.Struct, frozen=True):
    """Wanted endpoints of connections; None: any."""

    clients: frozenset[str] | None = None
    servers: frozenset[str] | None = None

    def includes(self, key: bytes) -> bool:
        """Return True if a flow may have a connection between a wanted client and a wanted server."""
        if self.clients is None and self.servers is None:
            return True
        ends = {source_endpoint(key), source_endpoint(reverse_key(key))}
        return not any(names is not None and ends.isdisjoint(names) for names in (self.clients, self.servers))


def capture_sets(inputs: Inputs) -> list[tuple[int, int]]:
    """Return the ranges of positions (first, after the last) of captures that can be decoded without the others.

    Each range has the captures of one vantage point. If any capture may contain TLS secrets, which apply to all captures after it, there is
    one range.
    """
    sets = inputs.vantage_points()
    if len(sets) > 1 and any(map(_can_bring_secrets, inputs.paths)):
        sets = [range(len(inputs.paths))]
    return [(files.start, files.stop) for files in sets]


def shares_of(inputs: Inputs, sets: Sequence[tuple[int, int]], count: int | None = None) -> list[FlowShare]:
    """Return the shares of sets of captures: `count` for each set; by default, a number by their size."""
    size = (inputs.sizes or 0) / max(len(inputs.paths), 1)
    shares = []
    for first, end in sets:
        own = count or min(max(round(size * (end - first)) // SHARE_BYTES, 1), SHARES_MAX)
        shares += [FlowShare(first, end, number, own) for number in range(own)]
    return shares


def _can_bring_secrets(path: str) -> bool:
    reader = BlockReader(path, opener=open_path)
    try:
        next(iter(reader), None)
        return reader.can_bring_secrets
    finally:
        reader.close()


class ShareBlocks:
    """The blocks of one capture with only the flows of a share."""

    recognised = True
    """Always True: a finding reports a file that is not a capture."""

    def __init__(self, reader: BlockReader | None, flows: KeptFlows, note: Callable[[Times], None] | None = None) -> None:
        self._reader = reader
        self._flows = flows
        self._note = note

    @property
    def first_time(self) -> int | None:
        """Return the time of the first packet of the capture; None before it was read."""
        return None if self._reader is None else self._reader.first_time

    def __iter__(self) -> Iterator[Block]:
        times = NO_PACKETS
        for block in self._reader or ():
            if self._note is not None:
                times = widened(times, block.flows.values())
            self._flows.select(block)
            yield block
        if self._note is not None:
            self._note(times)

    def take_secrets(self) -> list[tuple[int, bytes]]:
        """Return the TLS key logs read since the last call."""
        return [] if self._reader is None else self._reader.take_secrets()


class KeptFlows:
    """The flows of a share, or only the wanted ones among them."""

    def __init__(
        self, inputs: Inputs, share: FlowShare, wanted: Wanted, files: Sequence[bool] | None = None, times_location: str = ""
    ) -> None:
        """Read some of the captures (by default, all), and note their times in a folder, unless its name is empty."""
        self._inputs = inputs
        self._files = files
        self._times = TimesFolder(times_location) if times_location else None
        self._share = share
        self._wanted = wanted
        self._known: dict[bytes, bool] = {}
        self._chosen: set[bytes] | None = None

    def choose(self, files: Sequence[bool], times: Callable[[list[int]], list[bool]] | None) -> None:
        """Find the flows with a packet in one of these files at one of these times, and keep only those.

        Each row of a connection has the file and the time of one of its packets.
        """
        chosen: set[bytes] = set()
        for file in range(self._share.first, self._share.end):
            for block in self.read(self._inputs.paths[file], file) if files[file] else ():
                for key, segments in block.flows.items():
                    lower = min(key, reverse_key(key))
                    if lower not in chosen and (times is None or any(times([segment[1] for segment in segments]))):
                        chosen.add(lower)
        self._chosen = chosen
        self._known.clear()

    def read(self, path: str, file: int) -> ShareBlocks:
        """Return the blocks of a capture, or no blocks if none of its flows is kept."""
        is_read = self._share.first <= file < self._share.end and self._chosen != set() and (self._files is None or self._files[file])
        if not is_read:
            return ShareBlocks(None, self)
        reader = BlockReader(path, file, by_interface=self._inputs.by_interface, opener=open_path)
        return ShareBlocks(reader, self, None if self._times is None else self._times.begin(path))

    def select(self, block: Block) -> None:
        """Remove the other flows from a block."""
        if self._share.count == 1 and self._wanted == Wanted() and self._chosen is None:
            return
        for key in [key for key in block.flows if not self._keeps(key)]:
            del block.flows[key]
        block.control &= block.flows.keys()

    def _keeps(self, key: bytes) -> bool:
        if (known := self._known.get(key)) is None:
            if len(self._known) >= KNOWN_FLOWS_MAX:
                self._known.clear()
            is_own = share_of(key, self._share.count) == self._share.number
            is_chosen = self._chosen is None or min(key, reverse_key(key)) in self._chosen
            known = self._known[key] = is_own and self._wanted.includes(key) and is_chosen
        return known


class FlowDivision:
    """The division of the flows of blocks among several shares of one task."""

    def __init__(self, shares: Sequence[int], count: int) -> None:
        """Prepare; `shares`: the shares of the task among `count`."""
        self._shares = shares
        self._count = count
        self._known: dict[bytes, int] = {}

    def divided(self, block: Block) -> list[Block]:
        """Return a block for each share. The first one also has everything that is not about a flow."""
        if self._count == 1:
            return [block]
        known = self._known
        if len(known) >= KNOWN_FLOWS_MAX:
            known.clear()
        of_shares: dict[int, dict[bytes, list[Segment]]] = {share: {} for share in self._shares}
        for key, segments in block.flows.items():
            if (share := known.get(key)) is None:
                share = known[key] = share_of(key, self._count)
            if share in of_shares:
                of_shares[share][key] = segments
        blocks = [replace(block, flows=flows, control=block.control & flows.keys()) for flows in of_shares.values()]
        return [blocks[0], *(replace(other, findings=[], packets=0) for other in blocks[1:])]


def deal(loads: Sequence[int], tasks: int) -> list[list[int]]:
    """Return the shares of each task. Shares with the largest loads are assigned first, each to the task with the least load so far."""
    parts: list[list[int]] = [[] for _ in range(tasks)]
    for share in sorted(range(len(loads)), key=lambda share: -loads[share]):
        min(parts, key=lambda part: (sum(loads[own] for own in part), len(part))).append(share)
    return [sorted(part) for part in parts]
