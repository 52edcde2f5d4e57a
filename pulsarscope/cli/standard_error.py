"""Lines on standard error."""

from __future__ import annotations

import sys
from contextlib import suppress

from pulsarscope.model.text import escape


def warn(text: str, *more: str) -> None:
    """Write a line to standard error, with any further lines below it. Do nothing without a standard error."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write("\n".join((f"pulsarscope: {escape(text)}", *map(escape, more), "")))
        sys.stderr.flush()
