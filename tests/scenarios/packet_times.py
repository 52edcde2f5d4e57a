"""An independent reader of the packet times of a capture file, for comparison with the package."""

from __future__ import annotations

import gzip
import io
import struct
from pathlib import Path

import zstandard

SECOND = 1_000_000_000
PCAP_UNITS = {0xA1B2C3D4: 1_000, 0xA1B23C4D: 1}
"""Nanoseconds per unit of the fraction of a record's time, by magic number."""
INTERFACE_BLOCK, PACKET_BLOCK = 1, 6
RESOLUTION_OPTION = 9


def packet_times(path: Path) -> list[int]:
    """Return the packet times in ns since the epoch, in file order."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    elif path.suffix == ".zst":
        data = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data)).read()
    return _pcapng_times(data) if data[:4] == b"\x0a\x0d\x0d\x0a" else _pcap_times(data)


def _pcap_times(data: bytes) -> list[int]:
    order = "<" if struct.unpack_from("<I", data)[0] in PCAP_UNITS else ">"
    unit = PCAP_UNITS[struct.unpack_from(f"{order}I", data)[0]]
    times, position = [], 24
    while position < len(data):
        seconds, fraction, captured, _ = struct.unpack_from(f"{order}IIII", data, position)
        times.append(seconds * SECOND + fraction * unit)
        position += 16 + captured
    return times


def _pcapng_times(data: bytes) -> list[int]:
    order = "<" if data[8:12] == b"\x4d\x3c\x2b\x1a" else ">"
    times: list[int] = []
    units: list[int] = []
    position = 0
    while position < len(data):
        kind, length = struct.unpack_from(f"{order}II", data, position)
        if kind == INTERFACE_BLOCK:
            units.append(_unit(data[position + 16 : position + length - 4], order))
        elif kind == PACKET_BLOCK:
            interface, high, low = struct.unpack_from(f"{order}III", data, position + 8)
            times.append((high << 32 | low) * units[interface])
        position += length
    return times


def _unit(options: bytes, order: str) -> int:
    """Return the resolution of an interface in ns; the default is 1,000."""
    position = 0
    while position + 4 <= len(options):
        code, length = struct.unpack_from(f"{order}HH", options, position)
        if code == RESOLUTION_OPTION:
            digits = options[position + 4]
            return int(10 ** (9 - digits))
        position += 4 + (length + 3) // 4 * 4
    return 1_000
