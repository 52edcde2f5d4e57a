"""Phrases that the texts of several rules share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pulsarscope.protocols.pulsar.text.formatting import without_class

SHOWN_MAX = 10
"""Frames, names and the like that one finding lists; counts are always exact."""

MESSAGE_MAX_CHARACTERS = 500
"""What a broker says of an error is quoted so far: some append what they compared."""


def seconds(nanoseconds: int) -> str:
    """A span of time as a reader of captures says it: 1.5 ms, 30.0 s."""
    size = abs(nanoseconds)
    if size < 1_000_000:
        return f"{nanoseconds / 1e3:.0f} µs"
    return f"{nanoseconds / 1e6:.1f} ms" if size < 1_000_000_000 else f"{nanoseconds / 1e9:.1f} s"


def count(number: int, noun: str) -> str:
    """1 producer, 2 producers."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def some(names: Sequence[str], joint: str = ", ") -> str:
    """The first of these, and how many more there are."""
    more = len(names) - SHOWN_MAX
    return joint.join(names[:SHOWN_MAX]) + (f" and {more:,} more" if more > 0 else "")


def frames(names: Iterable[str | None]) -> list[str]:
    """Names of frames for the evidence: each once, the first of them."""
    return list(dict.fromkeys(name for name in names if name))[:SHOWN_MAX]


def host(endpoint: str) -> str:
    """An endpoint without its port."""
    return endpoint.rpartition(":")[0]


def lacking(*, lost: bool) -> str:
    """What qualifies a verdict on a connection of which bytes are missing: what is absent may have been said."""
    return "; the capture lacks bytes" if lost else ""


def said(message: str | None) -> str:
    """What the broker said of an error, without the class of the exception before it."""
    text = without_class(message or "")
    return "no message" if not text else text if len(text) <= MESSAGE_MAX_CHARACTERS else f"{text[:MESSAGE_MAX_CHARACTERS]}…"
