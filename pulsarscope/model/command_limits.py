"""Bounds of what users give to commands beside captures: each with its unit and the reason for its value."""

from __future__ import annotations

CONFIG_MAX_BYTES = 1 << 20
"""Longest configuration file: a long one has some hundred lines."""

RAW_INPUT_MAX_BYTES = 256 << 20
"""Largest stream, or hex dump, that becomes a capture in memory."""

COLUMN_MAX_CHARACTERS = 500
"""Longest computed column: an expression of a few fields. A parser takes it apart, which nested parentheses could exhaust."""
