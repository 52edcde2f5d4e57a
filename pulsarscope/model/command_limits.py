"""Bounds of commands, and on user input other than captures: each with its unit and the reason for its value."""

from __future__ import annotations

CONFIG_MAX_BYTES = 1 << 20
"""Longest configuration file: even a long one has only some hundred lines."""

RAW_INPUT_MAX_BYTES = 256 << 20
"""Largest stream or hex dump that is turned into a capture in memory."""

COLUMN_MAX_CHARACTERS = 500
"""Longest computed column: enough for an expression of a few fields. Deeply nested parentheses could exhaust the parser."""

INDEX_USED_MIN_BYTES = 8 << 20
"""Captures from which on decode, follow and extract look for an index: for less, pyarrow takes longer to load (0.5 s) than decoding without
the compiled reader. Compressed captures may be ten times as large, and always have it looked for."""
