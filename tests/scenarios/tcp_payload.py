"""The TCP payload of captures according to dpkt and a few lines of arithmetic. Shares nothing with the package's own reader."""

from __future__ import annotations

import gzip
import io
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import dpkt
import zstandard

VXLAN_PORT = 4789
SYN = 0x02


class Capture(NamedTuple):
    """Link type and (time, packet) of a capture."""

    link_type: int
    packets: list[tuple[float, bytes]]

    def write(self, path: Path) -> str:
        """Write a pcap file and return its path."""
        with path.open("wb") as file:
            writer = dpkt.pcap.Writer(file, linktype=self.link_type)
            for time, data in self.packets:
                writer.writepkt(data, time)
        return str(path)


def read_capture(path: Path) -> Capture:
    """Return the packets of a pcap or pcapng file, plain or compressed."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    elif path.suffix == ".zst":
        data = zstandard.ZstdDecompressor().decompressobj().decompress(data)
    reader = dpkt.pcap.UniversalReader(io.BytesIO(data))
    return Capture(reader.datalink(), list(reader))


_LINKS: dict[int, Any] = {0: dpkt.loopback.Loopback, 1: dpkt.ethernet.Ethernet, 113: dpkt.sll.SLL, 276: dpkt.sll2.SLL2}


def tcp_segments(capture: Capture) -> Iterator[tuple[int, tuple[bytes, bytes, int, int], Any]]:
    """Yield position, flow and segment of each TCP packet, also inside VXLAN; of a fragmented packet at its last fragment."""
    fragments: dict[Any, dict[int, Any]] = defaultdict(dict)
    for position, (_, data) in enumerate(capture.packets):
        packet = _LINKS.get(capture.link_type, dpkt.ip.IP)(data)
        while isinstance(packet, dpkt.Packet):
            if isinstance(packet, dpkt.ip.IP) and (packet.offset or packet.mf):
                packet = _whole(packet, fragments[packet.src, packet.dst, packet.id])
            if packet is None:
                break
            if isinstance(packet, (dpkt.ip.IP, dpkt.ip6.IP6)):
                address = packet.src, packet.dst
                if isinstance(packet.data, dpkt.tcp.TCP):
                    tcp = packet.data
                    yield position, (*address, tcp.sport, tcp.dport), tcp
                    break
            packet = (
                dpkt.ethernet.Ethernet(packet.data[8:]) if isinstance(packet, dpkt.udp.UDP) and packet.dport == VXLAN_PORT else packet.data
            )


def _whole(fragment: Any, others: dict[int, Any]) -> Any:
    """Return the IP packet that a fragment completes, None if other fragments are missing."""
    others.setdefault(fragment.offset * 8, fragment)
    data = b""
    while (piece := others.get(len(data))) is not None:
        data += bytes(piece.data)
        if not piece.mf:
            others.clear()
            piece.offset = piece.mf = 0
            piece.data = dpkt.tcp.TCP(data)
            return piece
    return None


def unique_bytes(segments: Iterable[tuple[int, tuple[bytes, bytes, int, int], Any]]) -> int:
    """Return the number of different bytes of payload: each flow and sequence number counts once."""
    ranges: dict[Any, set[tuple[int, int]]] = defaultdict(set)
    for _, flow, tcp in segments:
        start = tcp.seq + bool(tcp.flags & SYN)
        if tcp.data:
            ranges[flow].add((start, start + len(tcp.data)))
    total = 0
    for spans in ranges.values():
        reached = -1
        for start, end in sorted(spans):
            total += max(0, end - max(start, reached))
            reached = max(reached, end)
    return total
