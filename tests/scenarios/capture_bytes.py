"""Builders of packets and capture files in memory, valid by default."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from typing import NamedTuple

from pulsarscope.capture import Block, BlockReader, Segment
from pulsarscope.model.findings import Finding

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND
CLIENT, SERVER = "10.0.0.1", "10.0.0.2"
CLIENT6, SERVER6 = "fd00::1", "fd00::2"
SYN, ACK = 0x02, 0x10
MACS = b"\x02\x00\x00\x00\x00\x02\x02\x00\x00\x00\x00\x01"


class Record(NamedTuple):
    """Packet with its time and, if cut, its length on the wire."""

    data: bytes
    time_ns: int = START
    wire_bytes: int | None = None


def tcp(payload: bytes = b"", *, sequence: int = 1000, flags: int = ACK, options: bytes = b"", offset: int | None = None) -> bytes:
    words = 5 + len(options) // 4 if offset is None else offset
    return struct.pack(">HHIIBBHHH", 50000, 6650, sequence, 77, words << 4, flags, 512, 0, 0) + options + payload


def ipv4(
    body: bytes,
    *,
    protocol: int = 6,
    total: int | None = None,
    options: bytes = b"",
    fragment: int = 0x4000,
    first: int | None = None,
) -> bytes:
    length = 20 + len(options) + len(body) if total is None else total
    version = 0x45 + len(options) // 4 if first is None else first
    fixed = struct.pack(">BBHHHBBH", version, 0, length, 1, fragment, 64, protocol, 0)
    return fixed + ip_address(CLIENT).packed + ip_address(SERVER).packed + options + body


def ipv6(body: bytes, *, next_header: int = 6, length: int | None = None, version: int = 6) -> bytes:
    fixed = struct.pack(">IHBB", version << 28, len(body) if length is None else length, next_header, 64)
    return fixed + ip_address(CLIENT6).packed + ip_address(SERVER6).packed + body


def ethernet(packet: bytes, *, ethertype: int = 0x0800, tags: Sequence[int] = ()) -> bytes:
    """Build an Ethernet frame; `tags` are the ethertypes of VLAN tags, outermost first."""
    return MACS + b"".join(struct.pack(">HH", tag, 7) for tag in tags) + struct.pack(">H", ethertype) + packet


def segment_packet(payload: bytes = b"", *, sequence: int = 1000, flags: int = ACK) -> bytes:
    """Build a plain packet of Ethernet, IPv4 and TCP."""
    return ethernet(ipv4(tcp(payload, sequence=sequence, flags=flags)))


KEY = ip_address(CLIENT).packed + ip_address(SERVER).packed + struct.pack(">HH", 50000, 6650)
KEY6 = ip_address(CLIENT6).packed + ip_address(SERVER6).packed + struct.pack(">HH", 50000, 6650)


def pcap(
    records: Iterable[Record] = (),
    *,
    magic: int = 0xA1B2C3D4,
    byte_order: str = "<",
    link_type: int = 1,
    snaplen: int = 262_144,
    version: tuple[int, int] = (2, 4),
) -> bytes:
    unit = 1 if magic == 0xA1B23C4D else 1000
    parts = [struct.pack(byte_order + "IHHiIII", magic, *version, 0, 0, snaplen, link_type)]
    for data, time_ns, wire_bytes in records:
        seconds, rest = divmod(time_ns, SECOND)
        length = len(data) if wire_bytes is None else wire_bytes
        parts.append(struct.pack(byte_order + "IIII", seconds, rest // unit, len(data), length))
        if magic == 0xA1B2CD34:
            parts.append(bytes(8))
        parts.append(data)
    return b"".join(parts)


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


class Pcapng:
    """Builder of pcapng blocks in one byte order."""

    def __init__(self, byte_order: str = "<") -> None:
        self.order = byte_order

    def block(self, block_type: int, body: bytes) -> bytes:
        length = len(body) + 12
        return struct.pack(self.order + "II", block_type, length) + body + struct.pack(self.order + "I", length)

    def option(self, code: int, value: bytes) -> bytes:
        return struct.pack(self.order + "HH", code, len(value)) + padded(value)

    def section(self, *, version: int = 1, length: int = -1) -> bytes:
        return self.block(0x0A0D0D0A, struct.pack(self.order + "IHHq", 0x1A2B3C4D, version, 0, length))

    def interface(
        self, *, link_type: int = 1, snaplen: int = 0, resolution: int | None = None, offset: int | None = None, name: str = ""
    ) -> bytes:
        options = self.option(2, name.encode()) if name else b""
        if resolution is not None:
            options += self.option(9, bytes([resolution]))
        if offset is not None:
            options += self.option(14, struct.pack(self.order + "q", offset))
        return self.block(1, struct.pack(self.order + "HHI", link_type, 0, snaplen) + options)

    def packet(
        self,
        data: bytes,
        *,
        ticks: int = START // 1000,
        interface: int = 0,
        captured: int | None = None,
        wire_bytes: int | None = None,
        options: bytes = b"",
    ) -> bytes:
        fixed = struct.pack(
            self.order + "IIIII",
            interface,
            ticks >> 32,
            ticks & 0xFFFF_FFFF,
            len(data) if captured is None else captured,
            len(data) if wire_bytes is None else wire_bytes,
        )
        return self.block(6, fixed + padded(data) + options)

    def old_packet(self, data: bytes, *, ticks: int = START // 1000, interface: int = 0, drops: int = 0xFFFF) -> bytes:
        fixed = struct.pack(self.order + "HHIIII", interface, drops, ticks >> 32, ticks & 0xFFFF_FFFF, len(data), len(data))
        return self.block(2, fixed + padded(data))

    def simple_packet(self, data: bytes, *, wire_bytes: int | None = None) -> bytes:
        return self.block(3, struct.pack(self.order + "I", len(data) if wire_bytes is None else wire_bytes) + padded(data))

    def statistics(self, options: bytes, *, interface: int = 0) -> bytes:
        return self.block(5, struct.pack(self.order + "III", interface, 0, 0) + options)

    def count(self, code: int, value: int) -> bytes:
        return self.option(code, struct.pack(self.order + "Q", value))

    def secrets(self, data: bytes, *, kind: int = 0x544C534B) -> bytes:
        return self.block(10, struct.pack(self.order + "II", kind, len(data)) + padded(data))

    def file(self, packets: Iterable[bytes]) -> bytes:
        """Build a section with one Ethernet interface of microsecond resolution."""
        return self.section() + self.interface() + b"".join(self.packet(packet) for packet in packets)


class ShortReads(io.RawIOBase):
    """A stream like a pipe: it cannot seek, and returns at most `size` bytes at a time."""

    def __init__(self, data: bytes, size: int) -> None:
        self._data = data
        self._size = size

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        taken = self._data[: min(self._size, size)]
        self._data = self._data[len(taken) :]
        return taken


def reader_of(data: bytes, *, read_bytes: int = 1 << 20) -> BlockReader:
    return BlockReader(io.BytesIO(data), read_bytes=read_bytes)


def blocks_of(data: bytes, *, read_bytes: int = 1 << 20) -> list[Block]:
    return list(reader_of(data, read_bytes=read_bytes))


def flows_of(blocks: Iterable[Block]) -> dict[bytes, list[Segment]]:
    """Return all segments by flow, across the borders of blocks."""
    flows: dict[bytes, list[Segment]] = {}
    for block in blocks:
        for key, segments in block.flows.items():
            flows.setdefault(key, []).extend(segments)
    return flows


def segments_of(blocks: Iterable[Block]) -> list[Segment]:
    """Return all segments in packet order."""
    return sorted(segment for segments in flows_of(blocks).values() for segment in segments)


def findings_of(blocks: Sequence[Block]) -> dict[str, Finding]:
    """Return the findings by code; all must be in the last block, one per code."""
    assert not any(block.findings for block in blocks[:-1])
    findings = {finding.code: finding for finding in blocks[-1].findings}
    assert len(findings) == len(blocks[-1].findings)
    return findings


def frames_to_blocks(*frames: bytes, link_type: int = 1) -> list[Block]:
    """Return the blocks of a pcap file with these frames."""
    return blocks_of(pcap([Record(frame) for frame in frames], link_type=link_type))
