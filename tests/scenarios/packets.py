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
    options += b"\x00" * (-len(options) % 4)
    offset_and_flags = (5 + len(options) // 4) << 12 | flags
    header = struct.pack(
        ">HHIIHHHH",
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
    """The Internet checksum (RFC 1071) of an even number of bytes."""
    total: int = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


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
    header = struct.pack(
        ">BBHHHBBH4s4s",
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
    return header[:10] + struct.pack(">H", _checksum(header)) + header[12:] + body


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
    ethertype = ETHERTYPE_IPV4 if packet[0] >> 4 == 4 else ETHERTYPE_IPV6
    tags = b"".join(struct.pack(">HH", 0x8100, tag) for tag in vlan_tags)
    return b"\x02\x00\x00\x00\x00\x02\x02\x00\x00\x00\x00\x01" + tags + struct.pack(">H", ethertype) + packet
