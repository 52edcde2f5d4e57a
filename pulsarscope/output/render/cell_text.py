"""Escaped text in the cells of a terminal: its width, and clipping to a width."""

from __future__ import annotations

from collections.abc import Callable

from pulsarscope.model.text import escape

ELLIPSIS = "…"


def _load_cell_length() -> Callable[[str], int]:
    from rich.cells import cell_len  # noqa: PLC0415 - the table of widths is large and rarely needed

    return cell_len


_cell_length: Callable[[str], int] | None = None


def cell_width(text: str) -> int:
    """Return the cells of a terminal that escaped text takes."""
    global _cell_length  # noqa: PLW0603 - the table of wide characters is loaded on use
    if text.isascii():
        return len(text)
    if _cell_length is None:
        _cell_length = _load_cell_length()
    return _cell_length(text)


def clip_phrases(text: str, width: int, ellipsis: str = ELLIPSIS) -> str:
    """Clip as `clip`, at the end of a phrase if that loses little. Phrases are separated by two spaces."""
    if (clipped := clip(text, width, ellipsis)) is text or len(clipped) == len(text):
        return clipped
    edge = clipped.rfind("  ")
    return f"{clipped[:edge]} {ellipsis}" if edge >= max(len(clipped) - PHRASE_LOSS_MAX, len(clipped) // 2) else clipped


PHRASE_LOSS_MAX = 24
"""Characters that `clip_phrases` may lose besides, if at least half of the text stays."""


def clip(text: str, width: int, ellipsis: str = ELLIPSIS) -> str:
    """Return at most `width` cells of escaped text; clipped text ends in an ellipsis."""
    if cell_width(text) <= width:
        return text
    room = width - len(ellipsis)
    if room < 0:
        return ""
    if text.isascii():
        return text[:room] + ellipsis
    # No character is wider than two cells or narrower than none: begin with what may fit and give back the rest.
    kept = text[: max(room, 0)]
    while cell_width(kept) > room:
        kept = kept[:-1]
    return kept + ellipsis


__all__ = ["ELLIPSIS", "cell_width", "clip", "clip_phrases", "escape"]
