"""Packets through the sniffing socket of scapy, where the kernel shares no ring with us: other systems than Linux, and old kernels.

Slower by far, packet by packet, and without counts of what the system dropped.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

from pulsarscope.live.interfaces import ANY
from pulsarscope.live.ring import ETHERNET
from pulsarscope.live.source import Captured
from pulsarscope.model.errors import UsageError
from pulsarscope.model.limits import READ_BLOCK_BYTES
from pulsarscope.output.export.pcapng import packet_block

NANOSECONDS = 1_000_000_000


class SniffSource:
    """See `Source`. Close it."""

    tells_drops = False

    def __init__(self, sniffer: Any, name: str, link_types: Any) -> None:
        """`sniffer`: a listening socket of scapy. `link_types`: scapy's numbers of them by class of packet."""
        self.name = name
        self.received = 0
        self.dropped = 0
        self._sniffer = sniffer
        self._link_types = link_types
        self.link_type: int = link_types.get(getattr(sniffer, "LL", None), ETHERNET)

    def read(self, seconds: float, packets_max: int | None = None) -> Captured | None:
        """See `Source`: the packets that are ready, some of them at a time."""
        pieces: list[bytes] = []
        size = packets = moment = 0
        while size < READ_BLOCK_BYTES and packets != packets_max and self._sniffer.select([self._sniffer], 0 if pieces else seconds):
            _, data, at = self._sniffer.recv_raw()
            if data is None:
                break
            moment = time.time_ns() if at is None else int(at * NANOSECONDS)
            pieces.append(packet_block(0, moment, len(data), data))
            size += len(data)
            packets += 1
        self.received += packets
        return Captured(b"".join(pieces), packets, moment) if pieces else None

    def count(self) -> None:
        """See `Source`: nothing is known but what was taken."""

    def fullness(self) -> float:
        """See `Source`: not known."""
        return 0.0

    def close(self) -> None:
        """See `Source`."""
        self._sniffer.close()


def expression(ports: Collection[int]) -> str:
    """TCP from or to these ports, or all of it, as libpcap takes it."""
    return " or ".join(f"tcp port {port}" for port in sorted(ports)) or "tcp"


def open_sniffer(name: str, capture_filter: str) -> SniffSource:
    """The interface, with a filter in the language of tcpdump.

    Raises:
        UsageError: scapy is not installed, or cannot do it.
        PermissionError: only the superuser may.
    """
    try:
        from scapy.all import Scapy_Exception, conf
    except ImportError as error:
        message = "this system has no ring of packets: install scapy (pip install 'pulsarscope[live]'), or read a pipe with -i -"
        raise UsageError(message) from error
    try:
        sniffer = conf.L2listen(iface=None if name == ANY else name, filter=capture_filter)
    except PermissionError:
        raise  # it has an answer of its own
    except (Scapy_Exception, OSError, ValueError) as error:
        message = f"scapy cannot capture on {name}: {error}"
        raise UsageError(message) from error
    return SniffSource(sniffer, name, conf.l2types.layer2num)
