"""TCP flags (RFC 9293 section 3.1)."""

from __future__ import annotations

FIN = 0x01
SYN = 0x02
RST = 0x04
ACK = 0x10
CONTROL_FLAGS = FIN | SYN | RST
"""Flags of the segments that open or close a connection."""
