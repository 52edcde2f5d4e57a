"""Live packets from a sniffing socket of scapy, for systems without a packet ring: systems other than Linux, and old kernels.

It is much slower, packet by packet, and does not report dropped packets.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

from pulsarscope.live.interfaces import ANY
from pulsarscope.live.packet_source import CapturedPackets
from pulsarscope.live.ring import ETHERNET
from pulsarscope.model.errors import UsageError
from pulsarscope.model.limits import READ_BLOCK_BYTES
from pulsarscope.model.platform import install_command
from pulsarscope.model.units import SECOND
from pulsarscope.output.export.pcapng import packet_block


class SniffSource:
    """A packet source on a socket of scapy (see `PacketSource`)."""

    reports_drops = False
    forks = False
    down = False

    def __init__(self, sniffer: Any, name: str, link_types: Any) -> None:
        """Initialize with a listening socket of scapy and its link type numbers by packet class."""
        self.name = name
        self.interfaces: tuple[str, ...] = (name,)
        self.received = 0
        self.dropped = 0
        self._sniffer = sniffer
        self.link_type: int = link_types.get(getattr(sniffer, "LL", None), ETHERNET)

    def read(self, seconds: float, packets_max: int | None = None) -> CapturedPackets | None:
        """Return available packets (see `PacketSource`)."""
        pieces: list[bytes] = []
        size = packets = last_time = 0
        while size < READ_BLOCK_BYTES and packets != packets_max and self._sniffer.select([self._sniffer], 0 if pieces else seconds):
            _, data, captured_at = self._sniffer.recv_raw()
            if data is None:
                break
            last_time = time.time_ns() if captured_at is None else int(captured_at * SECOND)
            pieces.append(packet_block(0, last_time, len(data), data))
            size += len(data)
            packets += 1
        self.received += packets
        return CapturedPackets(b"".join(pieces), packets, last_time) if pieces else None

    def count(self) -> None:
        """Do nothing: only captured packets are counted."""

    def fullness(self) -> float:
        """Return 0, because the state of the buffer is not known."""
        return 0.0

    def close(self) -> None:
        """Close the socket."""
        self._sniffer.close()


def expression(ports: Collection[int]) -> str:
    """Return the libpcap expression for TCP from or to these ports; for all TCP if there are none."""
    return " or ".join(f"tcp port {port}" for port in sorted(ports)) or "tcp"


def open_sniffer(name: str, capture_filter: str) -> SniffSource:
    """Open an interface with a tcpdump filter. Raises UsageError when scapy is missing or cannot capture, or PermissionError."""
    try:
        from scapy.all import Scapy_Exception, conf
    except ImportError as error:
        message = f"this system has no packet ring: install scapy ({install_command('live')}), or read a pipe with -i -"
        raise UsageError(message) from error
    try:
        sniffer = conf.L2listen(iface=None if name == ANY else name, filter=capture_filter)
    except PermissionError:
        raise  # handled by the caller
    except (Scapy_Exception, OSError, ValueError) as error:
        raise UsageError(f"scapy cannot capture on {name}: {error}") from error
    return SniffSource(sniffer, name, conf.l2types.layer2num)
