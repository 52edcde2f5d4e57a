"""Decoding of tunnel headers, with one function of type `Reader` for each.

GRE: RFC 2784, 2890, PPTP's 2637; ERSPAN: draft-foschiano-erspan-03; VXLAN: RFC 7348, its group policy and GPE drafts; Geneve: RFC 8926;
MPLS: RFC 3032, 4023, 7510, pseudowires 4385, 4448; IP in IP: RFC 2003, 2473, 4213; EtherIP: RFC 3378; PPP: RFC 1661, 2516 (PPPoE).

Addresses and identifiers of tunnels (network identifiers, keys, labels) are not part of flow keys: routers change them on the way, and
many tunnels use different ones in each direction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pulsarscope.capture.link.layers import (
    ETHERTYPE_IPV4,
    ETHERTYPE_IPV6,
    ETHERTYPES,
    TRANSPARENT_ETHERNET,
    Encapsulated,
    Reject,
    too_short,
)
from pulsarscope.model.limits import MPLS_LABELS_MAX

Reader = Callable[[bytes, int, int], Encapsulated | Reject | None]
"""Function of packet, start of the tunnel header, and end of its payload on the wire; returns None for content that is not decoded."""

_MPLS = 0x8847
_ERSPAN, _ERSPAN_III = 0x88BE, 0x22EB
_PPP = 0x880B

_GRE_CHECKSUM, _GRE_ROUTING, _GRE_KEY, _GRE_SEQUENCE, _GRE_ACKNOWLEDGMENT = 0x8000, 0x4000, 0x2000, 0x1000, 0x0080

_UDP_BYTES = 8
_VXLAN_BYTES = 8
_GENEVE_BYTES = 8


def mpls(packet: bytes, start: int, end: int) -> Encapsulated | Reject | None:
    """Decode a label stack; its content is recognised by the first bytes, as IP or as Ethernet with or without a control word."""
    for position in range(start, start + 4 * MPLS_LABELS_MAX, 4):
        if position + 4 > min(len(packet), end):
            return too_short(packet, end, Reject.TUNNEL_HEADER)
        if packet[position + 2] & 1:
            return _pseudowire(packet, position + 4, end)
    return Reject.LABELS


def _pseudowire(packet: bytes, start: int, end: int) -> Encapsulated | Reject | None:
    if start >= min(len(packet), end):
        return too_short(packet, end, Reject.TUNNEL_HEADER)
    nibble = packet[start] >> 4
    if nibble == 0 and _is_ethernet(packet, start + 4):  # control word (RFC 4385 section 3)
        return Encapsulated(TRANSPARENT_ETHERNET, start + 4, end)
    ethertype = {4: ETHERTYPE_IPV4, 6: ETHERTYPE_IPV6}.get(nibble)
    if _is_ethernet(packet, start) and not (ethertype and _fits(packet, start, end)):
        return Encapsulated(TRANSPARENT_ETHERNET, start, end)
    return None if ethertype is None else Encapsulated(ethertype, start, end)


def _is_ethernet(packet: bytes, start: int) -> bool:
    """Return True when a known ethertype stands at its place in an Ethernet header."""
    return int.from_bytes(packet[start + 12 : start + 14], "big") in ETHERTYPES


def _fits(packet: bytes, start: int, end: int) -> bool:
    """Return True when the length in an IP header is plausible: its addresses may look like an ethertype."""
    if packet[start] >> 4 == 4:
        return 20 <= int.from_bytes(packet[start + 2 : start + 4], "big") <= end - start
    return int.from_bytes(packet[start + 4 : start + 6], "big") + 40 <= end - start


def pppoe(packet: bytes, start: int, end: int) -> Encapsulated | Reject | None:
    """Decode a PPPoE session packet (RFC 2516 section 4)."""
    if start + 6 > min(len(packet), end):
        return too_short(packet, end, Reject.TUNNEL_HEADER)
    if packet[start] != 0x11 or packet[start + 1]:
        return Reject.TUNNEL_HEADER
    length = int.from_bytes(packet[start + 4 : start + 6], "big")
    return ppp(packet, start + 6, min(end, start + 6 + length))


def ppp(packet: bytes, start: int, end: int) -> Encapsulated | Reject | None:
    """Decode a PPP packet; address and control (RFC 1662) and the leading zero byte of its protocol are optional."""
    if packet.startswith(b"\xff\x03", start):
        start += 2
    header_bytes = 2 - (packet[start] & 1) if start < len(packet) else 2
    if start + header_bytes > min(len(packet), end):
        return too_short(packet, end, Reject.TUNNEL_HEADER)
    ethertype = _PPP_PROTOCOLS.get(int.from_bytes(packet[start : start + header_bytes], "big"))
    return None if ethertype is None else Encapsulated(ethertype, start + header_bytes, end)


_PPP_PROTOCOLS: Mapping[int, int] = {0x0021: ETHERTYPE_IPV4, 0x0057: ETHERTYPE_IPV6, 0x0281: _MPLS, 0x0283: _MPLS}


def _gre(packet: bytes, start: int, end: int) -> Encapsulated | Reject | None:
    if start + 4 > min(len(packet), end):
        return too_short(packet, end, Reject.TUNNEL_HEADER)
    flags = int.from_bytes(packet[start : start + 2], "big")
    protocol = int.from_bytes(packet[start + 2 : start + 4], "big")
    version = flags & 7
    if version > 1 or flags & _GRE_ROUTING:
        return Reject.TUNNEL_HEADER
    options = flags & (_GRE_CHECKSUM | _GRE_KEY | _GRE_SEQUENCE | (_GRE_ACKNOWLEDGMENT if version else 0))
    inner = start + 4 + 4 * options.bit_count()
    if inner > min(len(packet), end):
        return too_short(packet, end, Reject.TUNNEL_HEADER)
    if version:
        return _pptp(packet, start, inner, end) if protocol == _PPP and flags & _GRE_KEY else Reject.TUNNEL_HEADER
    if protocol == _ERSPAN:
        # Type I has no header of its own; type II has a sequence number.
        return _ethernet_at(packet, inner + 8 if flags & _GRE_SEQUENCE else inner, end)
    if protocol == _ERSPAN_III:
        return _erspan_iii(packet, inner, end)
    return ppp(packet, inner, end) if protocol == _PPP else _by_ethertype(protocol, inner, end)


def _pptp(packet: bytes, start: int, inner: int, end: int) -> Encapsulated | Reject | None:
    """Decode the GRE payload of PPTP, whose length is in the key; a bare acknowledgment has none."""
    length = int.from_bytes(packet[start + 4 : start + 6], "big")
    return ppp(packet, inner, min(end, inner + length)) if length else None


def _erspan_iii(packet: bytes, start: int, end: int) -> Encapsulated | Reject | None:
    if start + 12 > min(len(packet), end):
        return too_short(packet, end, Reject.TUNNEL_HEADER)
    if packet[start + 10] >> 2 & 31:  # frame type: not Ethernet
        return None
    return _ethernet_at(packet, start + 20 if packet[start + 11] & 1 else start + 12, end)


def _ethernet_at(packet: bytes, start: int, end: int) -> Encapsulated | Reject | None:
    """Return the Ethernet frame at `start`, after a header that must be complete but is not evaluated."""
    return (
        Encapsulated(TRANSPARENT_ETHERNET, start, end) if start <= min(len(packet), end) else too_short(packet, end, Reject.TUNNEL_HEADER)
    )


def _by_ethertype(ethertype: int, start: int, end: int) -> Encapsulated | None:
    return Encapsulated(ethertype, start, end) if ethertype == TRANSPARENT_ETHERNET or ethertype in ETHERTYPES else None


def _ether_ip(packet: bytes, start: int, end: int) -> Encapsulated | Reject | None:
    return _ethernet_at(packet, start + 2, end)


def _ipv4(_packet: bytes, start: int, end: int) -> Encapsulated:
    return Encapsulated(ETHERTYPE_IPV4, start, end)


def _ipv6(_packet: bytes, start: int, end: int) -> Encapsulated:
    return Encapsulated(ETHERTYPE_IPV6, start, end)


def _udp(packet: bytes, start: int, end: int) -> Encapsulated | Reject | None:
    if start + _UDP_BYTES > min(len(packet), end):
        return None
    if (reader := _UDP_PORTS.get(packet[start + 2] << 8 | packet[start + 3])) is None:
        return None
    length = packet[start + 4] << 8 | packet[start + 5]
    return reader(packet, start + _UDP_BYTES, min(end, start + length) if length else end)


# Other UDP traffic may use the port of a tunnel: a packet without a valid tunnel header is ignored.


def _vxlan(packet: bytes, start: int, end: int) -> Encapsulated | Reject | None:
    if start + _VXLAN_BYTES > min(len(packet), end):
        return None
    return Encapsulated(TRANSPARENT_ETHERNET, start + _VXLAN_BYTES, end) if packet[start] & 0x08 else None


def _vxlan_gpe(packet: bytes, start: int, end: int) -> Encapsulated | Reject | None:
    if start + _VXLAN_BYTES > min(len(packet), end) or not packet[start] & 0x08:
        return None
    ethertype = _GPE_PROTOCOLS.get(packet[start + 3]) if packet[start] & 0x04 else TRANSPARENT_ETHERNET
    return None if ethertype is None else Encapsulated(ethertype, start + _VXLAN_BYTES, end)


_GPE_PROTOCOLS: Mapping[int, int] = {1: ETHERTYPE_IPV4, 2: ETHERTYPE_IPV6, 3: TRANSPARENT_ETHERNET, 5: _MPLS}


def _geneve(packet: bytes, start: int, end: int) -> Encapsulated | Reject | None:
    if start + _GENEVE_BYTES > min(len(packet), end) or packet[start] >> 6:
        return None
    inner = start + _GENEVE_BYTES + (packet[start] & 0x3F) * 4
    if inner > min(len(packet), end):
        return too_short(packet, end, Reject.TUNNEL_HEADER)
    return _by_ethertype(packet[start + 2] << 8 | packet[start + 3], inner, end)


_UDP_PORTS: Mapping[int, Reader] = {4789: _vxlan, 8472: _vxlan, 4790: _vxlan_gpe, 6081: _geneve, 6635: mpls}
"""Tunnels by UDP destination port; Linux and flannel use 8472 for VXLAN."""

PROTOCOL_UDP = 17

IP_PROTOCOLS: Mapping[int, Reader] = {4: _ipv4, PROTOCOL_UDP: _udp, 41: _ipv6, 47: _gre, 97: _ether_ip, 137: mpls}
"""Tunnels by the protocol in the IP header."""


def is_tunnel(udp: bytes) -> bool:
    """Return True when a UDP datagram is sent to the port of a tunnel."""
    return int.from_bytes(udp[2:4], "big") in _UDP_PORTS
