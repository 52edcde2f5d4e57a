"""Packets built anew for TCP segments: only numbers and flags of the old packet are copied.

IPv4: RFC 791; IPv6: RFC 8200; TCP: RFC 9293 section 3.1.
"""

from __future__ import annotations

from struct import Struct
from sys import byteorder
from typing import TYPE_CHECKING, NamedTuple

from pulsarscope.model.flow import without_source

if TYPE_CHECKING:
    from pulsarscope.model.masked_names import MaskedNames

LINK_TYPE_RAW = 101
"""Packets begin with the IP header, as registered for pcap."""

_IPV4, _IPV6, _TCP = Struct(">BBHHHBBH"), Struct(">IHBB"), Struct(">IIBBHHH")
_TIME_TO_LIVE = 64
_PROTOCOL_TCP = 6

_OPTIONS = {2: {4}, 3: {3}, 4: {2}, 5: {10, 18, 26, 34}, 8: {10}}
"""Sizes of maximum segment size, window scale, SACK permitted, SACK, timestamps (RFC 9293, 7323, 2018). Others may hold secrets."""


class SegmentHead(NamedTuple):
    """The numbers of a TCP segment and of the IP header before it."""

    key: bytes
    """Flow key: source and destination addresses and ports."""
    sequence: int
    acknowledgment: int
    flags: int
    window: int
    missing: int
    """Bytes of the payload that the capture cut off."""
    identification: int
    """Identification in the IPv4 header."""
    options: bytes
    """The TCP options."""


def redacted_packet(head: SegmentHead, payload: bytes, names: MaskedNames) -> tuple[bytes, int]:
    """Return a packet of link type `LINK_TYPE_RAW`, with its addresses masked, and its length before the capture cut it."""
    key = without_source(head.key)
    width = (len(key) - 4) // 2
    addresses = names.address(key[:width]) + names.address(key[width : 2 * width])
    return _packet(head._replace(key=key), payload, addresses, _known_options(head.options))


def plain_packet(head: SegmentHead, payload: bytes) -> bytes:
    """Return a packet of link type `LINK_TYPE_RAW` with a payload, without masking."""
    width = (len(head.key) - 4) // 2
    return _packet(head, payload, head.key[: 2 * width], head.options)[0]


def _packet(head: SegmentHead, payload: bytes, addresses: bytes, options: bytes) -> tuple[bytes, int]:
    key, sequence, acknowledgment, flags, window, missing, identification, _ = head
    width = len(addresses) // 2
    length = 20 + len(options) + len(payload)
    tcp = key[-4:] + _TCP.pack(sequence, acknowledgment, (20 + len(options)) << 2, flags, window, 0, 0) + options
    wire = length + missing
    if width == 4:
        ip = _IPV4.pack(0x45, 0, (20 + wire) if 20 + wire <= 0xFFFF else 0, identification, 0, _TIME_TO_LIVE, _PROTOCOL_TCP, 0) + addresses
        ip = ip[:10] + _checksum(ip).to_bytes(2, "big") + ip[12:]
    else:
        ip = _IPV6.pack(6 << 28, wire if wire <= 0xFFFF else 0, _PROTOCOL_TCP, _TIME_TO_LIVE) + addresses
    if not missing:
        pseudo = addresses + wire.to_bytes(4, "big") + _PROTOCOL_TCP.to_bytes(4, "big")
        tcp = tcp[:16] + _checksum(pseudo + tcp + payload).to_bytes(2, "big") + tcp[18:]
    return ip + tcp + payload, len(ip) + wire


def _known_options(options: bytes) -> bytes:
    """Return TCP options with unknown ones replaced by no-operations."""
    out = bytearray(b"\1" * len(options))
    position = 0
    while position < len(options):
        kind = options[position]
        if kind == 0:
            out[position:] = bytes(len(options) - position)
            break
        size = 1 if kind == 1 else options[position + 1] if position + 1 < len(options) else 0
        if size < 1 or position + size > len(options) or (kind != 1 and size < 2):
            break
        if size in _OPTIONS.get(kind, ()):
            out[position : position + size] = options[position : position + size]
        position += size
    return bytes(out)


def _checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071)."""
    total = sum(memoryview(data + bytes(len(data) & 1)).cast("H")) if data else 0
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    total = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    return int.from_bytes(total.to_bytes(2, byteorder), "big")
