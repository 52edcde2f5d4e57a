"""File names in messages."""

from __future__ import annotations


def printable(name: str) -> str:
    r"""The name with every character escaped that could act on a terminal or mislead the eye: controls, bidirectional marks, surrogates."""
    return "".join(character if character.isprintable() else character.encode("unicode_escape").decode() for character in name)
