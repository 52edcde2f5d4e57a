"""Marker entries, which brokers write into topics for themselves; applications never see them."""

from __future__ import annotations

from typing import NamedTuple


class Marker(NamedTuple):
    """The name of a marker in records, and in words."""

    name: str
    text: str


MARKERS = {
    10: Marker("replicated-subscription-request", "replicated subscription snapshot request"),
    11: Marker("replicated-subscription-response", "replicated subscription snapshot response"),
    12: Marker("replicated-subscription-snapshot", "replicated subscription snapshot"),
    13: Marker("replicated-subscription-update", "replicated subscription update"),
    20: Marker("txn-committing", "transaction committing"),
    21: Marker("txn-commit", "transaction commit"),
    22: Marker("txn-abort", "transaction abort"),
}
"""Markers by MessageMetadata.marker_type."""


def marker_name(number: int) -> str:
    """Return the name in records of a marker with any number."""
    known = MARKERS.get(number)
    return f"marker-{number}" if known is None else known.name


def marker_text(number: object) -> str | None:
    """Return a marker in words; None for an unknown number."""
    known = MARKERS.get(number) if type(number) is int else None
    return None if known is None else known.text
