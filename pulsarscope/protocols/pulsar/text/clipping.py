"""Names off the wire in the text of a finding: a hostile one is as long as a frame."""

from __future__ import annotations

SHOWN_CHARACTERS_MAX = 100
"""Longest name given whole: those of keys and the uuids of chunked messages are shorter."""


def shown(name: str) -> str:
    """The name, or its beginning and how long it is."""
    return name if len(name) <= SHOWN_CHARACTERS_MAX else f"{name[:SHOWN_CHARACTERS_MAX]}… ({len(name)} characters)"
