"""TCP connections written as scripts: bytes of either side → packets → a capture."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from ipaddress import IPv4Address

_FIN, _SYN, _PSH, _ACK = 1, 2, 8, 16
_START_NS = 1_700_000_000_000_000_000
_STEP_NS = 100_000
_SEGMENT_MAX_BYTES = 1448
"""Payload of a segment on an Ethernet of 1500 bytes."""


class ScriptedConnection:
    """The packets of one connection; every method returns self.

    ScriptedConnection(7700).client(request).server(response).close().pcap()
    """

    def __init__(self, port: int, client: str = "10.0.0.1", server: str = "10.0.0.2", client_port: int = 40_000) -> None:
        """Start with the handshake."""
        self.packets: list[tuple[int, bytes]] = []
        """(time in nanoseconds since the epoch, bytes of an Ethernet frame)."""
        self._ends = [(IPv4Address(client).packed, client_port), (IPv4Address(server).packed, port)]
        self._sequence = [1000, 5000]
        self._waited_ns = 0
        self._send(0, _SYN)
        self._send(1, _SYN | _ACK)
        self._send(0, _ACK)

    def client(self, *frames: bytes) -> ScriptedConnection:
        """Let the client write these bytes at once."""
        return self._write(0, b"".join(frames))

    def server(self, *frames: bytes) -> ScriptedConnection:
        """Let the server write these bytes at once."""
        return self._write(1, b"".join(frames))

    def lose(self, side: int, size: int) -> ScriptedConnection:
        """Let the client (0) or the server (1) send bytes that the capture lacks."""
        self._sequence[side] += size
        return self

    def wait(self, seconds: float) -> ScriptedConnection:
        """Let time pass before the next packet."""
        self._waited_ns += round(seconds * 1_000_000_000)
        return self

    def close(self) -> ScriptedConnection:
        """End both streams."""
        self._send(0, _FIN | _ACK)
        self._send(1, _FIN | _ACK)
        self._send(0, _ACK)
        return self

    def pcap(self) -> bytes:
        """Return a capture of the connection."""
        return pcap_bytes(self.packets)

    def _write(self, side: int, data: bytes) -> ScriptedConnection:
        for start in range(0, len(data), _SEGMENT_MAX_BYTES):
            self._send(side, _ACK | _PSH, data[start : start + _SEGMENT_MAX_BYTES])
        return self

    def _send(self, side: int, flags: int, payload: bytes = b"") -> None:
        (source, source_port), (destination, destination_port) = self._ends[side], self._ends[1 - side]
        acknowledged = self._sequence[1 - side] if flags & _ACK else 0
        tcp = struct.pack(">HHIIBBHHH", source_port, destination_port, self._sequence[side], acknowledged, 0x50, flags, 65_535, 0, 0)
        ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 40 + len(payload), len(self.packets) & 0xFFFF, 0, 64, 6, 0, source, destination)
        ethernet = bytes(12) + b"\x08\x00"
        self.packets.append((_START_NS + _STEP_NS * len(self.packets) + self._waited_ns, ethernet + ip + tcp + payload))
        self._sequence[side] += len(payload) + bool(flags & (_SYN | _FIN))


def pcap_bytes(packets: Iterable[tuple[int, bytes]]) -> bytes:
    """Return a capture file (pcap, nanoseconds, Ethernet) of packets: (time in nanoseconds since the epoch, bytes)."""
    parts = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 1 << 18, 1)]
    for time_ns, data in packets:
        parts += struct.pack("<IIII", *divmod(time_ns, 1_000_000_000), len(data), len(data)), data
    return b"".join(parts)
