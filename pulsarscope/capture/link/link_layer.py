"""Decoding of link layers, from the first byte of a captured frame to its IP header or the header of a tunnel.

Link types: https://www.ietf.org/archive/id/draft-ietf-opsawg-pcaplinktype-08.html; VLAN tags: IEEE 802.1Q.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pulsarscope.capture.link.ip import ipv4_segment, ipv6_segment
from pulsarscope.capture.link.layers import (
    ETHERTYPE_IPV4,
    ETHERTYPE_IPV6,
    ETHERTYPE_PPPOE,
    ETHERTYPES_MPLS,
    ETHERTYPES_VLAN,
    TRANSPARENT_ETHERNET,
    HeaderResult,
    Reject,
    too_short,
)
from pulsarscope.capture.link.tunnels import mpls, ppp, pppoe
from pulsarscope.model.limits import VLAN_TAGS_MAX

NULL = 0
ETHERNET = 1
PPP = (9, 50)
CISCO_HDLC = 104
LOOP = 108
LINUX_SLL = 113
IPV4 = 228
IPV6 = 229
LINUX_SLL2 = 276
RAW = (12, 14, 101)

NAMES: Mapping[int, str] = {
    51: "PPPoE",
    105: "802.11",
    107: "frame relay",
    127: "802.11 with radiotap",
    147: "user 0",
    189: "USB",
    195: "802.15.4",
    197: "ERF",
    220: "USB",
    239: "netfilter log",
    249: "USB",
    253: "netlink",
    258: "pktap",
}
"""Names of common link types that are not decoded."""


_SEVERAL = ("", "any")
"""Names that do not identify the interface."""


def interface_of(packet: bytes, link_type: int, name: str) -> str:
    """Return the interface of a packet captured at `name`; packets captured at Linux's "any" carry an index of their own."""
    if link_type != LINUX_SLL2 or len(packet) < 8 or (name not in _SEVERAL and " " not in name):  # Linux names have no spaces
        return name
    return f"{name} ifindex {int.from_bytes(packet[4:8], 'big')}".lstrip()


FAMILY_IPV4 = 2
FAMILIES_IPV6 = frozenset({10, 24, 28, 30})
"""AF_INET6 on Linux, on NetBSD and OpenBSD, on FreeBSD, and on macOS; AF_INET is 2 everywhere."""

_ETHERNET_BYTES = 14


def by_ethertype(packet: bytes, ethertype: int, start: int, wire_bytes: int) -> HeaderResult:
    """Decode the header at `start` by its ethertype; TRANSPARENT_ETHERNET stands for an Ethernet header."""
    if ethertype == TRANSPARENT_ETHERNET:
        if start + _ETHERNET_BYTES > len(packet):
            return too_short(packet, wire_bytes, Reject.LINK_HEADER)
        ethertype = packet[start + 12] << 8 | packet[start + 13]
        start += _ETHERNET_BYTES
    tags = 0
    while ethertype in ETHERTYPES_VLAN:
        tags += 1
        if tags > VLAN_TAGS_MAX:
            return Reject.TAGS
        if start + 4 > len(packet):
            return too_short(packet, wire_bytes, Reject.LINK_HEADER)
        ethertype = packet[start + 2] << 8 | packet[start + 3]
        start += 4
    if ethertype == ETHERTYPE_IPV4:
        return ipv4_segment(packet, start, wire_bytes)
    if ethertype == ETHERTYPE_IPV6:
        return ipv6_segment(packet, start, wire_bytes)
    if ethertype in ETHERTYPES_MPLS:
        return mpls(packet, start, wire_bytes)
    return pppoe(packet, start, wire_bytes) if ethertype == ETHERTYPE_PPPOE else None


def _by_family(packet: bytes, family: int, wire_bytes: int) -> HeaderResult:
    if family == FAMILY_IPV4:
        return ipv4_segment(packet, 4, wire_bytes)
    if family in FAMILIES_IPV6:
        return ipv6_segment(packet, 4, wire_bytes)
    return None


def _ethernet(packet: bytes, wire_bytes: int) -> HeaderResult:
    return by_ethertype(packet, packet[12] << 8 | packet[13], _ETHERNET_BYTES, wire_bytes)


def _ppp(packet: bytes, wire_bytes: int) -> HeaderResult:
    return ppp(packet, 0, wire_bytes)


def _cisco_hdlc(packet: bytes, wire_bytes: int) -> HeaderResult:
    return by_ethertype(packet, packet[2] << 8 | packet[3], 4, wire_bytes)


def _linux_sll(packet: bytes, wire_bytes: int) -> HeaderResult:
    return by_ethertype(packet, packet[14] << 8 | packet[15], 16, wire_bytes)


def _linux_sll2(packet: bytes, wire_bytes: int) -> HeaderResult:
    return by_ethertype(packet, packet[0] << 8 | packet[1], 20, wire_bytes)


def _null(packet: bytes, wire_bytes: int) -> HeaderResult:
    """Decode a loopback frame; its family is in the unknown byte order of the capturing host, so the smaller value is taken."""
    little = int.from_bytes(packet[:4], "little")
    return _by_family(packet, little if little < 0x10000 else int.from_bytes(packet[:4], "big"), wire_bytes)


def _loop(packet: bytes, wire_bytes: int) -> HeaderResult:
    return _by_family(packet, int.from_bytes(packet[:4], "big"), wire_bytes)


def _raw(packet: bytes, wire_bytes: int) -> HeaderResult:
    version = packet[0] >> 4
    if version == 4:
        return ipv4_segment(packet, 0, wire_bytes)
    if version == 6:
        return ipv6_segment(packet, 0, wire_bytes)
    return Reject.IP_HEADER


def _ipv4(packet: bytes, wire_bytes: int) -> HeaderResult:
    return ipv4_segment(packet, 0, wire_bytes)


def _ipv6(packet: bytes, wire_bytes: int) -> HeaderResult:
    return ipv6_segment(packet, 0, wire_bytes)


_LINKS: Mapping[int, tuple[int, Callable[[bytes, int], HeaderResult]]] = {
    NULL: (4, _null),
    ETHERNET: (_ETHERNET_BYTES, _ethernet),
    CISCO_HDLC: (4, _cisco_hdlc),
    LOOP: (4, _loop),
    LINUX_SLL: (16, _linux_sll),
    IPV4: (1, _ipv4),
    IPV6: (1, _ipv6),
    LINUX_SLL2: (20, _linux_sll2),
    **dict.fromkeys(PPP, (1, _ppp)),
    **dict.fromkeys(RAW, (1, _raw)),
}
"""Header size in bytes and decoding function by link type; the function may rely on a complete header."""


def is_supported(link_type: int) -> bool:
    """Return True when packets of this link type can be decoded."""
    return link_type in _LINKS


def tcp_segment(packet: bytes, link_type: int, wire_bytes: int) -> HeaderResult:
    """Decode the headers of a captured frame. Raises KeyError when the link type is not supported."""
    header_bytes, network = _LINKS[link_type]
    if len(packet) < header_bytes:
        return too_short(packet, wire_bytes, Reject.LINK_HEADER)
    return network(packet, wire_bytes)
