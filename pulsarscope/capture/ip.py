"""IP and TCP headers, any of them: from the first byte of an IP header to the TCP segment it carries.

The hot loops of `pcap` and `pcapng` take plain IPv4 without options by themselves and give the rest to this module; on what both
read they agree. IPv4: RFC 791; IPv6: RFC 8200, RFC 4302 (AH), RFC 6946 (atomic fragments); TCP: RFC 9293 §3.1.
Checksums are not looked at: network cards compute them after the capture.
"""

from __future__ import annotations

from enum import Enum
from struct import Struct

from pulsarscope.limits import IPV6_EXTENSION_HEADERS_MAX

Tcp = tuple[bytes, int, int, int, int, bytes, int]
"""(flow key, sequence, acknowledgment, flags, window, payload, missing)."""


class Reject(Enum):
    """Why a packet that should be readable is not: finding code and reason."""

    LINK_HEADER = ("packet-malformed", "link-header")
    IP_HEADER = ("packet-malformed", "ip-header")
    TCP_HEADER = ("packet-malformed", "tcp-header")
    TAGS = ("nesting-too-deep", "vlan-tags")
    EXTENSION_HEADERS = ("nesting-too-deep", "ipv6-extension-headers")
    FRAGMENT_IPV4 = ("fragment-incomplete", "ipv4")
    FRAGMENT_IPV6 = ("fragment-incomplete", "ipv6")


PROTOCOL_TCP = 6
_FRAGMENT_BITS = 0x3FFF  # more fragments, and the offset; not "don't fragment"

_HOP_BY_HOP, _ROUTING, _FRAGMENT, _AUTHENTICATION, _DESTINATION, _MOBILITY, _HIP, _SHIM6 = (
    0,
    43,
    44,
    51,
    60,
    135,
    139,
    140,
)
_EXTENSION_HEADERS = frozenset({_HOP_BY_HOP, _ROUTING, _FRAGMENT, _AUTHENTICATION, _DESTINATION, _MOBILITY, _HIP, _SHIM6})

_IPV4 = Struct(">BxHxxHxB")
_IPV6 = Struct(">BxxxHB")
_TCP = Struct(">4xIIBBH")
_IPV4_BYTES = 20
_IPV6_BYTES = 40
_TCP_BYTES = 20


def ipv4_segment(packet: bytes, start: int, wire_bytes: int) -> Tcp | Reject | None:
    """The TCP segment of the IPv4 packet at `start`; None when it carries something else or its header was not captured.

    Args:
        packet: a whole link-layer frame, as far as captured.
        start: position of the IPv4 header.
        wire_bytes: length of the frame on the wire.
    """
    if len(packet) - start < _IPV4_BYTES:
        return _short(packet, wire_bytes, Reject.IP_HEADER)
    first, total, fragment, protocol = _IPV4.unpack_from(packet, start)
    header_bytes = (first & 15) * 4
    # Total length 0: the card segments a packet larger than the field can say (TSO), the frame tells its length.
    end = start + total if total else max(wire_bytes, len(packet))
    if first >> 4 != 4 or header_bytes < _IPV4_BYTES or start + header_bytes > end:
        return Reject.IP_HEADER
    if protocol != PROTOCOL_TCP:
        return None
    if fragment & _FRAGMENT_BITS:
        return Reject.FRAGMENT_IPV4
    return _tcp_segment(packet, packet[start + 12 : start + 20], start + header_bytes, end, wire_bytes)


def ipv6_segment(packet: bytes, start: int, wire_bytes: int) -> Tcp | Reject | None:
    """As `ipv4_segment`, for the IPv6 packet at `start`."""
    if len(packet) - start < _IPV6_BYTES:
        return _short(packet, wire_bytes, Reject.IP_HEADER)
    first, payload_bytes, protocol = _IPV6.unpack_from(packet, start)
    if first >> 4 != 6:
        return Reject.IP_HEADER
    position = start + _IPV6_BYTES
    # Payload length 0: a jumbogram (RFC 2675) or TSO, as with IPv4.
    end = position + payload_bytes if payload_bytes else max(wire_bytes, len(packet))
    for _ in range(IPV6_EXTENSION_HEADERS_MAX + 1):
        if protocol == PROTOCOL_TCP:
            return _tcp_segment(packet, packet[start + 8 : start + 40], position, end, wire_bytes)
        if protocol not in _EXTENSION_HEADERS:
            return None
        if position + 8 > end:
            return Reject.IP_HEADER
        if position + 8 > len(packet):
            return _short(packet, wire_bytes, Reject.IP_HEADER)
        following, length = packet[position], packet[position + 1]
        if protocol == _FRAGMENT:
            if int.from_bytes(packet[position + 2 : position + 4], "big") & 0xFFF9:
                return Reject.FRAGMENT_IPV6 if following == PROTOCOL_TCP or following in _EXTENSION_HEADERS else None
            position += 8
        elif protocol == _AUTHENTICATION:
            position += (length + 2) * 4
        else:
            position += (length + 1) * 8
        protocol = following
    return Reject.EXTENSION_HEADERS


def _tcp_segment(packet: bytes, addresses: bytes, start: int, end: int, wire_bytes: int) -> Tcp | Reject | None:
    """The TCP segment at `start` of an IP packet that says it ends at `end`, which may lie beyond what was captured."""
    if start + _TCP_BYTES > end:
        return Reject.TCP_HEADER
    if start + _TCP_BYTES > len(packet):
        return _short(packet, wire_bytes, Reject.TCP_HEADER)
    sequence, acknowledgment, offset, flags, window = _TCP.unpack_from(packet, start)
    payload_start = start + (offset >> 4) * 4
    if payload_start < start + _TCP_BYTES or payload_start > end:
        return Reject.TCP_HEADER
    payload = packet[payload_start:end]
    missing = end - payload_start - len(payload)
    return addresses + packet[start : start + 4], sequence, acknowledgment, flags, window, payload, missing


def _short(packet: bytes, wire_bytes: int, reject: Reject) -> Reject | None:
    """A header that is not all there: no fault of the packet if the capture cut it."""
    return None if len(packet) < wire_bytes else reject
