"""Numbers with units on the command line: 30s, 64MiB."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pulsarscope.model.errors import UsageError

_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-zµ]+)")


def has_unit(text: str, units: Mapping[str, int]) -> bool:
    """Return True for a number with one of these units."""
    match = _QUANTITY.fullmatch(text)
    return match is not None and match[2] in units


def quantity(text: str, units: Mapping[str, int], option: str) -> float:
    """Convert a number with a unit to the smallest unit. Raises UsageError, which names the option, for anything else and for zero."""
    match = _QUANTITY.fullmatch(text)
    if match is None or match[2] not in units:
        raise UsageError(f"{option} {text}: give a number with a unit: {', '.join(units)}")
    value = float(match[1]) * units[match[2]]
    if not value:
        raise UsageError(f"{option} {text}: give more than zero")
    return value
