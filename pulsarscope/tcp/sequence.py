"""TCP sequence number arithmetic modulo 2^32 (RFC 9293 section 3.4)."""

from __future__ import annotations

SEQUENCE_MASK = 0xFFFF_FFFF
"""Bits of a sequence number."""


def sequence_difference(start: int, end: int) -> int:
    """Return the signed distance from `start` to `end` in bytes, -2^31 to 2^31 - 1."""
    return ((end - start + 0x8000_0000) & SEQUENCE_MASK) - 0x8000_0000
