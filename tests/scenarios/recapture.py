"""Captures read back and written with other segments, in another order, or with copies. Shares nothing with the package's own reader."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterable
from ipaddress import ip_address
from pathlib import Path
from random import Random
from typing import NamedTuple

import zstandard

from pulsarscope.model.limits import HOLE_NANOSECONDS_MAX
from tests.scenarios.capturefile import Packet
from tests.scenarios.packets import FIN, PSH, RST, SYN, ethernet, ip_packet, tcp_segment

ETHERNET_BYTES = 14


def packets_of(path: Path) -> list[Packet]:
    """The packets of a pcap or pcapng file (little endian; one interface of microseconds or nanoseconds)."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    elif path.suffix == ".zst":
        data = zstandard.ZstdDecompressor().decompressobj().decompress(data)
    return _pcapng(data) if data[:4] == b"\x0a\x0d\x0d\x0a" else _pcap(data)


def _pcap(data: bytes) -> list[Packet]:
    (magic,) = struct.unpack_from("<I", data)
    unit = {0xA1B2C3D4: 1000, 0xA1B23C4D: 1}[magic]
    out = []
    position = 24
    while position < len(data):
        seconds, fraction, size, wire = struct.unpack_from("<IIII", data, position)
        position += 16
        out.append(Packet(seconds * 1_000_000_000 + fraction * unit, data[position : position + size], wire))
        position += size
    return out


def _pcapng(data: bytes) -> list[Packet]:
    out = []
    position = 0
    nanoseconds = 1000
    while position < len(data):
        kind, length = struct.unpack_from("<II", data, position)
        if kind == 1:
            option = position + 16
            while option < position + length - 4:
                code, size = struct.unpack_from("<HH", data, option)
                if code == 9:  # if_tsresol
                    nanoseconds = {6: 1000, 9: 1}[data[option + 4]]
                option += 4 + size + -size % 4
        elif kind == 6:
            _, high, low, size, wire = struct.unpack_from("<IIIII", data, position + 8)
            out.append(Packet((high << 32 | low) * nanoseconds, data[position + 28 : position + 28 + size], wire))
        position += length
    return out


class Segment(NamedTuple):
    """An Ethernet, IPv4 and TCP packet, taken apart."""

    time_ns: int
    source: str
    source_port: int
    destination: str
    destination_port: int
    sequence: int
    acknowledgment: int
    flags: int
    window: int
    options: bytes
    payload: bytes

    def packet(self) -> Packet:
        """The packet of this segment."""
        segment = tcp_segment(
            self.source_port,
            self.destination_port,
            self.sequence,
            self.acknowledgment,
            self.payload,
            flags=self.flags,
            window=self.window,
            options=self.options,
        )
        return Packet(self.time_ns, ethernet(ip_packet(self.source, self.destination, segment)))


def segments_of(packets: Iterable[Packet]) -> list[Segment]:
    """The TCP segments among these packets, which must be whole."""
    out = []
    for packet in packets:
        data = packet.data
        if data[12:14] != b"\x08\x00" or data[ETHERNET_BYTES + 9] != 6:
            continue
        header = (data[ETHERNET_BYTES] & 15) * 4
        (total,) = struct.unpack_from(">H", data, ETHERNET_BYTES + 2)
        source, destination = str(ip_address(data[26:30])), str(ip_address(data[30:34]))
        tcp = data[ETHERNET_BYTES + header : ETHERNET_BYTES + total]
        source_port, destination_port, sequence, acknowledgment, offset, flags, window = struct.unpack_from(">HHIIBBH", tcp)
        size = (offset >> 4) * 4
        segment = Segment(
            packet.time_ns,
            source,
            source_port,
            destination,
            destination_port,
            sequence,
            acknowledgment,
            flags,
            window,
            tcp[20:size],
            tcp[size:],
        )
        out.append(segment)
    return out


def resegmented(segments: Iterable[Segment], random: Random) -> list[Segment]:
    """The same bytes in smaller segments; those of one packet keep its time."""
    out = []
    for segment in segments:
        payload = segment.payload
        if len(payload) < 2 or segment.flags & SYN:
            out.append(segment)
            continue
        position = 0
        while position < len(payload):
            size = random.choice((1, 3, random.randint(1, 100), len(payload)))
            last = position + size >= len(payload)
            flags = segment.flags if last else segment.flags & ~(FIN | PSH)
            sequence = (segment.sequence + position) & 0xFFFF_FFFF
            out.append(segment._replace(sequence=sequence, flags=flags, payload=payload[position : position + size]))
            position += size
    return out


def shuffled(segments: Iterable[Segment], random: Random, window: int = 6) -> list[Segment]:
    """The same segments, moved by a few places and at most HOLE_NANOSECONDS_MAX; SYN, FIN and RST stay, times keep rising."""
    out: list[Segment] = []
    held: list[Segment] = []
    for segment in segments:
        late = held and segment.time_ns - held[0].time_ns > HOLE_NANOSECONDS_MAX
        if segment.flags & (SYN | FIN | RST) or len(held) >= window or late:
            random.shuffle(held)
            out += held
            held = []
        if segment.flags & (SYN | FIN | RST):
            out.append(segment)
        else:
            held.append(segment)
    random.shuffle(held)
    out += held
    return retimed(out)


def doubled(segments: Iterable[Segment], random: Random, share: float = 0.3) -> list[Segment]:
    """The segments, some of them repeated up to five places later."""
    out: list[Segment] = []
    later: list[tuple[int, Segment]] = []
    for index, segment in enumerate(segments):
        out.append(segment)
        if segment.payload and random.random() < share:
            later.append((index + random.randint(0, 5), segment))
        out += [copy for place, copy in later if place <= index]
        later = [(place, copy) for place, copy in later if place > index]
    return retimed(out)


def retimed(segments: list[Segment]) -> list[Segment]:
    """The segments with the same times, in rising order."""
    times = sorted(segment.time_ns for segment in segments)
    return [segment._replace(time_ns=time_ns) for segment, time_ns in zip(segments, times, strict=True)]


def bridged(packets: Iterable[Packet], lost: int | None = None) -> list[tuple[str, Packet]]:
    """The packets as captured on both sides of a bridge; the copy of packet `lost` at "br0" is missing."""
    sides = (("veth0", 0), ("br0", 1_000))
    return [
        (side, packet._replace(time_ns=packet.time_ns + later))
        for number, packet in enumerate(packets)
        for side, later in sides
        if (side, number) != ("br0", lost)
    ]
