r"""The one choke point between text off the wire and a terminal.

What could move the cursor, change colours, reorder or hide text becomes visible: ESC is shown as \x1b, a right-to-left override as
\u202e (CVE-2021-42574, "Trojan Source"; CVE-2021-25743, kubectl). Everything a renderer shows that it did not make itself passes here.
"""

from __future__ import annotations

import re
from collections.abc import Callable

# Escaped although printable: a flood of combining marks (four or more on one letter) grows over the neighbouring lines.
_MARKS = r"[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{4,}"
_MARK_FLOOD = re.compile(_MARKS)

ELLIPSIS = "…"


def escape(text: str) -> str:
    """The text with everything invisible or active made visible. Printable text comes back unchanged."""
    if text.isprintable():
        # Letters, marks, punctuation, symbols and the plain space; no control, format, separator or surrogate.
        return text if text.isascii() else _MARK_FLOOD.sub(_visible_marks, text)
    escaped = "".join([character if character.isprintable() else _visible(character) for character in text])
    return _MARK_FLOOD.sub(_visible_marks, escaped)


def _visible(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _visible_marks(match: re.Match[str]) -> str:
    return "".join(map(_visible, match[0]))


def _load_cell_length() -> Callable[[str], int]:
    from rich.cells import cell_len  # noqa: PLC0415 - the table of widths is large and rarely needed

    return cell_len


_cell_length: Callable[[str], int] | None = None


def cell_width(text: str) -> int:
    """Cells of a terminal that escaped text takes."""
    global _cell_length  # noqa: PLW0603 - the table of wide characters is loaded when the first one is seen
    if text.isascii():
        return len(text)
    if _cell_length is None:
        _cell_length = _load_cell_length()
    return _cell_length(text)


def clip_words(text: str, width: int, ellipsis: str = ELLIPSIS) -> str:
    """As `clip`, but rather loses a whole word or two than part of one. Words are what two spaces separate."""
    clipped = clip(text, width, ellipsis)
    if clipped is text or len(clipped) == len(text):
        return clipped
    edge = clipped.rfind("  ")
    return f"{clipped[:edge]} {ellipsis}" if edge >= max(len(clipped) - LOST_MAX, len(clipped) // 2) else clipped


LOST_MAX = 24
"""Characters that `clip_words` may give up, if at least half of the text stays."""


def clip(text: str, width: int, ellipsis: str = ELLIPSIS) -> str:
    """At most `width` cells of escaped text; what is cut ends in an ellipsis."""
    if len(text) <= width and (text.isascii() or cell_width(text) <= width):
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
