"""Colours and symbols of text output. Colours are the sixteen of the terminal, so that every theme stays readable."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, TextIO

import msgspec

from pulsarscope.dissect.contract.capabilities import ACKNOWLEDGE, CONSUME, KEEP_ALIVE, PUBLISH, TRANSACT
from pulsarscope.model.findings import ERROR, NOTE, WARNING

RESET = "\x1b[0m"


class Palette(msgspec.Struct, frozen=True):
    """The escape sequences before text of each role, and `reset` after it. All are empty without colour."""

    reset: str = ""
    dim: str = ""
    bold: str = ""
    good: str = ""
    bad: str = ""
    warning: str = ""
    heading: str = ""
    families: Mapping[str, str] = {}
    """By family of commands (`dissect.contract.capabilities.FAMILIES`)."""
    connections: tuple[str, ...] = ("",)

    def connection(self, number: int) -> str:
        """Return the colour of a connection, by the number of its first packet."""
        return self.connections[(number - 1) % len(self.connections)]

    def severity(self, severity: str) -> str:
        """Return the colour of a finding."""
        return {ERROR: self.bad, WARNING: self.warning, NOTE: self.dim}.get(severity, self.warning)


PLAIN = Palette()
COLORED = Palette(
    reset=RESET,
    dim="\x1b[2m",
    bold="\x1b[1m",
    good="\x1b[2;32m",
    bad="\x1b[1;31m",
    warning="\x1b[33m",
    heading="\x1b[1m",
    families={PUBLISH: "\x1b[32m", CONSUME: "\x1b[36m", ACKNOWLEDGE: "\x1b[34m", TRANSACT: "\x1b[35m", KEEP_ALIVE: "\x1b[2m"},
    # Red and yellow are reserved for warnings.
    connections=("\x1b[36m", "\x1b[35m", "\x1b[34m", "\x1b[32m", "\x1b[96m", "\x1b[95m", "\x1b[94m", "\x1b[92m"),
)


class Symbols(msgspec.Struct, frozen=True):
    """The symbols in lines."""

    to_server: str = "→"
    to_client: str = "←"
    answers: str = "↩"
    good: str = "✓"
    bad: str = "✗"
    ellipsis: str = "…"
    dot: str = "·"
    rule: str = "─"
    micro: str = "µ"
    lane: str = "│"
    pause: str = "┊"
    from_left: str = "├"
    from_right: str = "┤"
    head_right: str = "▶"
    head_left: str = "◀"
    hidden: str = "·"


UNICODE = Symbols()
STAND_INS = msgspec.structs.replace(UNICODE, to_server="\x01", to_client="\x02", answers="\x03", good="\x04", micro="\x05")
"""UNICODE with control characters for the frequent marks. Escaped text never has these, and ASCII text is faster until it is encoded."""
ASCII = Symbols("->", "<-", "re", "ok", "BAD", "...", "|", "-", "u", "|", ":", "|", "|", ">", "<", "*")
_OTHERS_TO_ASCII = {"–": "-", "−": "-", "×": "x", "↑": "^", "↓": "v", "━": "-", "•": "*", "▌": "|"}


def palette(color: bool) -> Palette:
    """Return the colours, or the empty palette."""
    return COLORED if color else PLAIN


def with_marks(data: bytes) -> bytes:
    """Return text in UTF-8 with the UNICODE marks in place of the STAND_INS."""
    for stand_in, mark in _MARKS:
        data = data.replace(stand_in, mark)
    return data


_MARKS = tuple(
    (stand_in.encode(), mark.encode())
    for stand_in, mark in zip(*map(msgspec.structs.astuple, (STAND_INS, UNICODE)), strict=True)
    if stand_in != mark
)


def symbols(encoding: str) -> Symbols:
    """Return the symbols that a stream of this encoding can carry."""
    try:
        "".join(msgspec.structs.astuple(UNICODE)).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE


def encoded(text: str, encoding: str) -> bytes:
    """Encode text that another module made. Where the encoding lacks our symbols, use ASCII ones; escape all other characters."""
    marks = symbols(encoding)
    if marks is not UNICODE:
        ours, theirs = (msgspec.structs.astuple(of)[::-1] for of in (UNICODE, marks))  # reversed: of two equal symbols, the first wins
        text = text.translate(str.maketrans({**_OTHERS_TO_ASCII, **dict(zip(ours, theirs, strict=True))}))
    return text.encode(encoding, "backslashreplace")


def text_encoding(out: str | None) -> str:
    """Return the encoding of text for -o: that of standard output, UTF-8 in files."""
    return (getattr(sys.stdout, "encoding", None) or "utf-8") if out in (None, "-") else "utf-8"


def wants_color(stream: TextIO | None, environment: Mapping[str, str], no_color: bool) -> bool:
    """Return True for text with colours: on a terminal, unless NO_COLOR (no-color.org) or an option forbids them."""
    if no_color or environment.get("NO_COLOR"):
        return False
    if environment.get("FORCE_COLOR"):
        return environment["FORCE_COLOR"] != "0"
    return is_terminal(stream) and environment.get("TERM") != "dumb"


def is_terminal(stream: Any) -> bool:
    """Return True when the stream is an open terminal."""
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False
