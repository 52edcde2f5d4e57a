from __future__ import annotations

from datetime import timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.output.render.times import MODES, Clock, instant_text, moments

START = 1_777_629_600_123_456_789


@pytest.mark.parametrize(
    ("mode", "texts"),
    [
        ("relative", ["0.000000", "0.000001", "1.500000", "-0.500000"]),
        ("delta", ["+0.000000", "+0.000001", "+1.499999", "-2.000000"]),
        ("utc", ["10:00:00.123456", "10:00:00.123457", "10:00:01.623456", "09:59:59.623456"]),
        ("epoch", ["1777629600.123456", "1777629600.123457", "1777629601.623456", "1777629599.623456"]),
    ],
)
def test_each_mode_writes_times_in_its_way(mode: str, texts: list[str]) -> None:
    clock = Clock(mode)
    assert [clock.text(START + step).lstrip() for step in (0, 1_000, 1_500_000_000, -500_000_000)] == texts


def test_times_stand_on_the_right_of_a_column_that_a_longer_one_widens() -> None:
    clock = Clock("relative")
    assert clock.text(START) == " 0.000000"
    assert clock.text(START + 12_345 * 10**9) == "12345.000000"
    assert clock.width == 12
    assert clock.text(START + 12_345 * 10**9 + 1_000) == "12345.000001"
    assert clock.text(START) == clock.text(START + 1) == "    0.000000"


def test_the_date_is_shown_once_a_day() -> None:
    clock = Clock("utc")
    assert clock.day(START) == "2026-05-01 UTC"
    assert clock.day(START + 1) is None
    assert clock.day(START + 86_400 * 10**9) == "2026-05-02 UTC"
    assert Clock("relative").day(START) is None


def test_local_times_use_the_zone() -> None:
    assert Clock("local", timezone(timedelta(hours=2))).text(START) == "12:00:00.123456"


@given(st.sampled_from(MODES), st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_any_times_in_any_order_have_a_text(mode: str, times: list[int]) -> None:
    clock = Clock(mode)
    for time in times:
        clock.day(time)
        assert clock.text(time).isascii()


@given(st.integers(-(2**63), 2**63))
def test_any_instant_has_a_text(number: int) -> None:
    assert instant_text(number)


def test_instants_are_dates() -> None:
    assert instant_text(START) == "2026-05-01 10:00:00.123456789 UTC"


def test_relative_times_count_from_a_given_start() -> None:
    clock = Clock("relative")
    clock.start(1_000_000_000)
    assert clock.text(3_500_000_000).strip() == "2.500000"
    clock.start(3_000_000_000)
    assert clock.text(3_500_000_000).strip() == "2.500000"


@pytest.mark.parametrize(
    ("since_start", "texts"),
    [
        ([0, 100_000_000, 1_900_000_000], ["0.0 s", "0.1 s", "1.9 s"]),
        ([0, 1_000_000_000, None], ["0 s", "1 s", ""]),
        ([99_900_000_000, 1_000_050_000_000], ["99.90 s", "1,000.05 s"]),
        ([1], ["0.000000001 s"]),
        ([], []),
    ],
)
def test_moments_have_the_decimals_that_all_need(since_start: list[int | None], texts: list[str]) -> None:
    assert moments(since_start) == texts
