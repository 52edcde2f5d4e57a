"""Encapsulation in tunnels and fragmentation, byte by byte from the RFCs.

A wrapper takes the bytes of an Ethernet frame or an IP packet, depending on its name, and returns those of an IP packet or a frame.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from ipaddress import ip_address

from tests.scenarios.capture_bytes import ethernet

Wrapper = Callable[[bytes], bytes]

OUTER4 = ip_address("172.16.0.1").packed + ip_address("172.16.0.2").packed
OUTER6 = ip_address("fd99::1").packed + ip_address("fd99::2").packed


def outer4(body: bytes, protocol: int, *, identification: int = 1) -> bytes:
    """Build an IPv4 packet (RFC 791)."""
    return struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(body), identification, 0, 64, protocol, 0) + OUTER4 + body


def outer6(body: bytes, protocol: int) -> bytes:
    """Build an IPv6 packet (RFC 8200)."""
    return struct.pack(">IHBB", 6 << 28, len(body), protocol, 64) + OUTER6 + body


def ethertype_of(packet: bytes) -> int:
    return 0x0800 if packet[0] >> 4 == 4 else 0x86DD


def framed(packet: bytes) -> bytes:
    """Put an IP packet into an Ethernet frame."""
    return ethernet(packet, ethertype=ethertype_of(packet))


def udp(body: bytes, port: int) -> bytes:
    """Build a UDP datagram (RFC 768)."""
    return struct.pack(">HHHH", 49152, port, 8 + len(body), 0) + body


def gre(body: bytes, protocol: int, flags: int = 0) -> bytes:
    """Build a GRE packet (RFC 2784, 2890) with the fields of flags C, K and S."""
    options = b"".join(word for bit, word in ((0x8000, b"\x12\x34\0\0"), (0x2000, b"\0\0\0\7"), (0x1000, b"\0\0\0\1")) if flags & bit)
    return struct.pack(">HH", flags, protocol) + options + body


def pptp(body: bytes, flags: int = 0x3001) -> bytes:
    """Build a GRE packet of PPTP (RFC 2637 section 4.1) with the fields of flags S and A."""
    numbers = b"".join(word for bit, word in ((0x1000, b"\0\0\0\1"), (0x0080, b"\0\0\0\2")) if flags & bit)
    return struct.pack(">HHHH", flags, 0x880B, len(body), 99) + numbers + body


def labels(number: int, body: bytes) -> bytes:
    """Build an MPLS label stack (RFC 3032)."""
    return b"".join(struct.pack(">I", (16 + remaining) << 12 | (remaining == 1) << 8 | 64) for remaining in range(number, 0, -1)) + body


def pppoe(body: bytes) -> bytes:
    """Build a PPPoE session packet (RFC 2516 section 4)."""
    return struct.pack(">BBHH", 0x11, 0, 7, len(body)) + body


def ppp(packet: bytes, *, compressed: bool = False, address: bool = False) -> bytes:
    """Build a PPP packet (RFC 1661), with address and control (RFC 1662), or without the zero byte of the protocol."""
    protocol = b"\x21" if packet[0] >> 4 == 4 else b"\x57"
    return b"\xff\x03" * address + b"\0" * (not compressed) + protocol + packet


VXLAN = struct.pack(">BxxxI", 0x08, 42 << 8)
"""RFC 7348 section 5."""
VXLAN_GROUP_POLICY = struct.pack(">BBHI", 0x88, 0, 9, 42 << 8)
ERSPAN_II = struct.pack(">HHI", 1 << 12 | 100, 5, 3)
ERSPAN_III = struct.pack(">HHIHH", 2 << 12 | 100, 5, 99, 0, 0)
ERSPAN_III_WITH_MORE = ERSPAN_III[:-1] + b"\1" + bytes(8)


def gpe(protocol: int) -> bytes:
    """Build a VXLAN-GPE packet (draft-ietf-nvo3-vxlan-gpe-13 section 3.1)."""
    return struct.pack(">BxxBI", 0x0C, protocol, 42 << 8)


def geneve(protocol: int, options: bytes = b"") -> bytes:
    """Build a Geneve packet (RFC 8926 section 3.4)."""
    return struct.pack(">BxHI", len(options) // 4, protocol, 42 << 8) + options


FRAME_WRAPPERS: Mapping[str, Wrapper] = {
    "vxlan": lambda frame: outer4(udp(VXLAN + frame, 4789), 17),
    "vxlan-ipv6": lambda frame: outer6(udp(VXLAN + frame, 4789), 17),
    "vxlan-linux": lambda frame: outer4(udp(VXLAN + frame, 8472), 17),
    "vxlan-group-policy": lambda frame: outer4(udp(VXLAN_GROUP_POLICY + frame, 4789), 17),
    "vxlan-no-udp-length": lambda frame: outer4(udp(VXLAN + frame, 4789).replace(struct.pack(">H", 16 + len(frame)), b"\0\0", 1), 17),
    "vxlan-gpe": lambda frame: outer4(udp(gpe(3) + frame, 4790), 17),
    "vxlan-gpe-without-protocol": lambda frame: outer4(udp(VXLAN + frame, 4790), 17),
    "geneve": lambda frame: outer4(udp(geneve(0x6558) + frame, 6081), 17),
    "geneve-options": lambda frame: outer4(udp(geneve(0x6558, b"\x01\x03\x01\x01\xde\xad\xbe\xef") + frame, 6081), 17),
    "geneve-all-options": lambda frame: outer6(udp(geneve(0x6558, bytes(252)) + frame, 6081), 17),
    "gre-ethernet": lambda frame: outer4(gre(frame, 0x6558), 47),
    "nvgre": lambda frame: outer4(gre(frame, 0x6558, 0x2000), 47),
    "erspan-i": lambda frame: outer4(gre(frame, 0x88BE), 47),
    "erspan-ii": lambda frame: outer4(gre(ERSPAN_II + frame, 0x88BE, 0x1000), 47),
    "erspan-iii": lambda frame: outer4(gre(ERSPAN_III + frame, 0x22EB, 0x1000), 47),
    "erspan-iii-subheader": lambda frame: outer4(gre(ERSPAN_III_WITH_MORE + frame, 0x22EB, 0x1000), 47),
    "etherip": lambda frame: outer4(b"\x30\x00" + frame, 97),
    "mpls-in-gre-control-word": lambda frame: outer4(gre(labels(1, bytes(4) + frame), 0x8847), 47),
    "mpls-in-ip-pseudowire": lambda frame: outer4(labels(2, b"\0\0\0\x09" + frame), 137),
    "mpls-in-udp-pseudowire": lambda frame: outer4(udp(labels(1, frame), 6635), 17),
}
"""An Ethernet frame in an IP packet."""

PACKET_WRAPPERS: Mapping[str, Wrapper] = {
    "ip-in-ipv4": lambda packet: outer4(packet, 4 if packet[0] >> 4 == 4 else 41),
    "ip-in-ipv6": lambda packet: outer6(packet, 4 if packet[0] >> 4 == 4 else 41),
    "ip-in-ipv6-options": lambda packet: outer6(bytes([4 if packet[0] >> 4 == 4 else 41, 0, 4, 1, 4, 1, 1, 0]) + packet, 60),
    "gre": lambda packet: outer4(gre(packet, ethertype_of(packet)), 47),
    "gre-ipv6": lambda packet: outer6(gre(packet, ethertype_of(packet)), 47),
    "gre-key": lambda packet: outer4(gre(packet, ethertype_of(packet), 0x2000), 47),
    "gre-checksum-key-sequence": lambda packet: outer4(gre(packet, ethertype_of(packet), 0xB000), 47),
    "gre-ppp": lambda packet: outer4(gre(ppp(packet), 0x880B), 47),
    "pptp": lambda packet: outer4(pptp(ppp(packet)), 47),
    "pptp-acknowledgment": lambda packet: outer4(pptp(ppp(packet, compressed=True, address=True), 0x3081), 47),
    "vxlan-gpe-ip": lambda packet: outer4(udp(gpe(1 if packet[0] >> 4 == 4 else 2) + packet, 4790), 17),
    "vxlan-gpe-mpls": lambda packet: outer4(udp(gpe(5) + labels(1, packet), 4790), 17),
    "geneve-ip": lambda packet: outer4(udp(geneve(ethertype_of(packet)) + packet, 6081), 17),
    "mpls-in-ip": lambda packet: outer4(labels(1, packet), 137),
    "mpls-in-udp": lambda packet: outer6(udp(labels(3, packet), 6635), 17),
    "mpls-in-gre": lambda packet: outer4(gre(labels(2, packet), 0x8848), 47),
}
"""An IP packet in another one."""

LINK_WRAPPERS: Mapping[str, Wrapper] = {
    "mpls": lambda packet: ethernet(labels(1, packet), ethertype=0x8847),
    "mpls-many": lambda packet: ethernet(labels(16, packet), ethertype=0x8848),
    "mpls-vlan": lambda packet: ethernet(labels(2, packet), ethertype=0x8847, tags=[0x88A8, 0x8100]),
    "mpls-control-word": lambda packet: ethernet(labels(1, bytes(4) + framed(packet)), ethertype=0x8847),
    "mpls-no-control-word": lambda packet: ethernet(labels(1, framed(packet)), ethertype=0x8847),
    "mpls-address-like-ipv4": lambda packet: ethernet(labels(1, b"\x45\x6a\x7d\xc0\x3f\xd7" + framed(packet)[6:]), ethertype=0x8847),
    "mpls-address-like-ipv6": lambda packet: ethernet(labels(1, b"\x60\x6a\x7d\xc0\x3f\xd7" + framed(packet)[6:]), ethertype=0x8847),
    "pppoe": lambda packet: ethernet(pppoe(ppp(packet)), ethertype=0x8864),
    "pppoe-compressed": lambda packet: ethernet(pppoe(ppp(packet, compressed=True)), ethertype=0x8864),
    "pppoe-vlan": lambda packet: ethernet(pppoe(ppp(packet)), ethertype=0x8864, tags=[0x8100]) + bytes(6),
    "ppp-mpls": lambda packet: ethernet(pppoe(b"\x02\x81" + labels(1, packet)), ethertype=0x8864),
    "plain": framed,
    "vlan": lambda packet: ethernet(packet, ethertype=ethertype_of(packet), tags=[0x8100]),
}
"""An IP packet in an Ethernet frame."""


def fragments4(packet: bytes, sizes: list[int], *, identification: int = 7) -> list[bytes]:
    """Split an IPv4 packet with a 20-byte header into fragments of these payload sizes; the last one has the rest."""
    fragments: list[bytes] = []
    body, start = packet[20:], 0
    while start < len(body):
        size = sizes[len(fragments)] if len(fragments) < len(sizes) else len(body)
        part = body[start : start + size]
        field = start >> 3 | (start + size < len(body)) << 13
        fragments.append(packet[:2] + struct.pack(">HHH", 20 + len(part), identification, field) + packet[8:20] + part)
        start += size
    return fragments


def fragments6(packet: bytes, sizes: list[int], *, identification: int = 7) -> list[bytes]:
    """Split an IPv6 packet after its header, like `fragments4`."""
    fragments: list[bytes] = []
    body, start = packet[40:], 0
    while start < len(body):
        size = sizes[len(fragments)] if len(fragments) < len(sizes) else len(body)
        part = body[start : start + size]
        header = struct.pack(">BBHI", packet[6], 0, start | (start + size < len(body)), identification)
        fragments.append(packet[:4] + struct.pack(">HB", 8 + len(part), 44) + packet[7:40] + header + part)
        start += size
    return fragments


def fragments(packet: bytes, size: int, *, identification: int = 7) -> list[bytes]:
    """Split an IP packet into fragments of `size` bytes, a multiple of eight."""
    cut = fragments4 if packet[0] >> 4 == 4 else fragments6
    return cut(packet, [size] * (len(packet) // size + 1), identification=identification)
