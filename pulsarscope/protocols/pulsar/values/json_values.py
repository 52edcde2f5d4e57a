"""Single values in the types of JSON, the budget for them, and the error for undecodable bytes.

JSON has no bytes, no dates or times, and no infinity. Bytes become base64; dates and times become ISO 8601 in UTC; NaN and infinity become
the texts of protobuf's JSON. Integers stay numbers, however large.
"""

from __future__ import annotations

import base64
import struct
from datetime import date, datetime, timedelta

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - all moments are UTC, and say so by their Z
EPOCH_ORDINAL = EPOCH.toordinal()
DAY_SECONDS = 86_400

_SINGLE = struct.Struct(">f")


class UndecodableError(ValueError):
    """The bytes do not match the schema, or the schema is malformed. Internal: it becomes a finding."""


class Budget:
    """A bound on the values of an entry: a few bytes can stand for millions of empty items, or for very long names."""

    __slots__ = ("_size", "remaining")

    def __init__(self, size: int) -> None:
        """Create a budget of roughly `size` bytes of JSON."""
        self._size = self.remaining = size

    @property
    def spent(self) -> int:
        """Bytes spent."""
        return self._size - max(self.remaining, 0)

    def spend(self, size: int) -> None:
        """Spend bytes. Raises UndecodableError when too few remain."""
        self.remaining -= size
        if self.remaining < 0:
            raise UndecodableError("the values of the entry are too large to be shown")


def base64_text(data: bytes) -> str:
    """Return bytes as base64."""
    return base64.b64encode(data).decode()


def utf8_text(data: bytes) -> str:
    """Return bytes as text. Raises UndecodableError when they are not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UndecodableError(f"text that is not UTF-8 at byte {error.start}") from None


def double(value: float) -> float | str:
    """Return a number, or the name of NaN or an infinity."""
    if value - value == 0:
        return value
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"  # noqa: PLR0124 - only NaN differs from itself


def single(value: float) -> float | str:
    """Return a 32-bit float in the fewest digits that identify it: 0.1, not 0.10000000149011612."""
    if value - value != 0:
        return double(value)
    packed = _SINGLE.pack(value)
    return next(short for digits in (6, 7, 8, 9) if packed == _packed(short := float(f"{value:.{digits}g}")))


def _packed(value: float) -> bytes:
    try:
        return _SINGLE.pack(value)
    except OverflowError:  # rounding up exceeds the largest float
        return b""


def moment(count: int, per_second: int) -> str | int:
    """Return a date and time from a count of parts of a second since the epoch; the count itself if it is beyond the calendar."""
    seconds, fraction = divmod(count, per_second)
    try:
        return f"{(EPOCH + timedelta(seconds=seconds)).isoformat()}{_fraction(fraction, per_second)}Z"
    except OverflowError:
        return count


def day(days: int) -> str | int:
    """Return a date from a count of days since the epoch; the count itself if it is beyond the calendar."""
    try:
        return date.fromordinal(EPOCH_ORDINAL + days).isoformat()
    except (OverflowError, ValueError):
        return days


def time_of_day(count: int, per_second: int) -> str | int:
    """Return a time of day from a count of parts of a second since midnight; the count itself if it is beyond a day."""
    seconds, fraction = divmod(count, per_second)
    if not 0 <= seconds < DAY_SECONDS:
        return count
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{_fraction(fraction, per_second)}"


def local_moment(days: int, nanoseconds: int) -> str | list[str | int]:
    """Return a date and a time of day without a time zone; a list of both if one is only a number."""
    date_text, time_text = day(days), time_of_day(nanoseconds, 1_000_000_000)
    return f"{date_text}T{time_text}" if isinstance(date_text, str) and isinstance(time_text, str) else [date_text, time_text]


def _fraction(fraction: int, per_second: int) -> str:
    return f".{fraction:0{len(str(per_second)) - 1}}" if per_second > 1 else ""
