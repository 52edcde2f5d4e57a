"""Shares of the connections of captures, one for each task of a read: each task reads the packets and keeps those of its flows.

A connection is decoded from its own packets, and from the TLS secrets in captures before them. So its rows are the same whichever other
connections are decoded beside it. What looks across connections, findings and journeys, has one share of everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from zlib import crc32

import msgspec

from pulsarscope.capture import Block, BlockReader, Inputs
from pulsarscope.model.flow import reverse_key, source_endpoint
from pulsarscope.spark.remote_files import open_path

SHARE_BYTES = 64 << 20
"""Approximate bytes of captures for each share."""

SHARES_MAX = 8
"""Default maximum of shares of the same captures, for each of which these are read."""

KNOWN_FLOWS_MAX = 1 << 17
"""Flows of which it is remembered whether they are kept."""


class Share(msgspec.Struct, frozen=True):
    """Connections of some successive captures: those whose flow key falls to one of several numbers."""

    first: int
    """Position of the first capture."""
    end: int
    """Position behind the last one."""
    number: int = 0
    count: int = 1
    last_begun: int | None = None
    """Position of the last capture in which a flow must have been seen for its connections to count; None: it may be any."""


class Wanted(msgspec.Struct, frozen=True):
    """Endpoints of connections; None: any."""

    clients: frozenset[str] | None = None
    servers: frozenset[str] | None = None

    def includes(self, key: bytes) -> bool:
        """Return True when a flow may have a connection with such a client and such a server."""
        if self.clients is None and self.servers is None:
            return True
        ends = {source_endpoint(key), source_endpoint(reverse_key(key))}
        return not any(names is not None and ends.isdisjoint(names) for names in (self.clients, self.servers))


def capture_sets(inputs: Inputs) -> list[tuple[int, int]]:
    """Return the first position and the one behind the last, of captures that are decoded without the others.

    They are those of one vantage point; all, if any may bring TLS secrets, which hold for all captures behind it.
    """
    files = len(inputs.paths)
    starts = [file for file in range(files) if not inputs.continues(file)]
    if len(starts) > 1 and any(map(_can_bring_secrets, inputs.paths)):
        starts = [0]
    return list(zip(starts, [*starts[1:], files], strict=True))


def shares_of(inputs: Inputs, sets: Sequence[tuple[int, int]], count: int | None = None, last_begun: int | None = None) -> list[Share]:
    """Return the shares of sets of captures: `count` of each, by default a number by their size."""
    size = (inputs.sizes or 0) / max(len(inputs.paths), 1)
    shares = []
    for first, end in sets:
        own = count or min(max(round(size * (end - first)) // SHARE_BYTES, 1), SHARES_MAX)
        shares += [Share(first, end, number, own, last_begun) for number in range(own)]
    return shares


def _can_bring_secrets(path: str) -> bool:
    reader = BlockReader(path, opener=open_path)
    try:
        next(iter(reader), None)
        return reader.can_bring_secrets
    finally:
        reader.close()


class ShareBlocks:
    """The blocks of one capture with the flows of a share alone."""

    recognised = True
    """What is no capture any more is told by a finding."""

    def __init__(self, reader: BlockReader | None, flows: KeptFlows) -> None:
        self._reader = reader
        self._flows = flows

    def __iter__(self) -> Iterator[Block]:
        for block in self._reader or ():
            self._flows.select(block)
            yield block

    def take_secrets(self) -> list[tuple[int, bytes]]:
        """Return the TLS key logs read since the last call."""
        return [] if self._reader is None else self._reader.take_secrets()


class KeptFlows:
    """The flows of a share."""

    def __init__(self, inputs: Inputs, share: Share, wanted: Wanted) -> None:
        self._inputs = inputs
        self._share = share
        self._wanted = wanted
        self._known: dict[bytes, bool] = {}
        self._begun: set[bytes] = set()

    def read(self, path: str, file: int) -> ShareBlocks:
        """Return the blocks of a capture; none of one that is not of the share."""
        if not self._share.first <= file < self._share.end:
            return ShareBlocks(None, self)
        return ShareBlocks(BlockReader(path, file, by_interface=self._inputs.by_interface, opener=open_path), self)

    def select(self, block: Block) -> None:
        """Leave out the other flows of a block."""
        last_begun = self._share.last_begun
        if self._share.count == 1 and self._wanted == Wanted() and last_begun is None:
            return
        for key in [key for key in block.flows if not self._keeps(key)]:
            del block.flows[key]
        if last_begun is not None and block.file <= last_begun:
            self._begun.update(block.flows)
        elif last_begun is not None:
            for key in [key for key in block.flows if key not in self._begun and reverse_key(key) not in self._begun]:
                del block.flows[key]
        block.control &= block.flows.keys()

    def _keeps(self, key: bytes) -> bool:
        if (known := self._known.get(key)) is None:
            if len(self._known) >= KNOWN_FLOWS_MAX:
                self._known.clear()
            number = crc32(min(key, reverse_key(key))) % self._share.count
            known = self._known[key] = number == self._share.number and self._wanted.includes(key)
        return known
