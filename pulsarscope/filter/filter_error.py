"""Errors in filters: a line of explanation, the filter, and a mark under the place."""

from __future__ import annotations

import unicodedata

from pulsarscope.model.errors import UsageError
from pulsarscope.model.text import escape

SHOWN_BEFORE, SHOWN_AFTER = 60, 40
"""Characters of a long filter shown before and after the beginning of the place."""

Place = tuple[int, int]
"""Start and end in the text of the filter."""


class FilterError(UsageError):
    """An invalid filter. Its text has three lines: the reason, the filter, and a mark under the place; just the reason if it is empty."""

    def __init__(self, reason: str, text: str, place: Place) -> None:
        self.reason = reason
        self.place = place
        super().__init__(escape(reason), *(_marked(text, place) if text.strip() else ()))


class Mismatch(Exception):  # noqa: N818 - not an error yet: the test may suit another kind of rows
    """A part of the filter that does not suit the field beside it. Internal: it becomes a FilterError."""

    def __init__(self, reason: str, place: Place) -> None:
        self.reason = reason
        self.place = place
        super().__init__(reason)


def _marked(text: str, place: Place) -> tuple[str, str]:
    """Return the filter, or the part of it around the place, and the line with the mark."""
    start = min(place[0], len(text))
    end = min(max(place[1], start + 1), start + SHOWN_AFTER)
    first, last = max(start - SHOWN_BEFORE, 0), min(start + SHOWN_AFTER, len(text))
    before = ("… " if first else "") + escape(text[first:start])
    marked = escape(text[start:end])
    after = escape(text[end:last]) + (" …" if last < len(text) else "")
    return f"  {before}{marked}{after}", f"  {' ' * _cells(before)}^{'~' * (_cells(marked) - 1)}"


def _cells(text: str) -> int:
    """Return the cells that escaped text takes: wide letters take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)
