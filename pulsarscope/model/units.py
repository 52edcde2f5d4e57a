"""Units of durations and sizes, as filters and options write them."""

from __future__ import annotations

MILLISECOND = 1_000_000
SECOND = 1_000_000_000
"""Nanoseconds."""

DURATIONS = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": MILLISECOND, "s": SECOND, "m": 60 * SECOND, "h": 3_600 * SECOND}
"""Nanoseconds per unit of time."""

SIZES = {
    "B": 1,
    **{f"{letter}{i}B": (1024 if i else 1000) ** power for power, letter in enumerate("kMGT", 1) for i in ("", "i")},
    "KB": 1000,
    "KiB": 1024,
}
"""Bytes per unit of size."""
