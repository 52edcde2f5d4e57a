"""Interfaces of live packet sources and recorders."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from pulsarscope.model.limits import PACKET_MAX_BYTES
from pulsarscope.output.export.pcapng import interface_block


class CapturedPackets(NamedTuple):
    """Captured packets, as consecutive pcapng blocks."""

    data: bytes
    packets: int
    time: int
    """Time of the last packet, in ns since the epoch."""


class CaptureHealth(NamedTuple):
    """The state of a live capture."""

    packets: int
    """Packets captured."""
    dropped: int
    """Packets dropped by the kernel."""
    skipped_packets: int
    """Packets captured but not decoded."""
    waiting_bytes: int
    """Bytes that wait to be decoded."""
    ring: float
    """Used fraction of the kernel's ring, 0 to 1."""
    lag: float
    """Delay of decoding, in seconds."""
    waiting_streams: int = 0
    """Streams that wait for lost packets."""
    stream_bytes: int = 0
    """Bytes that wait in these streams."""
    connections: int = 0
    """Open connections of a known protocol."""
    shortened_triggers: int = 0
    """Triggers that came too late for some of the packets before them."""


class PacketSource(Protocol):
    """A source of live packets from one interface."""

    name: str
    """Name of the interface."""
    link_type: int
    interfaces: tuple[str, ...]
    """Names of interfaces, to which packets refer by number; the first is the name of the source."""
    reports_drops: bool
    """True when the system reports dropped packets."""
    forks: bool
    """True when the source can be read in a forked process."""
    down: bool
    """True while the source waits for the interface to come up again."""
    received: int
    """Packets that passed the filter up to the last `count`, including dropped ones."""
    dropped: int
    """Packets dropped up to the last `count`."""

    def read(self, seconds: float, packets_max: int | None = None) -> CapturedPackets | None:
        """Return at most `packets_max` available packets; None after `seconds` without any. Raises OSError when the interface is gone."""

    def count(self) -> None:
        """Update the counts; safe from any thread."""

    def fullness(self) -> float:
        """Return the used fraction of the packet buffer, 0 to 1."""

    def close(self) -> None:
        """Stop capturing; further calls have no effect."""


def interface_blocks(source: PacketSource) -> bytes:
    """Return the pcapng blocks that describe the interfaces of a source."""
    return b"".join(interface_block(source.link_type, PACKET_MAX_BYTES, name) for name in source.interfaces)


class PacketWriter(Protocol):
    """A recorder of live packets."""

    shortened: int
    """Number of triggers with missing packets before them."""

    def recorded(self) -> tuple[int, str]:
        """Return the number of existing files and the name of the latest one."""

    def detach(self) -> None:
        """Close the open file without ending it: a forked copy of this process goes on with it."""

    def trigger(self, moment: int) -> None:
        """Record the packets around a time, in ns since the epoch, unless all packets are recorded."""

    def describe(self, interface: bytes) -> None:
        """Write a pcapng block about an interface, before its first packet, or with TLS secrets. Further files also begin with it."""

    def __call__(self, captured: CapturedPackets) -> None:
        """Write packets. Raises OutputError when they cannot be written."""

    def end(self) -> None:
        """End the current file. Raises OutputError when it cannot be written."""
