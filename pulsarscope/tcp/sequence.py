"""TCP sequence number arithmetic modulo 2^32 (RFC 9293 section 3.4)."""

from __future__ import annotations

SEQUENCE_MASK = 0xFFFF_FFFF
"""Bits of a sequence number."""

SEQUENCE_HALF = 0x8000_0000
"""Half of all sequence numbers: up to this distance, two of them alone tell which is ahead."""

UNKNOWN = -1
"""Marker for an unknown sequence number, offset or time."""


def sequence_difference(start: int, end: int) -> int:
    """Return the signed distance from `start` to `end` in bytes, -2^31 to 2^31 - 1."""
    return ((end - start + SEQUENCE_HALF) & SEQUENCE_MASK) - SEQUENCE_HALF
