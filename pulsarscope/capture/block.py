"""Blocks of TCP segments in packet order, the output of this room."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Any, NamedTuple, Protocol

import msgspec

from pulsarscope.model.findings import Finding

Segment = tuple[int, int, int, int, int, int, bytes, int, int, bytes]
"""(packet, time_ns, sequence, acknowledgment, flags, window, payload, missing, identification, options).

`packet` is the number in its file, from 1, counting packets of any kind. `time_ns` is since the epoch. `flags` are the low eight TCP flag
bits, `window` is the raw field. `payload` is the captured part of the TCP payload, `missing` the number of bytes cut off behind it.
`identification` is that of the IPv4 header, 0 without one; `options` are the bytes of the TCP header from its checksum on.
"""


class CaptureInterface(NamedTuple):
    """Interface of a packet, as described in its file."""

    link_type: int
    snaplen: int
    """Longest packet that is captured in full, bytes; 0 for no limit."""
    name: str
    """Name of the interface, "" when the file has none."""


class PacketRecord(NamedTuple):
    """Packet of any kind, as stored in its file."""

    number: int
    time: int
    """Nanoseconds since the epoch."""
    wire_bytes: int
    """Length on the wire, before the snap length cut it."""
    interface: CaptureInterface
    data: bytes


Wanted = AbstractSet[int] | None
"""Packet numbers; None for all."""


class KeptRecords:
    """The packets of a block as stored in its file, each made on request."""

    def __init__(self) -> None:
        self._parts: list[tuple[range, Callable[[Wanted], Iterable[PacketRecord]]]] = []
        self.interface: CaptureInterface | None = None
        """Interface of all packets; None if they have several."""

    def add(self, numbers: range, make: Callable[[Wanted], Iterable[PacketRecord]], interface: CaptureInterface) -> None:
        """Append packets of one interface with these numbers; `make` makes the wanted ones."""
        self.interface = interface if not self._parts or interface == self.interface else None
        self._parts.append((numbers, make))

    def append(self, record: PacketRecord) -> None:
        """Append one packet."""
        self.add(range(record.number, record.number + 1), lambda _: (record,), record.interface)

    def __iter__(self) -> Iterator[PacketRecord]:
        return chain.from_iterable(make(None) for _, make in self._parts)

    def only(self, wanted: AbstractSet[int]) -> Iterator[PacketRecord]:
        """Make the packets with these numbers."""
        return chain.from_iterable(make(wanted) for numbers, make in self._parts if not wanted.isdisjoint(numbers))


class CopiedPackets(NamedTuple):
    """Packets held by the compiled reader, as stored in their file, with comments."""

    interface: CaptureInterface
    """Interface of all of them."""
    compiled: Any
    """The `PacketCopies` of the compiled reader."""

    def records(self) -> list[tuple[PacketRecord, list[str]]]:
        """Make the packets, with the lines of their comments."""
        return [
            (PacketRecord(number, time, len(data), self.interface, data), [comment])
            for number, time, data, comment in self.compiled.packets()
        ]


class Owner(NamedTuple):
    """Owner of a packet's socket on the capturing host."""

    process: str | None
    """Command and process id, as in java (1234)."""
    pod: str | None
    """Kubernetes pod, as in namespace/name."""


class Block(msgspec.Struct):
    """Packets of one read of a file; `packets` is `last_packet - first_packet + 1`, 0 in a block of findings only."""

    file: int
    """Position in the run's list of files."""
    flows: dict[bytes, list[Segment]]
    """Segments in packet order, by flow key; those of the compiled reader are another sequence, which makes tuples on access."""
    control: set[bytes]
    """Keys of the flows that have a segment with one of CONTROL_FLAGS."""
    findings: list[Finding]
    packets: int
    first_packet: int
    last_packet: int
    last_time: int
    """Time of the last packet so far, ns since the epoch; 0 before the first, and the present time in a live capture without new
    packets."""
    bytes_read: int
    """Stored bytes of the input read so far: compressed bytes of a compressed file."""
    ordered: bool = False
    """True when no packet is known to have an earlier time than the one before it."""
    records: KeptRecords = msgspec.field(default_factory=KeptRecords)
    """All packets of any kind, if the reader keeps them."""
    skipped: bool = False
    """True when packets before this block were skipped, in a live capture that is decoded too slowly."""
    fragments: list[tuple[int, int]] = []
    """(packet, completing packet) for each IP fragment of a segment, late copies included; the segment is at the completing packet."""
    owners: dict[int, Owner] = {}
    """Owners of packets, if the file names them."""


class Blocks(Protocol):
    """Blocks of one input, a file or a live source."""

    @property
    def recognised(self) -> bool:
        """Return True when the input has turned out to be a capture."""

    @property
    def first_time(self) -> int | None:
        """Return the time of the first packet, nanoseconds since the epoch; None before it was read."""

    def __iter__(self) -> Iterator[Block]:
        """Iterate over the blocks in packet order."""

    def take_secrets(self) -> list[tuple[int, bytes]]:
        """Return the TLS key logs read since the last call, each with the number of packets before it."""
