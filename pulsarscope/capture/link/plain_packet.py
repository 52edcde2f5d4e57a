"""Where the hot loops find things: per link type, one unpack that gives all of a plain IPv4 TCP packet.

Plain is: no tags, an IPv4 header of 20 bytes, no fragment, captured whole. Everything else goes through `link` and `ip`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from struct import Struct
from typing import Any, NamedTuple

from pulsarscope.capture.link import link_layer as link
from pulsarscope.capture.link.layers import ETHERTYPE_IPV4

_IPV4_AND_TCP = "BxHxxI2x12sIIBBH"
UNFRAGMENTED_MASK, UNFRAGMENTED_TCP = 0x3FFF_00FF, 6
"""What fragment field, time to live and protocol, one number, say of a packet of TCP that is no fragment."""

_UNREACHABLE = 1 << 40  # a payload that starts here lies beyond every end


SHAPES_MAX = 4096
"""Shapes that are remembered: packets of most captures have a few dozen lengths."""

Shape = tuple[int, int, Callable[..., tuple[Any, ...]]]
"""Total length and data offset that packets of one captured length have, and an unpack that gives what that of the layout gives, and the
payload of such a packet: to cut it out by itself takes a tenth of the hot loop. It fails where the data end within the packet."""


class Layout(NamedTuple):
    """How a plain packet of one link type looks.

    `unpack` gives (marker, version and header length, total length, what to compare with WHOLE_TCP, flow key, sequence, acknowledgment,
    data offset, flags, window); the packet is IPv4 if the marker equals `marker`.
    """

    link_bytes: int
    minimum: int
    """Bytes of the three headers."""
    marker: int | bytes
    unpack: Callable[..., tuple[Any, ...]]
    payload_starts: tuple[int, ...]
    """Start of the payload in the frame, by the byte that holds the TCP data offset."""
    form: str
    """What `unpack` unpacks, as a format."""

    @property
    def unknown_shape(self) -> Shape:
        """Of packets of a length that was not met yet; the payload has to be cut out."""
        return -1, -1, Struct(self.form + "0s").unpack_from


@lru_cache(SHAPES_MAX)
def shape_of(form: str, captured: int, total: int, offset: int, payload_start: int, payload_end: int) -> Shape:
    """The shape of packets of this captured length, whose payloads lie there in their frames."""
    options, rest = payload_start - Struct(form).size, captured - payload_end
    return total, offset, Struct(f"{form}{options}x{payload_end - payload_start}s{rest}x").unpack_from


def _layout(link_bytes: int, link_format: str, marker: int | bytes) -> Layout:
    starts = (link_bytes + 20 + (value >> 4) * 4 if value >> 4 >= 5 else _UNREACHABLE for value in range(256))
    form = ">" + link_format + _IPV4_AND_TCP
    return Layout(link_bytes, link_bytes + 40, marker, Struct(form).unpack_from, tuple(starts), form)


_RAW = _layout(0, "0s", b"")

LAYOUTS: Mapping[int, Layout] = {
    link.ETHERNET: _layout(14, "12xH", ETHERTYPE_IPV4),
    link.LINUX_SLL: _layout(16, "14xH", ETHERTYPE_IPV4),
    link.LINUX_SLL2: _layout(20, "H18x", ETHERTYPE_IPV4),
    link.NULL: _layout(4, "I", link.FAMILY_IPV4 << 24),  # of little-endian hosts
    link.LOOP: _layout(4, "I", link.FAMILY_IPV4),
    link.IPV4: _RAW,
    **dict.fromkeys(link.RAW, _RAW),
}


def layout_of(link_type: int) -> Layout | None:
    """The layout of a link type, None when all its packets go the general way."""
    return LAYOUTS.get(link_type)


NO_LAYOUT = _RAW
"""Stands in the loops' variables when there is none; a bound of -1 on the packet length keeps it from being used."""
