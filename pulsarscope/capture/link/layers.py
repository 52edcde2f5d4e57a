"""What the readers of headers answer: a TCP segment, something further in, a fragment of it, or why there is none."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

Tcp = tuple[bytes, int, int, int, int, bytes, int]
"""(flow key, sequence, acknowledgment, flags, window, payload, missing)."""


class Encapsulated(NamedTuple):
    """A tunnel's header was read; inside is a packet of its own."""

    ethertype: int
    """What it begins with; TRANSPARENT_ETHERNET is an Ethernet header."""
    start: int
    end: int
    """On the wire: may lie beyond what was captured."""


class Fragment(NamedTuple):
    """Part of the payload of an IP packet that was sent in several."""

    key: bytes
    """The same in all fragments of one packet: addresses and identification, of IPv4 the protocol, too."""
    addresses: bytes
    """Source and destination, as they stand in the packet."""
    protocol: int
    """What begins at offset 0 of the payload."""
    offset: int
    """Of the payload, in bytes."""
    last: bool
    start: int
    end: int
    """As in `Inner`."""


class Reject(Enum):
    """Why a packet that should be readable is not: finding code and reason."""

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
"""None: the packet carries something else, or the capture cut its headers."""

PROTOCOL_TCP = 6

ETHERTYPE_IPV4 = 0x0800
ETHERTYPE_IPV6 = 0x86DD
ETHERTYPES_VLAN = frozenset({0x8100, 0x88A8, 0x9100})
ETHERTYPES_MPLS = frozenset({0x8847, 0x8848})
ETHERTYPE_PPPOE = 0x8864
TRANSPARENT_ETHERNET = 0x6558
ETHERTYPES = frozenset({ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_PPPOE, *ETHERTYPES_VLAN, *ETHERTYPES_MPLS})
"""All that an Ethernet header is followed by and that is read."""


def too_short(packet: bytes, wire_bytes: int, reject: Reject) -> Reject | None:
    """A header that is not all there: no fault of the packet if the capture cut it."""
    return None if len(packet) < wire_bytes else reject
