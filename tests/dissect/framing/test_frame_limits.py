"""Bounds on frame sizes apply from the moment at which they were announced."""

from __future__ import annotations

from pulsarscope.dissect.framing.frame_limits import LIMITS_MAX, add_limit, initial_limits, least_limit, limit_at


def test_each_limit_holds_from_its_moment_on() -> None:
    limits = add_limit(add_limit(initial_limits(500), 7, 100), 9, 900)
    assert [limit_at(limits, moment) for moment in (0, 6, 7, 8, 9, 20)] == [500, 500, 100, 100, 900, 900]
    assert least_limit(limits) == 100


def test_one_limit_is_the_least() -> None:
    assert least_limit(initial_limits(500)) == 500


def test_before_the_oldest_that_is_remembered_that_one_holds() -> None:
    limits = initial_limits(500)
    for moment in range(1, 2 * LIMITS_MAX):
        limits = add_limit(limits, moment, moment)
    assert len(limits) == LIMITS_MAX
    assert limit_at(limits, 0) == limits[0][1] == LIMITS_MAX
