"""Decoding of IP and TCP headers, down to the TCP segment, tunnel or fragment that a packet carries.

The hot loops of `pcap` and `pcapng` decode plain IPv4 without options themselves, with the same result, and pass the rest to this module.
IPv4: RFC 791; IPv6: RFC 8200, RFC 4302 (AH), RFC 6946 (atomic fragments); TCP: RFC 9293 section 3.1. Checksums are not verified:
network cards compute them after the capture.
"""

from __future__ import annotations

from struct import Struct

from pulsarscope.capture.link.layers import PROTOCOL_TCP, Fragment, HeaderResult, Reject, Tcp, too_short
from pulsarscope.capture.link.tunnels import IP_PROTOCOLS
from pulsarscope.model.limits import IPV6_EXTENSION_HEADERS_MAX

_MORE_FRAGMENTS = 0x2000
_FRAGMENT_OFFSET = 0x1FFF  # in units of eight bytes

_HOP_BY_HOP, _ROUTING, _FRAGMENT, _AUTHENTICATION, _DESTINATION, _MOBILITY, _HIP, _SHIM6 = 0, 43, 44, 51, 60, 135, 139, 140
_EXTENSION_HEADERS = frozenset({_HOP_BY_HOP, _ROUTING, _FRAGMENT, _AUTHENTICATION, _DESTINATION, _MOBILITY, _HIP, _SHIM6})
_IPV4_READ = frozenset({PROTOCOL_TCP, _AUTHENTICATION, *IP_PROTOCOLS})
_IPV6_READ = _IPV4_READ | _EXTENSION_HEADERS

_IPV4 = Struct(">BxHxxHxB")
_IPV6 = Struct(">BxxxHB")
_TCP = Struct(">4xIIBBH")
_IPV4_BYTES = 20
_IPV6_BYTES = 40
_TCP_BYTES = 20


def ipv4_segment(packet: bytes, start: int, wire_bytes: int) -> HeaderResult:
    """Decode the IPv4 packet at `start`; return None if it carries nothing that is decoded, or its header was not captured."""
    if len(packet) - start < _IPV4_BYTES:
        return too_short(packet, wire_bytes, Reject.IP_HEADER)
    first, total, fragment, protocol = _IPV4.unpack_from(packet, start)
    header_bytes = (first & 15) * 4
    # Total length 0: segmentation offload (TSO) of a packet larger than the field can express; the frame has its length.
    end = start + total if total else max(wire_bytes, len(packet))
    if first >> 4 != 4 or header_bytes < _IPV4_BYTES or start + header_bytes > end:
        return Reject.IP_HEADER
    if protocol not in _IPV4_READ:
        return None
    addresses = packet[start + 12 : start + 20]
    if fragment & (_MORE_FRAGMENTS | _FRAGMENT_OFFSET):
        key = addresses + packet[start + 4 : start + 6] + packet[start + 9 : start + 10]
        last = not fragment & _MORE_FRAGMENTS
        return Fragment(key, addresses, protocol, (fragment & _FRAGMENT_OFFSET) * 8, last, start + header_bytes, end)
    if protocol == PROTOCOL_TCP:
        identification = int.from_bytes(packet[start + 4 : start + 6], "big")
        return _tcp_segment(packet, addresses, start + header_bytes, end, wire_bytes, identification)
    return _upper_layer(packet, addresses, protocol, start + header_bytes, end, wire_bytes)


def ipv6_segment(packet: bytes, start: int, wire_bytes: int) -> HeaderResult:
    """Decode the IPv6 packet at `start`, like `ipv4_segment`."""
    if len(packet) - start < _IPV6_BYTES:
        return too_short(packet, wire_bytes, Reject.IP_HEADER)
    first, payload_bytes, protocol = _IPV6.unpack_from(packet, start)
    if first >> 4 != 6:
        return Reject.IP_HEADER
    position = start + _IPV6_BYTES
    # Payload length 0: a jumbogram (RFC 2675) or TSO, as with IPv4.
    end = position + payload_bytes if payload_bytes else max(wire_bytes, len(packet))
    return _upper_layer(packet, packet[start + 8 : start + 40], protocol, position, end, wire_bytes)


def joined_segment(payload: bytes, addresses: bytes, protocol: int, wire_bytes: int) -> HeaderResult:
    """Decode a payload joined from fragments, up to the first byte that was cut off; `wire_bytes` is its length on the wire."""
    return _upper_layer(payload, addresses, protocol, 0, wire_bytes, wire_bytes)


def _upper_layer(packet: bytes, addresses: bytes, protocol: int, position: int, end: int, wire_bytes: int) -> HeaderResult:
    """Decode what follows the extension headers (of IPv4 only AH), from the header of type `protocol` at `position` on."""
    for _ in range(IPV6_EXTENSION_HEADERS_MAX + 1):
        if protocol == PROTOCOL_TCP:
            return _tcp_segment(packet, addresses, position, end, wire_bytes)
        if protocol not in _EXTENSION_HEADERS:
            reader = IP_PROTOCOLS.get(protocol)
            return None if reader is None else reader(packet, position, end)
        if position + 8 > end:
            return Reject.IP_HEADER
        if position + 8 > len(packet):
            return too_short(packet, wire_bytes, Reject.IP_HEADER)
        following, length = packet[position], packet[position + 1]
        if protocol == _FRAGMENT:
            field = int.from_bytes(packet[position + 2 : position + 4], "big")
            if field & 0xFFF9:  # otherwise an atomic fragment (RFC 6946), which is complete
                key = addresses + packet[position + 4 : position + 8]
                fragment = Fragment(key, addresses, following, field & 0xFFF8, not field & 1, position + 8, end)
                return fragment if following in _IPV6_READ else None
            position += 8
        elif protocol == _AUTHENTICATION:
            position += (length + 2) * 4
        else:
            position += (length + 1) * 8
        protocol = following
    return Reject.EXTENSION_HEADERS


def _tcp_segment(packet: bytes, addresses: bytes, start: int, end: int, wire_bytes: int, identification: int = 0) -> Tcp | Reject | None:
    """Decode the TCP segment at `start` of an IP packet that ends at `end` on the wire."""
    if start + _TCP_BYTES > end:
        return Reject.TCP_HEADER
    if start + _TCP_BYTES > len(packet):
        return too_short(packet, wire_bytes, Reject.TCP_HEADER)
    sequence, acknowledgment, offset, flags, window = _TCP.unpack_from(packet, start)
    payload_start = start + (offset >> 4) * 4
    if payload_start < start + _TCP_BYTES or payload_start > end:
        return Reject.TCP_HEADER
    payload = packet[payload_start:end]
    missing = end - payload_start - len(payload)
    options = packet[start + 16 : payload_start]
    return addresses + packet[start : start + 4], sequence, acknowledgment, flags, window, payload, missing, identification, options
