"""Results of decoding headers: a TCP segment, an encapsulated packet, a fragment, or the reason why there is none."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

Tcp = tuple[bytes, int, int, int, int, bytes, int, int, bytes]
"""(flow key, sequence, acknowledgment, flags, window, payload, missing, identification, options), as in a `Segment`."""


class Encapsulated(NamedTuple):
    """Packet inside a tunnel."""

    ethertype: int
    """Type of its first header; TRANSPARENT_ETHERNET is an Ethernet header."""
    start: int
    end: int
    """Position after its last byte on the wire, possibly beyond the captured bytes."""


class Fragment(NamedTuple):
    """Fragment of the payload of an IP packet."""

    key: bytes
    """Key shared by the fragments of one packet: addresses and identification, for IPv4 also the protocol."""
    addresses: bytes
    """Source and destination address as in the packet."""
    protocol: int
    """Protocol of the payload at offset 0."""
    offset: int
    """Offset in the payload, bytes."""
    last: bool
    start: int
    end: int
    """Position after its last byte, as in `Encapsulated`."""


class Reject(Enum):
    """Finding code and reason of a packet that cannot be decoded."""

    LINK_HEADER = ("packet-malformed", "link-header")
    IP_HEADER = ("packet-malformed", "ip-header")
    TCP_HEADER = ("packet-malformed", "tcp-header")
    TUNNEL_HEADER = ("packet-malformed", "tunnel-header")
    FRAGMENT = ("packet-malformed", "fragment")
    TAGS = ("nesting-too-deep", "vlan-tags")
    LABELS = ("nesting-too-deep", "mpls-labels")
    EXTENSION_HEADERS = ("nesting-too-deep", "ipv6-extension-headers")
    TUNNELS = ("nesting-too-deep", "tunnels")


HeaderResult = Tcp | Encapsulated | Fragment | Reject | None
"""Result of decoding headers; None when the packet carries no TCP, or the capture cut its headers."""

PROTOCOL_TCP = 6

ETHERTYPE_IPV4 = 0x0800
ETHERTYPE_IPV6 = 0x86DD
ETHERTYPES_VLAN = frozenset({0x8100, 0x88A8, 0x9100})
ETHERTYPES_MPLS = frozenset({0x8847, 0x8848})
ETHERTYPE_PPPOE = 0x8864
TRANSPARENT_ETHERNET = 0x6558
ETHERTYPES = frozenset({ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_PPPOE, *ETHERTYPES_VLAN, *ETHERTYPES_MPLS})
"""Ethertypes that are decoded."""


def too_short(packet: bytes, wire_bytes: int, reject: Reject) -> Reject | None:
    """Return the reason to reject a packet with an incomplete header, None when the capture cut it."""
    return None if len(packet) < wire_bytes else reject
