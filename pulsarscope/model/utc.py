"""Times as findings write them."""

from __future__ import annotations

from datetime import datetime


def utc_seconds(text: str) -> int:
    """Return the seconds since the epoch of a time in UTC, as in 2026-05-01T10:00:00Z. Raises ValueError for another text.

    Before Python 3.11, `datetime.fromisoformat` knows no Z.
    """
    return int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp())
