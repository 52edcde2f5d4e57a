"""CRC32-C of frames."""

from __future__ import annotations

from pulsarscope.model.platform import load_crc32c

crc32c = load_crc32c()
"""Checksum of bytes; takes 0.1 µs, and 0.04 µs more for each KiB."""
