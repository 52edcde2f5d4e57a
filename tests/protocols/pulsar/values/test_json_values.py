"""Values without a JSON type, as texts that lose nothing."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.protocols.pulsar.values.json_values import (
    Budget,
    UndecodableError,
    day,
    double,
    local_moment,
    moment,
    single,
    time_of_day,
    utf8_text,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [(float("nan"), "NaN"), (float("inf"), "Infinity"), (float("-inf"), "-Infinity"), (1.5, 1.5), (1e308, 1e308), (-0.0, 0.0)],
)
def test_what_is_no_number_has_its_name(value: float, text: object) -> None:
    assert double(value) == text
    if value in (0.0, 1.5) or isinstance(text, str):
        assert single(value) == text


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_float_keeps_its_bits_in_few_digits(value: float) -> None:
    shown = single(value)
    assert struct.pack(">f", shown) == struct.pack(">f", value)
    assert len(f"{shown:.9g}") <= len(f"{value:.9g}")


def test_the_largest_float_is_not_rounded_beyond_itself() -> None:
    largest = struct.unpack(">f", b"\x7f\x7f\xff\xff")[0]
    assert struct.pack(">f", single(largest)) == b"\x7f\x7f\xff\xff"


@pytest.mark.parametrize(
    ("count", "per_second", "text"),
    [
        (0, 1_000, "1970-01-01T00:00:00.000Z"),
        (-1, 1_000, "1969-12-31T23:59:59.999Z"),
        (1_600_000_000_003, 1_000, "2020-09-13T12:26:40.003Z"),
        (1_600_000_000_000_000_005, 1_000_000_000, "2020-09-13T12:26:40.000000005Z"),
        (-62_135_596_800, 1, "0001-01-01T00:00:00Z"),
        (1 << 62, 1_000, 1 << 62),
        (-(1 << 63), 1, -(1 << 63)),
    ],
)
def test_a_moment_is_utc_and_a_number_where_the_calendar_ends(count: int, per_second: int, text: object) -> None:
    assert moment(count, per_second) == text


def test_dates_and_times_of_day_likewise() -> None:
    assert day(0) == "1970-01-01"
    assert day(-719_162) == "0001-01-01"
    assert day(1 << 40) == 1 << 40
    assert time_of_day(86_399_999_999_999, 1_000_000_000) == "23:59:59.999999999"
    assert time_of_day(86_400_000, 1_000) == 86_400_000
    assert time_of_day(-1, 1_000) == -1
    assert local_moment(1, 1) == "1970-01-02T00:00:00.000000001"
    assert local_moment(1 << 40, -1) == [1 << 40, -1]


def test_text_that_is_none_and_a_budget_that_is_spent_are_problems() -> None:
    with pytest.raises(UndecodableError, match="not UTF-8 at byte 1"):
        utf8_text(b"a\xff")
    budget = Budget(3)
    assert budget.spent == 0
    budget.spend(3)
    with pytest.raises(UndecodableError, match="too large"):
        budget.spend(1 << 60)
    assert budget.spent == 3
