"""pcap and pcapng files."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ETHERNET = 1
SNAPLEN = 262_144


class Packet(NamedTuple):
    """A captured packet; `wire_bytes` is its length on the wire if the capture cut it."""

    time_ns: int
    data: bytes
    wire_bytes: int | None = None


def pcap(
    packets: Iterable[Packet], *, link_type: int = ETHERNET, nanoseconds: bool = True, byte_order: str = "<", snaplen: int = SNAPLEN
) -> bytes:
    """A whole pcap file in memory. Microsecond files drop the last three digits of the times.

    Args:
        byte_order: "<" or ">".
    """
    magic = 0xA1B23C4D if nanoseconds else 0xA1B2C3D4
    unit = 1 if nanoseconds else 1000
    parts = [struct.pack(byte_order + "IHHiIII", magic, 2, 4, 0, 0, snaplen, link_type)]
    record = struct.Struct(byte_order + "IIII")
    for time_ns, data, wire_bytes in packets:
        seconds, nanos = divmod(time_ns, 1_000_000_000)
        parts.append(record.pack(seconds, nanos // unit, len(data), len(data) if wire_bytes is None else wire_bytes))
        parts.append(data)
    return b"".join(parts)


def write_pcap(path: Path, packets: Iterable[Packet], *, link_type: int = ETHERNET) -> Path:
    """Write a pcap file with nanoseconds and return its path."""
    path.write_bytes(pcap(packets, link_type=link_type))
    return path


def pcapng(packets: Iterable[tuple[str, Packet]]) -> bytes:
    """A whole pcapng file in memory; each packet has the name of its interface, "" for an interface without a name."""
    parts = [_block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))]
    numbers: dict[str, int] = {}
    for interface, (time_ns, data, wire_bytes) in packets:
        if interface not in numbers:
            numbers[interface] = len(numbers)
            name = interface.encode()
            options = struct.pack("<HHB3x", 9, 1, 9) + (struct.pack("<HH", 2, len(name)) + _padded(name) if name else b"")
            parts.append(_block(1, struct.pack("<HHI", ETHERNET, 0, SNAPLEN) + options))
        length = len(data) if wire_bytes is None else wire_bytes
        head = struct.pack("<IIIII", numbers[interface], time_ns >> 32, time_ns & 0xFFFF_FFFF, len(data), length)
        parts.append(_block(6, head + _padded(data)))
    return b"".join(parts)


def write_pcapng(path: Path, packets: Iterable[tuple[str, Packet]]) -> Path:
    """Write a pcapng file and return its path."""
    path.write_bytes(pcapng(packets))
    return path


def _block(block_type: int, body: bytes) -> bytes:
    length = len(body) + 12
    return struct.pack("<II", block_type, length) + body + struct.pack("<I", length)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
