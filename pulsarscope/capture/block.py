"""What this room gives: blocks of TCP segments, in packet order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import msgspec

from pulsarscope.model.findings import Finding

Segment = tuple[int, int, int, int, int, int, bytes, int]
"""(packet, time_ns, sequence, acknowledgment, flags, window, payload, missing).

`packet` is the number in its file, from 1 (packets of any kind count); `time_ns` is since the epoch; `flags` are the low eight TCP
flag bits; `window` is the raw field; `payload` is what was captured of the TCP payload, `missing` how many bytes of it the wire had
beyond that.
"""

CONTROL_FLAGS = 0x07
"""SYN, FIN and RST: the segments that open or close a connection."""


class CaptureInterface(NamedTuple):
    """What the file says of where a packet was captured."""

    link_type: int
    snaplen: int
    """As the file has it; 0 for none."""
    name: str
    """"" when the file gives none."""


class PacketRecord(NamedTuple):
    """A packet as it stands in its file, for who copies it."""

    number: int
    time: int
    """Nanoseconds since the epoch."""
    wire_bytes: int
    """Its length before the capture cut it."""
    interface: CaptureInterface
    data: bytes


class Block(msgspec.Struct):
    """The packets of one read of a file; `packets` is `last_packet - first_packet + 1`, 0 in a block that only has findings."""

    file: int
    """Position in the run's list of files."""
    flows: dict[bytes, list[Segment]]
    """Flow key to its segments in packet order."""
    control: set[bytes]
    """Keys of the flows with a SYN, FIN or RST in this block."""
    findings: list[Finding]
    packets: int
    first_packet: int
    last_packet: int
    last_time: int
    """Time of the last packet so far, nanoseconds since the epoch; 0 before the first. Of a live capture without new packets: now."""
    bytes_read: int
    """Bytes of the input read so far, as stored: of a compressed file, compressed bytes."""
    ordered: bool = False
    """Known that no packet has an earlier time than the one before it."""
    records: list[PacketRecord] = []
    """All packets, of any kind, when the reader was told to keep them."""
    fragments: list[tuple[int, int]] = []
    """Packets that brought parts of a segment that another one completed, each with the number of that one; also copies that came later.
    The segment is that one's alone."""


class Blocks(Protocol):
    """The blocks of one input, whether it is a file or happens now."""

    @property
    def recognised(self) -> bool:
        """Whether the input has turned out to be a capture."""

    def __iter__(self) -> Iterator[Block]:
        """The blocks, in packet order."""

    def take_secrets(self) -> list[tuple[int, bytes]]:
        """TLS key logs met since the last call, and how many packets were before each."""
