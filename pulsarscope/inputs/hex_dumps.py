"""Hex dumps of both sides of a connection: from Wireshark (Follow TCP Stream), xxd, hexdump, od, Netty's logs, or plain digits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pulsarscope.model.command_limits import RAW_INPUT_MAX_BYTES
from pulsarscope.model.errors import UsageError

BYTES_PER_LINE = 16
"""Bytes of a full line if the offset of the next one does not show it."""

OTHER_SIDE_INDENT = 4
"""Indentation of the other side's lines, as Wireshark writes them."""

_LINE = re.compile(r"(?P<indent>[ \t]*)(?:\| *)?(?:0[xX])?(?P<offset>[0-9A-Fa-f]{4,16})(?P<mark>[:|]?)[ \t]+(?P<bytes>[0-9A-Fa-f]{2}.*)")
_DIGITS = re.compile(r"[0-9A-Fa-f\s]*")
_SPOKEN = re.compile(r"\b(read|write): ", re.IGNORECASE)
"""Words that Netty's logs write before a dump."""


class Turn(NamedTuple):
    """Bytes of one side; the side that sends first is the client."""

    from_client: bool
    data: bytes


def turns_in(text: str) -> list[Turn]:
    """Return the turns in a dump, in order; empty when the text is not a dump. Raises UsageError when repeated lines exceed the bound."""
    first = next(filter(None, map(_LINE.fullmatch, text.splitlines())), None)
    if _DIGITS.fullmatch(text) and (first is None or int(first["offset"], 16)):
        digits = "".join(text.split())
        return [Turn(True, bytes.fromhex(digits))] if digits and len(digits) % 2 == 0 else []
    turns = list(_turns(text.splitlines()))
    if not turns:
        return []
    client = turns[0][0]
    return [Turn(side == client, data) for side, data in turns]


def _turns(lines: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the side and the bytes of each run of lines."""
    side, spoken, data = "", "", bytearray()
    last = b""
    repeats = False
    expected = repeated = 0
    for line in lines:
        if (word := _SPOKEN.search(line)) is not None:
            spoken = word[1]
        if line.strip() == "*":
            repeats = True
            continue
        if (match := _LINE.fullmatch(line.rstrip())) is None:
            continue
        offset = int(match["offset"], 16)
        indent = len(match["indent"].expandtabs(OTHER_SIDE_INDENT)) >= OTHER_SIDE_INDENT
        now = spoken or ("indented" if indent else "plain")
        if now != side and data:
            yield side, bytes(data)
            data.clear()
        if repeats and last and offset > expected:
            repeated += offset - expected
            if repeated > RAW_INPUT_MAX_BYTES:
                raise UsageError(f"the lines that a hex dump leaves out are more than {RAW_INPUT_MAX_BYTES >> 20} MiB")
            data += last * ((offset - expected) // len(last))
        repeats = False
        side = now
        last = _bytes_of(match)
        expected = offset + len(last)
        data += last
    if data:
        yield side, bytes(data)


def _bytes_of(match: re.Match[str]) -> bytes:
    """Return the bytes of a line, without the characters next to them."""
    text = match["bytes"].partition("|")[0]
    text = re.split(r" {2,}" if match["mark"] == ":" else r" {3,}|\t", text)[0]
    out = bytearray()
    for group in text.split():
        if len(group) % 2 or not _DIGITS.fullmatch(group) or len(out) >= BYTES_PER_LINE:
            break
        out += bytes.fromhex(group)
    return bytes(out[:BYTES_PER_LINE])
