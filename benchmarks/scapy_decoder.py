"""The peer written with scapy. Writes one JSON line per frame.

    python -m benchmarks.scapy_decoder FILE

scapy's own TCPSession takes retransmitted segments and segments out of order for new ones, so the streams here are those of the other
peers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from socket import AF_INET, AF_INET6, inet_pton

from scapy.layers.inet import IP, TCP  # noqa: TID253 - this program is about scapy
from scapy.layers.inet6 import IPv6  # noqa: TID253
from scapy.utils import PcapReader  # noqa: TID253

from benchmarks.naive import Segment, write_frames


def segments(path: str) -> Iterator[Segment]:
    """Yield the TCP segments of a capture."""
    with PcapReader(path) as packets:
        for number, packet in enumerate(packets, 1):
            if TCP not in packet:
                continue
            tcp = packet[TCP]
            if IP in packet:
                ip, family = packet[IP], AF_INET
                length = ip.len - 4 * ip.ihl - 4 * tcp.dataofs
            else:
                ip, family = packet[IPv6], AF_INET6
                length = ip.plen - 4 * tcp.dataofs
            key = (inet_pton(family, ip.src), tcp.sport, inet_pton(family, ip.dst), tcp.dport)
            # Bytes after the length in the IP header are padding of the link layer.
            yield Segment(number, float(packet.time), key, tcp.seq, bool(tcp.flags.S), bytes(tcp.payload)[:length])


def main(path: str) -> None:
    """Write a line for each frame to stdout."""
    write_frames(segments(path))


if __name__ == "__main__":
    main(sys.argv[1])
