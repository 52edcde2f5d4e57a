"""Processes of the system."""

from __future__ import annotations

import os


def is_there(number: int) -> bool:
    """Return True while a process has not ended."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True
