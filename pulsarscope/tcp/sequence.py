"""TCP sequence arithmetic: the only place that knows that sequence numbers wrap at 2^32 (RFC 9293 section 3.4)."""

from __future__ import annotations

SEQUENCE_MASK = 0xFFFF_FFFF
"""Sequence numbers are taken modulo 2^32."""


def sequence_difference(start: int, end: int) -> int:
    """Signed distance in bytes from one sequence number to another: -2^31 to 2^31 - 1."""
    return ((end - start + 0x8000_0000) & SEQUENCE_MASK) - 0x8000_0000
