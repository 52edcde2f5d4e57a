"""Layouts for the hot loops: per link type, one unpack that decodes a plain IPv4 TCP packet.

A packet is plain when it has no tags, has an IPv4 header of 20 bytes, is not a fragment and was captured completely. All others are decoded
by `link_layer` and `ip`. For the compiled reader, packets with tags, options, IPv6 or in tunnels are plain, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from struct import Struct
from typing import Any, NamedTuple

from pulsarscope.capture.link import link_layer as link
from pulsarscope.capture.link.layers import ETHERTYPE_IPV4

_IPV4_AND_TCP = "BxHHI2x12sIIBBH"
UNFRAGMENTED_MASK, UNFRAGMENTED_TCP = 0x3FFF_00FF, 6
"""Mask and value for an unfragmented TCP packet of the fragment field, time to live and protocol, read as one number."""

_UNREACHABLE = 1 << 40  # start of a payload beyond any end

SHAPES_MAX = 4096
"""Shapes kept by the cache; packets of most captures have a few dozen lengths."""

Shape = tuple[int, int, Callable[..., tuple[Any, ...]]]
"""(total length, data offset, unpack) of packets of one captured length.

`unpack` returns the fields of the layout, the rest of the TCP header and the payload, which saves the tenth of the hot loop that a slice
takes. It fails when the data end within the packet.
"""


class Layout(NamedTuple):
    """Layout of a plain packet of one link type.

    `unpack` returns (marker, version and header length, total length, identification, number to compare with UNFRAGMENTED_TCP,
    flow key, sequence, acknowledgment, data offset, flags, window). The packet is IPv4 if the marker equals `marker`.
    """

    link_bytes: int
    minimum: int
    """Size of the three headers, bytes."""
    marker: int | bytes
    unpack: Callable[..., tuple[Any, ...]]
    payload_starts: tuple[int, ...]
    """Start of the payload in the frame by the byte with the TCP data offset."""
    form: str
    """Format of `unpack`."""

    @property
    def unknown_shape(self) -> Shape:
        """Return the shape for a new length, which has an empty payload."""
        return -1, -1, Struct(self.form + "0s0s").unpack_from


@lru_cache(SHAPES_MAX)
def shape_of(form: str, captured: int, total: int, offset: int, payload_start: int, payload_end: int) -> Shape:
    """Return the shape of packets: lengths and positions in bytes, `offset` that of the byte with the TCP data offset."""
    options, rest = payload_start - Struct(form).size, captured - payload_end
    return total, offset, Struct(f"{form}{options}s{payload_end - payload_start}s{rest}x").unpack_from


def _layout(link_bytes: int, marker_at: int, marker_format: str, marker: int | bytes) -> Layout:
    marker_end = marker_at + Struct(">" + marker_format).size
    starts = (link_bytes + 20 + (value >> 4) * 4 if value >> 4 >= 5 else _UNREACHABLE for value in range(256))
    form = f">{marker_at}x{marker_format}{link_bytes - marker_end}x{_IPV4_AND_TCP}"
    return Layout(link_bytes, link_bytes + 40, marker, Struct(form).unpack_from, tuple(starts), form)


_RAW = _layout(0, 0, "0s", b"")

LAYOUTS: Mapping[int, Layout] = {
    link.ETHERNET: _layout(14, 12, "H", ETHERTYPE_IPV4),
    link.LINUX_SLL: _layout(16, 14, "H", ETHERTYPE_IPV4),
    link.LINUX_SLL2: _layout(20, 0, "H", ETHERTYPE_IPV4),
    link.NULL: _layout(4, 0, "I", link.FAMILY_IPV4 << 24),  # little-endian hosts
    link.LOOP: _layout(4, 0, "I", link.FAMILY_IPV4),
    link.IPV4: _RAW,
    **dict.fromkeys(link.RAW, _RAW),
}


def layout_of(link_type: int) -> Layout | None:
    """Return the layout of a link type, None when its packets do not take the hot loop."""
    return LAYOUTS.get(link_type)


NO_LAYOUT = _RAW
"""Placeholder for a link type without a layout; a bound of -1 on the packet length keeps it from being used."""
