"""What live packets come from."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Captured(NamedTuple):
    """Some packets, as pcapng blocks one after the other."""

    data: bytes
    packets: int
    time: int
    """Of the last one, nanoseconds since the epoch."""


class Health(NamedTuple):
    """How a capture fares."""

    packets: int
    """Taken."""
    dropped: int
    """By the kernel."""
    skipped_packets: int
    """Taken and not decoded."""
    waiting_bytes: int
    """Taken, and still to be decoded."""
    ring: float
    """How much of the kernel's room is taken, 0 to 1."""
    lag: float
    """Seconds that decoding is behind."""


class Source(Protocol):
    """Packets of one interface, as they come."""

    name: str
    """Of the interface."""
    link_type: int
    tells_drops: bool
    """Whether the system says how many packets it had no room for."""
    received: int
    """Packets that the kernel took for us, dropped ones included, as of the last `count`."""
    dropped: int
    """Those of them that it had no room for."""

    def read(self, seconds: float, packets_max: int | None = None) -> Captured | None:
        """Packets that are ready; None when there are none in so many seconds. What is beyond `packets_max` of them is let go.

        Raises:
            OSError: the interface is gone.
        """

    def count(self) -> None:
        """Bring the counts up to date; from any thread."""

    def fullness(self) -> float:
        """How much of the room for packets is taken, 0 to 1."""

    def close(self) -> None:
        """Stop capturing. May be called again."""


class Keep(Protocol):
    """What packets are handed to, to be kept."""

    def describe(self, interface: bytes) -> None:
        """The pcapng block of one more interface, before its first packet."""

    def __call__(self, captured: Captured) -> None:
        """Some packets.

        Raises:
            OutputError: they cannot be kept.
        """

    def end(self) -> None:
        """No more will come for now. Raises OutputError as well."""
