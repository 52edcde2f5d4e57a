"""Lines of journeys."""

from __future__ import annotations

import pytest

from pulsarscope.output.render.journeys import _filled


@pytest.mark.parametrize(
    ("room", "lines"),
    [
        (1 << 30, ["8:0  orders  sub a  receipt 24.7 ms"]),
        (20, ["8:0  orders  sub a", "receipt 24.7 ms"]),
        (3, ["8:0", "orders", "sub a", "receipt 24.7 ms"]),
    ],
)
def test_steps_that_do_not_fit_stand_below(room: int, lines: list[str]) -> None:
    assert _filled(["8:0", "orders", "sub a", "receipt 24.7 ms"], room) == lines
