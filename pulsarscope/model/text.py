r"""Escaping of text from the wire before it reaches a terminal or a spreadsheet.

Characters that move the cursor, change colours, reorder or hide text become visible: ESC is shown as \x1b, a right-to-left override as
\u202e (CVE-2021-42574, "Trojan Source"; CVE-2021-25743, kubectl). Renderers pass all text through here that is not their own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pulsarscope.model.units import SECOND

# Patterns that few runs need: `re` compiles each on first use, and keeps it.

# Escaped although printable: four or more combining marks on one letter grow over the neighbouring lines.
_MARK_FLOOD = r"[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{4,}"

_CONTROLS = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"

# The controls that JSON does not escape, in UTF-8. Searching a set of first bytes is many times as fast as alternatives.
_JSON_CONTROLS = rb"[\x7f\xc2\xe2](?:(?<=\x7f)|(?<=\xc2)[\x80-\x9f]|(?<=\xe2)(?:\x80[\xaa-\xae]|\x81[\xa6-\xa9]))"

STANDARD_INPUT = "-"
"""Name of an input on the command line."""

_SIMILAR = 0.7
"""Least similarity of a suggested name: at 0.6, the default of difflib, "nope" would match "txn-open"."""

_WORD_MATCHES_MAX = 3
"""Most names that are suggested because of one of their words."""


def escape(text: str) -> str:
    """Escape invisible and active characters; return printable text unchanged."""
    if text.isprintable():
        # Printable text has letters, marks, punctuation, symbols and spaces; no control, format, separator or surrogate.
        return text if text.isascii() else re.sub(_MARK_FLOOD, _visible_marks, text)
    escaped = "".join([character if character.isprintable() else _visible(character) for character in text])
    return re.sub(_MARK_FLOOD, _visible_marks, escaped)


def show_controls(text: str) -> str:
    """Escape control characters except line ends and tabs, and characters that change the direction of text.

    Meant for files that programs read and people may display: it changes less than `escape`, so that texts of all languages stay exact.
    """
    return re.sub(_CONTROLS, lambda match: _visible(match[0]), text)


def escape_json(data: bytes) -> bytes:
    """Escape in JSON, without loss, those characters of `show_controls` that encoders leave as they are."""
    if b"\x7f" not in data and b"\xc2" not in data and b"\xe2" not in data:  # bytes are found many times as fast as a set of them
        return data
    return re.sub(_JSON_CONTROLS, lambda match: b"\\u%04x" % ord(match[0].decode()), data)


def _visible(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _visible_marks(match: re.Match[str]) -> str:
    return "".join(map(_visible, match[0]))


def printable(name: str) -> str:
    """Return a file name with its controls, bidirectional marks and bytes that are not UTF-8 escaped."""
    return "".join(character if character.isprintable() else _escaped(character) for character in name)


def _escaped(character: str) -> str:
    if "\udc80" <= character <= "\udcff":  # stands for a byte, see PEP 383
        return f"\\x{ord(character) - 0xDC00:x}"
    return character.encode("unicode_escape").decode()


def input_name(path: str) -> str:
    """Return the name of an input for messages: its path, printable, or "standard input"; an empty path is shown as ""."""
    return "standard input" if path == STANDARD_INPUT else printable(path) or '""'


def plural(number: int, noun: str) -> str:
    """Format a number with its noun: 1 packet, 2,000 packets."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def join_words(words: Sequence[str], last: str, separator: str = ", ") -> str:
    """Join words by a separator, and the last one by `last`."""
    return last.join(filter(None, (separator.join(words[:-1]), *words[-1:])))


def either(words: Sequence[str]) -> str:
    """Join alternatives: frame, exchange or finding."""
    return join_words(words, " or ")


def both(words: Sequence[str]) -> str:
    """Join names that all apply: frame, exchange and finding."""
    return join_words(words, " and ")


def duration(nanoseconds: int, micro: str = "µ") -> str:
    """Return a duration with three significant digits: 850 ns, 12.3 µs, 1.32 ms, 45.1 s; then 3 min 20 s, 5 h 12 min, 3 d 4 h."""
    if nanoseconds < 1_000:
        return f"{nanoseconds} ns"
    if nanoseconds < 999_500:
        return f"{_three_digits(nanoseconds / 1e3)} {micro}s"
    if nanoseconds < 999_500_000:
        return f"{_three_digits(nanoseconds / 1e6)} ms"
    if nanoseconds < 119_500_000_000:
        return f"{_three_digits(nanoseconds / 1e9)} s"
    minutes, seconds = divmod(round(nanoseconds / SECOND), 60)
    if minutes < 120:
        return f"{minutes} min {seconds} s"
    hours, minutes = divmod(round(nanoseconds / (60 * SECOND)), 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    days, hours = divmod(round(nanoseconds / (3600 * SECOND)), 24)
    return f"{days} d {hours} h"


def _three_digits(value: float) -> str:
    if value < 9.995:
        return f"{value:.2f}"
    return f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def hint_for(name: str, known: Sequence[str], elsewhere: str = "") -> str:
    """Return the end of a message about an unknown name: similar names, or else where the known ones are listed, or all of them."""
    return similar_hint(name, known) or (f"; {elsewhere}" if elsewhere else f"; known: {', '.join(known)}")


def similar_hint(name: str, known: Sequence[str]) -> str:
    """Return the end of a message about an unknown name that asks for similar ones, "" if there are none.

    Names are similar if the unknown name is one of their words, or else if they are nearest; case and underscores do not matter.
    """
    from difflib import get_close_matches  # noqa: PLC0415 - only for messages

    plain = _plain(name)
    plain_names = {_plain(each): each for each in known}
    near = [each for each in plain_names if plain in each.split("-")]
    if not 0 < len(near) <= _WORD_MATCHES_MAX:
        near = get_close_matches(plain, plain_names, 1, _SIMILAR)
    return f"; did you mean {either([plain_names[each] for each in near])}?" if near else ""


def _plain(name: str) -> str:
    return name.lower().replace("_", "-")


def each_line(lines: list[Any] | bytes) -> list[Any]:
    """Return lines one by one; they may come as one bytes object."""
    return lines.splitlines(keepends=True) if isinstance(lines, bytes) else lines
