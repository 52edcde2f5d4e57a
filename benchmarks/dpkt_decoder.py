"""The peer written with dpkt. Writes one JSON line per frame.

    python -m benchmarks.dpkt_decoder FILE

Reads pcap and pcapng with Ethernet only.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import dpkt

from benchmarks.naive import Segment, write_frames


def segments(path: str) -> Iterator[Segment]:
    """Yield the TCP segments of a capture."""
    with open(path, "rb") as file:  # noqa: PTH123 - as one does
        for number, (time, packet) in enumerate(dpkt.pcap.UniversalReader(file), 1):
            ip = dpkt.ethernet.Ethernet(packet).data
            if isinstance(ip, (dpkt.ip.IP, dpkt.ip6.IP6)) and isinstance(ip.data, dpkt.tcp.TCP):
                tcp = ip.data
                key = (ip.src, tcp.sport, ip.dst, tcp.dport)
                yield Segment(number, float(time), key, tcp.seq, bool(tcp.flags & dpkt.tcp.TH_SYN), bytes(tcp.data))


def main(path: str) -> None:
    """Write a line for each frame to stdout."""
    write_frames(segments(path))


if __name__ == "__main__":
    main(sys.argv[1])
