"""Times and durations as text for people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone, tzinfo

from pulsarscope.model.units import SECOND

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

RELATIVE, DELTA, UTC, LOCAL, EPOCH_SECONDS = MODES = ("relative", "delta", "utc", "local", "epoch")


_NO_SECOND = -SECOND, ""
"""Start and text of a second in which no time lies."""

SLOW_NANOSECONDS = SECOND // 10
"""Latency from which it is highlighted."""


def moments(since_start: Sequence[int | None]) -> list[str]:
    """Return times since a start, in nanoseconds, as seconds with the decimals that all of them need: 0.0 s, 0.1 s; empty for None."""
    known = [time for time in since_start if time is not None]
    digits = next((digits for digits in range(9) if not any(time % 10 ** (9 - digits) for time in known)), 9)
    return ["" if time is None else f"{time / SECOND:,.{digits}f} s" for time in since_start]


class Clock:
    """A formatter of the times of rows in one of the `MODES`.

    relative: seconds since `start`, or since the first row; delta: since the previous row; utc, local: time of day; epoch: since 1970.
    """

    def __init__(self, mode: str, zone: tzinfo | None = None) -> None:
        self._mode = mode
        self._zone = timezone.utc if mode == UTC else zone
        self.of_day = mode in (UTC, LOCAL)
        """True when times of day are shown, which need dates."""
        self._zero: int | None = None
        self._base, self._prefix = _NO_SECOND
        self._day = ""
        self._shown_day = ""
        self.width = {RELATIVE: 9, DELTA: 9, EPOCH_SECONDS: 17}.get(mode, 15)
        """Cells of the column of times; a longer text widens it for the times that follow."""

    def start(self, time: int) -> None:
        """Count relative times from `time`, instead of the first row."""
        if self._mode == RELATIVE and self._zero is None:
            self._zero = time

    @property
    def seconds(self) -> tuple[int, str, Callable[[int], tuple[int, str] | None]] | None:
        """Return the second of the latest time, as `second` does, and the method `second`; None if each time counts from the one before."""
        known = self._base, self._prefix.strip()
        return None if self._mode == DELTA else (*(known if self._day == self._shown_day else _NO_SECOND), self.second)

    def second(self, time: int) -> tuple[int, str] | None:
        """Return the start of the second of a time, and its text up to the decimal point.

        None if the date must come first, and for a time before the zero.
        """
        self.text(time)
        if self._day != self._shown_day or not 0 <= time - self._base < SECOND:
            return None
        return self._base, self._prefix.strip()

    def widen(self, width: int) -> None:
        """Widen the column of times."""
        if width > self.width:
            self.width = width
            self._prefix = self._prefix.rjust(width - 6)

    def text(self, time: int) -> str:
        """Return the time with six digits, right-aligned in its column."""
        fraction = time - self._base
        if 0 <= fraction < SECOND:
            return self._prefix + "%06d" % (fraction // 1000)  # noqa: UP031 - twice as fast as an f-string
        text = self._new_second(time)
        self.width = max(self.width, len(text))
        self._prefix = self._prefix.rjust(self.width - 6)
        return text.rjust(self.width)

    def day(self, time: int) -> str | None:
        """Return the date when times of day are shown and it has changed since the last call, else None."""
        if not self.of_day:
            return None
        self.text(time)
        if self._day == self._shown_day:
            return None
        self._shown_day = self._day
        return self._day

    def _new_second(self, time: int) -> str:
        """Return the time as text, and keep the part before the point for other times in the same second."""
        if self._mode == DELTA:
            before, self._zero = self._zero, time
            return f"{(time - (time if before is None else before)) / SECOND:+.6f}"
        if self._mode == RELATIVE:
            if self._zero is None:
                self._zero = time
            elapsed = time - self._zero
            if elapsed < 0:
                return f"{elapsed / SECOND:.6f}"
            fraction = elapsed % SECOND
            self._prefix = f"{elapsed // SECOND}."
        else:
            seconds, fraction = divmod(time, SECOND)
            self._prefix = f"{seconds}."
            if self.of_day:
                moment = _moment(seconds, self._zone)
                self._day = "outside the calendar" if moment is None else f"{moment:%Y-%m-%d %Z}"
                self._prefix = self._prefix if moment is None else f"{moment:%H:%M:%S}."
        self._base = time - fraction
        return f"{self._prefix}{fraction // 1000:06d}"


def _moment(seconds: int, zone: tzinfo | None) -> datetime | None:
    try:
        return (EPOCH + timedelta(seconds=seconds)).astimezone(zone)
    except (OverflowError, ValueError, OSError):
        return None


def instant_text(time: int) -> str:
    """Return nanoseconds since the epoch as a UTC date and time with nine digits."""
    seconds, rest = divmod(time, SECOND)
    moment = _moment(seconds, timezone.utc)
    return f"{seconds}.{rest:09d}" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}.{rest:09d} UTC"


def moment_text(time: int, mode: str, start: int | None, before: int | None) -> str:
    """Return a time with nine digits and its date in one of the `MODES`; relative and delta times count from `start` and `before`."""
    if mode == EPOCH_SECONDS:
        return f"{time // SECOND}.{time % SECOND:09d}"
    if mode == LOCAL:
        seconds, rest = divmod(time, SECOND)
        moment = _moment(seconds, None)
        return instant_text(time) if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}.{rest:09d} {moment:%Z}"
    since = {RELATIVE: start, DELTA: before if before is not None else time}.get(mode)
    if since is None:
        return instant_text(time)
    seconds, rest = divmod(abs(time - since), SECOND)
    sign = "-" if time < since else "+" if mode == DELTA else ""
    return f"{sign}{seconds}.{rest:09d} s  {instant_text(time)}"
