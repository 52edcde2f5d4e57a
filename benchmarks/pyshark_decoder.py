"""The peer written with pyshark, which reads what tshark prints for each packet. Writes one JSON line per frame.

    python -m benchmarks.pyshark_decoder FILE

pyshark runs with its defaults: tshark's PDML, one packet object at a time. tshark prints the bytes of each TCP segment whatever it makes of
them, so this works with and without a Pulsar dissector.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from socket import AF_INET, AF_INET6, inet_pton

import pyshark

from benchmarks.naive import Segment, write_frames


def segments(path: str) -> Iterator[Segment]:
    """Yield the TCP segments of a capture."""
    with pyshark.FileCapture(path, keep_packets=False) as packets:
        for packet in packets:
            if "TCP" not in packet:
                continue
            tcp = packet.tcp
            ip, family = (packet.ip, AF_INET) if "IP" in packet else (packet.ipv6, AF_INET6)
            key = (inet_pton(family, ip.src), int(tcp.srcport), inet_pton(family, ip.dst), int(tcp.dstport))
            payload = bytes.fromhex(tcp.payload.replace(":", "")) if "payload" in tcp.field_names else b""
            syn = bool(int(tcp.flags, 16) & 2)
            yield Segment(int(packet.number), float(packet.sniff_timestamp), key, int(tcp.seq_raw), syn, payload)


def main(path: str) -> None:
    """Write a line for each frame to stdout."""
    write_frames(segments(path))


if __name__ == "__main__":
    main(sys.argv[1])
