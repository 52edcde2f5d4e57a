"""Single values as JSON can say them, and what goes wrong on the way there.

JSON has no bytes, no moments, no infinity: bytes become base64, dates, times and moments ISO 8601 in UTC, what is no number the texts
that protobuf's JSON has for it. Integers stay numbers, however large.
"""

from __future__ import annotations

import base64
import struct
from datetime import date, datetime, timedelta

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - all moments are UTC, and say so by their Z
EPOCH_ORDINAL = EPOCH.toordinal()
DAY_SECONDS = 86_400

_SINGLE = struct.Struct(">f")


class ValueProblem(ValueError):  # noqa: N818 - a word of the field
    """The bytes do not fit the schema, or the schema says nothing that can be read. Internal: it becomes a finding."""


class Budget:
    """What the values of an entry may still take: a few bytes can stand for millions of empty items, or for very long names."""

    __slots__ = ("_size", "left")

    def __init__(self, size: int) -> None:
        """`size`: bytes, as JSON would take them, roughly."""
        self._size = self.left = size

    @property
    def spent(self) -> int:
        """What has been taken."""
        return self._size - max(self.left, 0)

    def spend(self, size: int) -> None:
        """Take some of it. Raises ValueProblem when there is not so much."""
        self.left -= size
        if self.left < 0:
            message = "the values of the entry are too large to be shown"
            raise ValueProblem(message)


def base64_text(data: bytes) -> str:
    """Bytes as JSON says them."""
    return base64.b64encode(data).decode()


def utf8_text(data: bytes) -> str:
    """Text. Raises ValueProblem when it is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        message = f"text that is not UTF-8 at byte {error.start}"
        raise ValueProblem(message) from None


def double(value: float) -> float | str:
    """A number, or the name of what JSON has no number for."""
    if value - value == 0:
        return value
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"  # noqa: PLR0124 - only NaN differs from itself


def single(value: float) -> float | str:
    """A float of 32 bits in the fewest digits that tell it from its neighbours: 0.1, not 0.10000000149011612."""
    if value - value != 0:
        return double(value)
    packed = _SINGLE.pack(value)
    return next(short for digits in (6, 7, 8, 9) if packed == _packed(short := float(f"{value:.{digits}g}")))


def _packed(value: float) -> bytes:
    try:
        return _SINGLE.pack(value)
    except OverflowError:  # rounded up beyond the largest float
        return b""


def moment(count: int, per_second: int) -> str | int:
    """A moment since the epoch, in such parts of a second; the number itself where the calendar ends."""
    seconds, fraction = divmod(count, per_second)
    try:
        return f"{(EPOCH + timedelta(seconds=seconds)).isoformat()}{_fraction(fraction, per_second)}Z"
    except OverflowError:
        return count


def day(days: int) -> str | int:
    """A date, from its days since the epoch; likewise."""
    try:
        return date.fromordinal(EPOCH_ORDINAL + days).isoformat()
    except (OverflowError, ValueError):
        return days


def time_of_day(count: int, per_second: int) -> str | int:
    """A time of day, in such parts of a second since midnight; the number itself when that is no day's."""
    seconds, fraction = divmod(count, per_second)
    if not 0 <= seconds < DAY_SECONDS:
        return count
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{_fraction(fraction, per_second)}"


def local_moment(days: int, nanoseconds: int) -> str | list[str | int]:
    """A date and a time of day of no time zone; a list of both where one is only a number."""
    on, at = day(days), time_of_day(nanoseconds, 1_000_000_000)
    return f"{on}T{at}" if isinstance(on, str) and isinstance(at, str) else [on, at]


def _fraction(fraction: int, per_second: int) -> str:
    return f".{fraction:0{len(str(per_second)) - 1}}" if per_second > 1 else ""
