from __future__ import annotations

from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.output.export.iso_times import IsoTimes


@pytest.mark.parametrize(
    ("time", "text"),
    [
        (0, "1970-01-01T00:00:00.000000000Z"),
        (-1, "1969-12-31T23:59:59.999999999Z"),
        (1_777_629_600_123_456_789, "2026-05-01T10:00:00.123456789Z"),
        (2**63 - 1, "2262-04-11T23:47:16.854775807Z"),
        (-(2**63), "1677-09-21T00:12:43.145224192Z"),
    ],
)
def test_times_have_nine_digits(time: int, text: str) -> None:
    assert IsoTimes().text(time) == text


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_what_was_written_before_changes_nothing(times: list[int]) -> None:
    together = IsoTimes()
    for time in times:
        text = together.text(time)
        assert text == IsoTimes().text(time)
        assert text is not None
        moment = datetime.strptime(text[:19], "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc)
        assert int(moment.timestamp()) * 10**9 + int(text[20:29]) == time


def test_a_time_outside_the_calendar_has_no_text() -> None:
    assert IsoTimes().text(10**30) is None
