"""Thresholds: the limits that decide whether a finding is made, which users may set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any, NamedTuple

from pulsarscope.model.errors import UsageError
from pulsarscope.model.text import escape, hint_for

SECONDS = "s"
"""Unit of a duration."""

MOST = 1e9
"""Largest value that can be set: thirty years, or more messages than fit a capture."""


class Threshold(NamedTuple):
    """A limit that decides whether findings are made. Bounds on memory are not thresholds: they are in `limits`."""

    name: str
    """Name as a user gives it, unique in all tables: the finding, then the measured quantity; a duration ends in -seconds."""
    value: float
    unit: str
    """`SECONDS`, or what is counted: messages, requests."""
    why: str
    """What the value limits, and the reason for it, in one sentence."""
    codes: tuple[str, ...]
    """Codes of the findings that it decides."""
    least: float = 0
    """Smallest value that can be set."""

    def checked(self, value: float | str) -> float:
        """Return a value that a user gives. Raises UsageError unless it is a number of the right kind and within range."""
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = float("nan")
        whole = self.unit != SECONDS and isinstance(self.value, int)
        if not isfinite(number) or (whole and not number.is_integer()):
            message = f"threshold {self.name}: {escape(str(value))!r} is not a {'whole ' * whole}number ({self.unit})"
            raise UsageError(message)
        if not self.least <= number <= MOST:
            message = f"threshold {self.name}: {number:g} is out of range, {self.least:g} to {MOST:.0f} {self.unit}"
            raise UsageError(message)
        return int(number) if number.is_integer() else number


def in_seconds(name: str, value: float, why: str, *codes: str, least: float = 0) -> Threshold:
    """Return the threshold of a duration, which decides findings with these codes."""
    return Threshold(name, value, SECONDS, why, codes, least)


def counted(name: str, value: float, unit: str, why: str, *codes: str, least: float = 1) -> Threshold:
    """Return the threshold of what is counted in a unit, which decides findings with these codes."""
    return Threshold(name, value, unit, why, codes, least)


class _Values(dict[str, float]):
    def __missing__(self, name: str) -> float:
        message = f"no such threshold: {name}"
        raise KeyError(message)


class Thresholds:
    """Values of a table of thresholds in one run."""

    def __init__(self, table: Iterable[Threshold] = (), given: Mapping[str, float] | None = None) -> None:
        """Take the table, and values by name that replace its defaults."""
        given = given or {}
        self._values = _Values({threshold.name: given.get(threshold.name, threshold.value) for threshold in table})
        self._ns: dict[str, int] = {}
        """Durations requested before: the rules of all connections share them."""

    def __getitem__(self, name: str) -> float:
        """Return a value in its unit."""
        return self._values[name]

    def ns(self, name: str) -> int:
        """Return a duration in nanoseconds."""
        if name not in self._ns:
            self._ns[name] = round(self._values[name] * 1_000_000_000)
        return self._ns[name]

    def evidence(self, *names: str) -> dict[str, Any]:
        """Return the evidence that a finding gives about the thresholds that decided it, if any did."""
        return {"threshold": {name: self._values[name] for name in names}}


def join_thresholds(tables: Iterable[Iterable[Threshold]]) -> dict[str, Threshold]:
    """Merge tables by name; protocols may share a threshold. Raises ValueError when its values or units differ between tables."""
    joined: dict[str, Threshold] = {}
    for threshold in (threshold for table in tables for threshold in table):
        known = joined.setdefault(threshold.name, threshold)
        if (known.value, known.unit) != (threshold.value, threshold.unit):
            message = (
                f"the threshold {threshold.name} is defined as {known.value:g} {known.unit} and as {threshold.value:g} {threshold.unit}"
            )
            raise ValueError(message)
        joined[threshold.name] = known._replace(codes=(*dict.fromkeys((*known.codes, *threshold.codes)),))
    return joined


def checked_thresholds(given: Mapping[str, float | str], table: Mapping[str, Threshold]) -> dict[str, float]:
    """Return the values that a user gives, by name. Raises UsageError for an unknown name or an invalid value."""
    for name in given:
        if name not in table:
            message = f'unknown threshold "{escape(name)}"{hint_for(name, [*table], "pulsarscope findings CODE lists those of a finding")}'
            raise UsageError(message)
    return {name: table[name].checked(value) for name, value in given.items()}


VERDICT_THRESHOLDS = (
    in_seconds(
        "too-short-seconds", 10, "Length of a capture; a shorter one does not show timeouts, keep-alives and redeliveries.", "too-short"
    ),
    in_seconds(
        "never-opened-seconds",
        0.9,
        "Time between two packets of a connection without data; TCP sends an unanswered SYN again after 1 s (RFC 6298).",
        "never-opened",
    ),
)
"""Thresholds of the verdict on a run, whatever its protocols; their codes are those of what was not judged."""
