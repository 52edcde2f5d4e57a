"""Escaped text in the cells of a terminal: its width, and clipping to a width."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from textwrap import wrap

from pulsarscope.model.text import escape

ELLIPSIS = "…"

_SECOND_CELL = "\ue000"
"""A character that never occurs in escaped text."""


@cache
def _cell_length() -> Callable[[str], int]:
    from rich.cells import cell_len  # noqa: PLC0415 - the table of widths is large and rarely needed

    return cell_len


def cell_width(text: str) -> int:
    """Return the width of escaped text in terminal cells."""
    return len(text) if text.isascii() else _cell_length()(text)


def wrap_cells(text: str, width: int, subsequent_indent: str = "", *, breaks_words: bool = True) -> list[str]:
    """Wrap escaped text to lines of at most `width` cells. Lines break at spaces, and within words only if necessary."""
    # textwrap counts characters, so each wide character gets a second one for its second cell. A line has room for a pair that was split.
    spread = text if text.isascii() else re.sub(r"[^\x00-\u10ff]", lambda match: match[0] + _SECOND_CELL * (cell_width(match[0]) - 1), text)
    room = width - (len(spread) > len(text))
    lines = wrap(spread, max(room, 1), subsequent_indent=subsequent_indent, break_on_hyphens=False, break_long_words=breaks_words)
    return [line.replace(_SECOND_CELL, "") for line in lines]


def clip_phrases(text: str, width: int, ellipsis: str = ELLIPSIS) -> str:
    """Clip as `clip`, at the end of a phrase if that loses little. Phrases are separated by two spaces."""
    if (clipped := clip(text, width, ellipsis)) is text or len(clipped) == len(text):
        return clipped
    edge = clipped.rfind("  ")
    if edge < max(len(clipped) - PHRASE_LOSS_MAX, len(clipped) // 2):
        return clipped
    return clipped[:edge] if clipped.endswith(ellipsis, 0, edge) else f"{clipped[:edge]} {ellipsis}"


PHRASE_LOSS_MAX = 24
"""Characters that `clip_phrases` may drop in addition, if at least half of the text stays."""


def fit_summary(text: str, width: int, ellipsis: str = ELLIPSIS, *, named: bool) -> str:
    """Return a summary of at most `width` cells: its request id goes first, then its last phrases.

    `named`: the first phrase is the name of a topic, whose middle is dropped before other phrases are. If it is a sentence, it is an error,
    and keeps its beginning, which says most.
    """
    if cell_width(text) <= width:
        return text
    first, *others = [phrase for phrase in text.split("  ") if not phrase.startswith(REQUEST_ID)] or [""]
    taken = sum(cell_width(phrase) + 2 for phrase in others)
    if named and " " not in first and cell_width(first) + taken > width:
        first = clip_middle(first, max(width - taken, FIRST_PHRASE_MIN), ellipsis)
    return clip_phrases("  ".join([first, *others]), width, ellipsis)


REQUEST_ID = "request "
"""Start of the least informative phrase: the arrow to the request stands beside it."""

FIRST_PHRASE_MIN = 16
"""Cells that a name keeps beside the other phrases."""


def clip_middle(text: str, width: int, ellipsis: str = ELLIPSIS) -> str:
    """Return escaped text clipped in its middle to at most `width` cells, because names differ at both ends."""
    if cell_width(text) <= width:
        return text
    room = width - len(ellipsis)
    if room < 4:
        return clip(text, width, ellipsis)
    end = text[-(room // 2) :]
    while cell_width(end) > room // 2:
        end = end[1:]
    return clip(text, width - cell_width(end), ellipsis) + end


def clip(text: str, width: int, ellipsis: str = ELLIPSIS) -> str:
    """Return at most `width` cells of escaped text; clipped text ends in an ellipsis."""
    if cell_width(text) <= width:
        return text
    room = width - len(ellipsis)
    if room < 0:
        return ""
    if text.isascii():
        return text[:room] + ellipsis
    # A character takes zero to two cells. Start with as many characters as may fit, and remove those beyond the width.
    kept = text[: max(room, 0)]
    while cell_width(kept) > room:
        kept = kept[:-1]
    return kept + ellipsis


__all__ = ["ELLIPSIS", "cell_width", "clip", "clip_middle", "clip_phrases", "escape", "fit_summary"]
