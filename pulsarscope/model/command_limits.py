"""Bounds on user input other than captures: each with its unit and the reason for its value."""

from __future__ import annotations

CONFIG_MAX_BYTES = 1 << 20
"""Longest configuration file: even a long one has only some hundred lines."""

RAW_INPUT_MAX_BYTES = 256 << 20
"""Largest stream or hex dump that is turned into a capture in memory."""

COLUMN_MAX_CHARACTERS = 500
"""Longest computed column: enough for an expression of a few fields. Deeply nested parentheses could exhaust the parser."""
