from __future__ import annotations

from pulsarscope.model.utc import utc_seconds


def test_a_time_in_utc_is_its_seconds_on_every_python() -> None:
    assert utc_seconds("1970-01-01T00:00:01Z") == 1
    assert utc_seconds("2036-11-18T07:12:10Z") == 2_110_605_130
