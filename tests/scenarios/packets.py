"""Ethernet, IPv4, IPv6 and TCP headers. The TCP checksum stays 0, as on hosts that leave it to the network card."""

from __future__ import annotations

import struct
from functools import cache
from ipaddress import ip_address

FIN = 0x01
SYN = 0x02
RST = 0x04
PSH = 0x08
ACK = 0x10

TCP_PROTOCOL = 6
ETHERTYPE_IPV4 = 0x0800
ETHERTYPE_IPV6 = 0x86DD

_TCP_HEADER = struct.Struct(">HHIIHHHH")
_IPV4_HEADER = struct.Struct(">BBHHHBBH4s4s")
_STATIONS = b"\x02\x00\x00\x00\x00\x02\x02\x00\x00\x00\x00\x01"
_ETHERTYPES = ETHERTYPE_IPV4.to_bytes(2, "big"), ETHERTYPE_IPV6.to_bytes(2, "big")


@cache
def _address(text: str) -> bytes:
    """The bytes of an address; cached, as those of a conversation are in each of its packets."""
    return ip_address(text).packed


def tcp_segment(
    source_port: int,
    destination_port: int,
    sequence: int,
    acknowledgment: int = 0,
    payload: bytes = b"",
    *,
    flags: int = ACK,
    window: int = 0xFFFF,
    options: bytes = b"",
) -> bytes:
    """A TCP header (sequence numbers taken modulo 2^32; options padded to 32 bits) and its payload."""
    if options:
        options += b"\x00" * (-len(options) % 4)
    offset_and_flags = (5 + len(options) // 4) << 12 | flags
    header = _TCP_HEADER.pack(
        source_port,
        destination_port,
        sequence & 0xFFFF_FFFF,
        acknowledgment & 0xFFFF_FFFF,
        offset_and_flags,
        window,
        0,
        0,
    )
    return header + options + payload


def _checksum(header: bytes) -> int:
    """The Internet checksum (RFC 1071) of an even number of bytes, not all 0: a sum of words with carries is one modulo 65535."""
    return 0xFFFF - (int.from_bytes(header, "big") % 0xFFFF or 0xFFFF)


def ipv4(
    source: str,
    destination: str,
    body: bytes,
    *,
    protocol: int = TCP_PROTOCOL,
    identification: int = 0,
    fragment: int = 0x4000,
    options: bytes = b"",
) -> bytes:
    """An IPv4 packet. `fragment` is the raw field: flags and offset in units of eight bytes (default: don't fragment)."""
    header_bytes = 20 + len(options)
    header = _IPV4_HEADER.pack(
        0x40 | header_bytes // 4,
        0,
        header_bytes + len(body),
        identification & 0xFFFF,
        fragment,
        64,
        protocol,
        0,
        _address(source),
        _address(destination),
    )
    header += options
    return header[:10] + _checksum(header).to_bytes(2, "big") + header[12:] + body


def ipv6(source: str, destination: str, body: bytes, *, next_header: int = TCP_PROTOCOL) -> bytes:
    """An IPv6 packet; extension headers are part of `body`, with `next_header` naming the first."""
    header = struct.pack(">IHBB", 6 << 28, len(body), next_header, 64)
    return header + _address(source) + _address(destination) + body


def ip_packet(source: str, destination: str, segment: bytes, identification: int = 0) -> bytes:
    """A TCP segment in the IP version of its addresses."""
    if len(_address(source)) == 4:
        return ipv4(source, destination, segment, identification=identification)
    return ipv6(source, destination, segment)


def ethernet(packet: bytes, *, vlan_tags: tuple[int, ...] = ()) -> bytes:
    """An Ethernet frame around an IP packet; tags (802.1Q, outermost first) if asked for."""
    tags = b"".join([struct.pack(">HH", 0x8100, tag) for tag in vlan_tags])
    return _STATIONS + tags + (_ETHERTYPES[0] if packet[0] >> 4 == 4 else _ETHERTYPES[1]) + packet
